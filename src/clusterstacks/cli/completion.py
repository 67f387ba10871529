"""``csctl completion``: print the completion script of a shell."""

from __future__ import annotations

import click

from clusterstacks.cli.shared import output

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_CSCTL_COMPLETE"
"""The environment variable that click uses for completion."""


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes verbs, options and files in a shell.

    bash: add  eval "$(csctl completion bash)"  to ~/.bashrc

    zsh: add  eval "$(csctl completion zsh)"  to ~/.zshrc, after compinit

    fish: csctl completion fish > ~/.config/fish/completions/csctl.fish
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is not None:
        script = found(context.find_root().command, {}, output.PROGRAM, VARIABLE)
        output.print_text(script.source_template % script.source_vars())
