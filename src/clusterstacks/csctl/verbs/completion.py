"""``csctl completion``: print the completion script of a shell, whose calls of csctl are limited."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output

if TYPE_CHECKING:
    from collections.abc import Sequence

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_CSCTL_COMPLETE"
"""The environment variable in which a script asks click for completions."""

SECONDS = 2.5
"""Time after which a completion ends without a result (arbitrary: a user who waits longer types the name)."""


def prepare_completion() -> None:
    """If a script asks for completions, print nothing else, and end after ``SECONDS``, whatever csctl waits for."""
    if not os.environ.get(VARIABLE, "").endswith("_complete"):
        return
    from click import shell_completion

    class BashComplete(shell_completion.BashComplete):
        def get_completion_args(self) -> tuple[list[str], str]:
            words, incomplete = super().get_completion_args()
            *words, incomplete = join_assignments([*words, incomplete])
            return words, incomplete

    shell_completion.add_completion_class(BashComplete)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # standard error
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)


def join_assignments(words: Sequence[str]) -> list[str]:
    """Join an option, ``=`` and its value, which bash splits into three words."""
    joined: list[str] = []
    before = ""
    for word in words:
        if joined and joined[-1].startswith("--") and "=" in (word, before):
            joined[-1] += word
        else:
            joined.append(word)
        before = word
    return joined


@click.command(short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes verbs, options, files, and names of objects in a shell.

    Names of Clusters, releases, namespaces and contexts are those of the management cluster of the command line. If it
    does not answer within two seconds, or refuses, nothing is completed.

    bash: add  eval "$(csctl completion bash)"  to ~/.bashrc

    zsh: add  eval "$(csctl completion zsh)"  to ~/.zshrc, after compinit

    fish: csctl completion fish > ~/.config/fish/completions/csctl.fish
    """
    from click.shell_completion import get_completion_class

    complete_class = get_completion_class(shell)
    if complete_class is not None:
        script = complete_class(context.find_root().command, {}, output.PROGRAM, VARIABLE)
        output.print_text(script.source_template % script.source_vars())
