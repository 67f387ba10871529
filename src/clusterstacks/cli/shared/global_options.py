"""The options that csctl and every verb have: --color, --quiet and --verbose."""

from __future__ import annotations

from typing import Final

import click

from clusterstacks.cli.shared import output

COLOURS: Final = ("auto", "always", "never")


def options(*, hidden: bool = False) -> list[click.Parameter]:
    """Return the options; hidden ones are accepted but not in the help."""
    help_of_colour = "When to use colours. auto: on a terminal, unless NO_COLOR is set or TERM is dumb."
    return [
        click.Option(
            ["--color"],
            type=click.Choice(COLOURS),
            default="auto",
            show_default=True,
            expose_value=False,
            is_eager=True,
            hidden=hidden,
            callback=_set_colour,
            help=help_of_colour,
        ),
        _flag(["--quiet", "-q"], "Print results, warnings and errors only, without progress and notes.", hidden=hidden),
        _flag(["--verbose", "-v"], "Also print HTTP requests, and Python's traceback of an error.", hidden=hidden),
    ]


def accepting(command: click.Command) -> click.Command:
    """Let a verb, and the verbs below it, take the options as well: people write them at the end of the line."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            accepting(below)
    elif not command.ignore_unknown_options and not any(one.name == "verbose" for one in command.params):
        command.params.extend(options(hidden=True))
    return command


def _flag(names: list[str], text: str, *, hidden: bool) -> click.Parameter:
    return click.Option(
        names, is_flag=True, expose_value=False, is_eager=True, hidden=hidden, callback=_set_flag, help=text
    )


def _set_colour(context: click.Context, option: click.Parameter, value: str) -> None:
    if context.get_parameter_source(str(option.name)) is not click.core.ParameterSource.DEFAULT:
        output.MANNER.colour = value
    context.color = output.MANNER.colours


def _set_flag(context: click.Context, option: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 - click's
    if value:
        setattr(output.MANNER, str(option.name), True)
