"""``csctl help``: print the help of csctl or of a verb."""

from __future__ import annotations

import click


@click.command(short_help="Print the help of csctl or of a verb.")
@click.argument("verbs", metavar="[VERB...]", nargs=-1)
@click.pass_context
def help(context: click.Context, verbs: tuple[str, ...]) -> None:  # noqa: A001 - the verb's name
    """Print what 'csctl VERB --help' prints."""
    here = context.find_root()
    for verb in verbs:
        if not isinstance(here.command, click.Group):
            raise click.UsageError(f"'{here.command_path}' has no subcommands: remove {verb!r}")
        name, command, _ = here.command.resolve_command(here, [verb])
        if command is not None:
            here = click.Context(command, info_name=name, parent=here)
    click.echo(here.get_help())
