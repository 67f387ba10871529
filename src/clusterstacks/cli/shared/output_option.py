"""The option -o: the format of the result, and of ``create`` and ``pull`` also a directory, as csctl in Go has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = frozenset({TEXT, JSON, "sarif", "table", "yaml"})
"""Every name of a format that a verb has: none of them is a directory, which ``./json`` is."""

DIRECTORY: Final = click.Path(file_okay=False, path_type=Path)


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
        "--output-dir", "-d", "directory_given", type=DIRECTORY, help=f"Directory for {what}.  [default: {default}]"
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
