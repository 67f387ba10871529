"""The option -o: the format of the result, and of ``create`` and ``pull`` also a directory, as csctl in Go has it."""

from __future__ import annotations

import os
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from clusterstacks.cli.shared import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.charts.vendor import ChartDependencies
    from clusterstacks.http.client import HTTPClient

TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = frozenset({TEXT, JSON, "sarif", "table", "yaml"})
"""Every name of a format that a verb has: none of them is a directory, which ``./json`` is."""

NEW_DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)


def form_option(*forms: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option -o of a verb whose result has these formats, the first by default."""
    choice = click.Choice(forms or (TEXT, JSON))
    return click.option(
        "--output",
        "-o",
        "form",
        type=choice,
        default=choice.choices[0],
        show_default=True,
        help="Format of the result.",
    )


def form_or_directory_options(default: Path, what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the options -o and -d of a verb that writes a directory, for :func:`form_and_directory`.

    Args:
        default: The directory without either option.
        what: What goes into it, for the help.
    """
    format_help = (
        "Format of the result: text or json. Anything else is taken for --output-dir, as in csctl written in Go."
    )
    form = click.option("--output", "-o", "wanted", metavar="FORMAT", default=TEXT, show_default=True, help=format_help)
    directory = click.option(
        "--output-dir", "-d", "directory_given", type=NEW_DIRECTORY, help=f"Directory for {what}.  [default: {default}]"
    )
    return lambda command: form(directory(command))


def form_and_directory(wanted: str, given: Path | None, default: Path) -> tuple[str, Path]:
    """Tell the value of -o, which is a format or a directory, from that of -d.

    Args:
        wanted: The value of -o.
        given: The value of -d; None without it.
        default: The directory where neither names one.

    Raises:
        UsageError: The verb does not have the format, or both options name a directory.
    """
    if wanted in (TEXT, JSON):
        return wanted, given or default
    if wanted in FORMATS:
        raise click.UsageError(f"-o takes text or json here, not {wanted}; a directory of this name is ./{wanted}")
    if given is not None:
        raise click.UsageError(f"-o {wanted} and -d {given} both name a directory: leave one out")
    directory = Path(wanted)
    if directory.exists() and not directory.is_dir():
        raise click.UsageError(f"-o {wanted}: this is a file, not a directory")
    return TEXT, directory


COLOURS: Final = ("auto", "always", "never")


def global_options(*, hidden: bool = False) -> list[click.Parameter]:
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


def accept_global_options(command: click.Command) -> click.Command:
    """Let a verb, and the verbs below it, take the options as well: people write them at the end of the line."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            accept_global_options(below)
    elif not command.ignore_unknown_options and not any(one.name == "verbose" for one in command.params):
        command.params.extend(global_options(hidden=True))
    return command


def _flag(names: list[str], text: str, *, hidden: bool) -> click.Parameter:
    return click.Option(
        names, is_flag=True, expose_value=False, is_eager=True, hidden=hidden, callback=_set_flag, help=text
    )


def _set_colour(context: click.Context, option: click.Parameter, value: str) -> None:
    if context.get_parameter_source(str(option.name)) is not click.core.ParameterSource.DEFAULT:
        output.SETTINGS.colour = value
    context.color = output.SETTINGS.colours


def _set_flag(context: click.Context, option: click.Parameter, value: bool) -> None:  # noqa: ARG001, FBT001 - click's
    if value:
        setattr(output.SETTINGS, str(option.name), True)


FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY: Final = click.Path(exists=True, file_okay=False, path_type=Path)


def minor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubernetes and --all-minors, which exclude each other."""

    @wraps(command)
    def checked(*arguments: Any, kubernetes: str, all_minors: bool, **options: Any) -> Any:  # noqa: ANN401 - click's
        if kubernetes and all_minors:
            raise click.UsageError("--kubernetes and --all-minors exclude each other")
        return command(*arguments, kubernetes=kubernetes, all_minors=all_minors, **options)

    one = click.option(
        "--kubernetes",
        metavar="1-35",
        default="",
        help="Use this minor of versions.yaml or stack.yaml.  [default: the version of csctl.yaml]",
    )
    return one(click.option("--all-minors", is_flag=True, help="For every minor.")(checked))


CHART_CACHE = Path("cluster-stacks", "charts")
"""Below the user's cache directory (XDG base directory specification)."""


def dependency_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --dependencies and --offline, for ``chart_dependencies``."""
    offline = click.option("--offline", is_flag=True, help="Take chart dependencies from the cache only.")
    choice = click.option(
        "--dependencies",
        type=click.Choice(["vendor", "leave"]),
        default="vendor",
        show_default=True,
        help="Add what charts depend on as csctl create does, or leave charts as they are.",
    )
    return choice(offline(command))


def chart_dependencies(web: HTTPClient, dependencies: str, *, offline: bool) -> ChartDependencies | None:
    """Return what adds chart dependencies; None where they are to be left."""
    from clusterstacks.charts.vendor import ChartDependencies
    from clusterstacks.oci.credentials import find_credentials

    if dependencies == "leave":
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return ChartDependencies(
        web, home / CHART_CACHE, offline=offline, credentials=partial(find_credentials, environ=os.environ)
    )
