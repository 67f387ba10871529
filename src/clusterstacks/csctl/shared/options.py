"""Options that several verbs share: output format, files, Kubernetes minors, chart dependencies, and global options."""

from __future__ import annotations

import os
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from clusterstacks.csctl.shared import output

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.release.charts.vendor import ChartDependencies

Command = TypeVar("Command", bound="Callable[..., Any]")
"""The function of a verb, of which an option keeps the type."""

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
"""Type of options with an existing file."""
DIRECTORY: Final = click.Path(exists=True, file_okay=False, path_type=Path)
"""Type of options with an existing directory."""
NEW_DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)
"""Type of options with a directory that may not exist."""


class Seconds(click.ParamType[float]):
    """Parameter type of a time limit: a duration as in all files (``1m30s``), or a number of seconds."""

    name = "DURATION"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # noqa: ANN401 - click's signature
        """Return the seconds, which are more than zero."""
        from clusterstacks.model.documents import parse_duration
        from clusterstacks.model.errors import SpecError

        try:
            seconds = float(value)
        except ValueError:
            try:
                seconds = parse_duration(value).total_seconds()
            except SpecError as error:
                self.fail(error.message, param, ctx)
        if not 0 < seconds < float("inf"):
            self.fail(f"{value} is not a time limit (expected for example 30s, or a number of seconds)", param, ctx)
        return seconds


TEXT: Final = "text"
JSON: Final = "json"
YAML: Final = "yaml"
FORMATS: Final = frozenset({TEXT, JSON, YAML, "sarif", "table"})
"""All output formats. None of them is accepted as a directory; ``./json`` is."""

COLOURS: Final = ("auto", "always", "never")

CHART_CACHE = Path("cluster-stacks", "charts")
"""The chart cache, below the user's cache directory (XDG base directory specification)."""


def global_options(*, hidden: bool = False) -> list[click.Parameter]:
    """Return the options of csctl and of every verb; hidden options are accepted, but not part of the help."""
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
            help="When to print colours. auto: on a terminal, unless NO_COLOR is set or TERM is dumb.",
        ),
        _flag(["--quiet", "-q"], "Print only results, warnings and errors, without progress and notes.", hidden=hidden),
        _flag(["--verbose", "-v"], "Also print HTTP requests, and the Python traceback of an error.", hidden=hidden),
    ]


def accept_global_options(command: click.Command) -> click.Command:
    """Add the hidden global options to a verb and its subcommands, so that they may follow the verb."""
    if isinstance(command, click.Group):
        for below in command.commands.values():
            accept_global_options(below)
    elif not command.ignore_unknown_options and not any(option.name == "verbose" for option in command.params):
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


def form_option(*forms: str) -> Callable[[Command], Command]:
    """Return the option -o with these output formats (text, json and yaml without any); the first is the default."""
    choice = click.Choice(forms or (TEXT, JSON, YAML))
    return click.option(
        "--output", "-o", "form", type=choice, default=choice.choices[0], show_default=True, help="Output format."
    )


def form_or_directory_options(default: Path, what: str) -> Callable[[Command], Command]:
    """Return the options -o and -d of a verb that writes a directory, for :func:`form_and_directory`.

    ``default`` is the directory without either option, ``what`` the content of the directory for the help.
    """
    form_help = "Output format: text, json or yaml. Any other value is used as --output-dir, as in csctl written in Go."
    form = click.option("--output", "-o", "wanted", metavar="FORMAT", default=TEXT, show_default=True, help=form_help)
    directory = click.option(
        "--output-dir", "-d", "directory_given", type=NEW_DIRECTORY, help=f"Directory for {what}.  [default: {default}]"
    )
    return lambda command: form(directory(command))


def form_and_directory(wanted: str, given: Path | None, default: Path) -> tuple[str, Path]:
    """Return the output format and the directory that -o (``wanted``) and -d (``given``) name.

    Raises:
        UsageError: The verb does not have the format, or both options name a directory.
    """
    if wanted in (TEXT, JSON, YAML):
        return wanted, given or default
    if wanted in FORMATS:
        raise click.UsageError(
            f"-o is {wanted} (expected text, json or yaml; for a directory of this name use ./{wanted})"
        )
    if given is not None:
        raise click.UsageError(f"-o {wanted} and -d {given} both name a directory: remove one")
    directory = Path(wanted)
    if directory.exists() and not directory.is_dir():
        raise click.UsageError(f"-o {wanted} is a file (expected a directory)")
    return TEXT, directory


example_objects_option = click.option(
    "--cluster", type=FILE, help="YAML file with Cluster, control plane and infrastructure object for values templates."
)

kubernetes_option = click.option(
    "--kubernetes",
    metavar="1-35",
    default="",
    help="Use this minor of versions.yaml or stack.yaml.  [default: the version of csctl.yaml]",
)


def minor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubernetes and --all-minors, which exclude each other."""

    @wraps(command)
    def checked(*arguments: Any, kubernetes: str, all_minors: bool, **options: Any) -> Any:  # noqa: ANN401 - click's
        if kubernetes and all_minors:
            raise click.UsageError("--kubernetes cannot be combined with --all-minors")
        return command(*arguments, kubernetes=kubernetes, all_minors=all_minors, **options)

    return kubernetes_option(click.option("--all-minors", is_flag=True, help="Use every minor.")(checked))


def dependency_options(command: Command) -> Command:
    """Add --dependencies and --offline, for :func:`chart_dependencies`."""
    offline = click.option("--offline", is_flag=True, help="Use only the cache for chart dependencies.")
    choice = click.option(
        "--dependencies",
        type=click.Choice(["vendor", "leave"]),
        default="vendor",
        show_default=True,
        help="Add chart dependencies as csctl create does, or leave charts unchanged.",
    )
    return choice(offline(command))


def chart_dependencies(web: HTTPClient, dependencies: str, *, offline: bool) -> ChartDependencies | None:
    """Return the object that adds chart dependencies; None with ``--dependencies leave``."""
    from clusterstacks.net.oci.credentials import find_credentials
    from clusterstacks.release.charts.vendor import ChartDependencies

    if dependencies == "leave":
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return ChartDependencies(
        web, home / CHART_CACHE, offline=offline, credentials=partial(find_credentials, environ=os.environ)
    )
