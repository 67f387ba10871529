"""Prints for ``csctl``: results to standard output, progress and errors to standard error; and ends it."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.domain.errors import ClusterStacksError, DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = "csctl"
FAILED = 1
MUST_CHANGE = 2
NEGATIVE = 3
UNDECIDED = 4
BUG = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

EXIT_CODES = {
    0: "done; of verbs that answer a question: the answer is yes",
    FAILED: (
        "something outside failed, and the same command may work later; also: diff --exit-code found a difference, "
        "dev status found something that does not run"
    ),
    MUST_CHANGE: "the command line, a file or a setting must be changed; also: lint found errors",
    NEGATIVE: (
        "the answer is no: create found nothing changed, verify no signature by one of the keys, compat check an "
        "incompatible combination, plan and why no way"
    ),
    UNDECIDED: "plan and why gave up the search undecided",
    BUG: "a bug of csctl",
    INTERRUPTED: "interrupted by Ctrl-C",
}
"""Every exit code and its meaning."""

NOTED = 10
"""How many texts of one kind are printed (arbitrary: a screen has room for the result, too)."""
TRACE_VARIABLE = "CSCTL_TRACEBACK"

_FULL = "make room on that disk"
_WAYS_OUT = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: "choose another place",
    errno.EACCES: "ask for access to it, or choose another place",
    errno.EPERM: "ask for access to it, or choose another place",
    errno.EEXIST: "move it away, or choose another place",
    errno.ENOENT: "correct the path",
    errno.ENOTDIR: "correct the path",
    errno.EISDIR: "correct the path",
    errno.EIO: "look at that disk",
}
"""What to do when the operating system refuses a file."""

_EVIDENCE = {
    "CredentialsRefused": (
        "for a registry: 'docker login REGISTRY' or 'podman login REGISTRY', or set OCI_REGISTRY with OCI_USERNAME and",
        "OCI_PASSWORD, or with OCI_ACCESS_TOKEN; for GitHub: set GIT_ACCESS_TOKEN",
    )
}
"""Where csctl takes from what an error asks for, by the error's code: errors are also those of the operator."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys instead of printing it, or cannot print; names and messages may come from anywhere."""


@dataclass(slots=True)
class OutputSettings:
    """How this run of csctl prints, as its options say.

    Args:
        colour: ``auto``, ``always`` or ``never``.
        quiet: Leave out progress and notes.
        verbose: Also print HTTP requests, and the traceback of an error.
    """

    colour: str = "auto"
    quiet: bool = False
    verbose: bool = False

    @property
    def colours(self) -> bool | None:
        """Whether to print colours; None leaves it to whether the output is a terminal.

        NO_COLOR: https://no-color.org.
        """
        if self.colour != "auto":
            return self.colour == "always"
        return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


SETTINGS = OutputSettings()
"""That of this process; :func:`run` begins with the defaults."""


def run(command: Callable[[], object]) -> int:
    """Run a command and translate how it ends into an exit code; no traceback reaches the user unless asked for."""
    SETTINGS.colour, SETTINGS.quiet, SETTINGS.verbose = "auto", False, bool(os.environ.get(TRACE_VARIABLE))
    try:
        result = command()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, it becomes an exit code
        return _exit_code(error)
    return result if isinstance(result, int) else 0


def _exit_code(error: BaseException) -> int:
    """Tell the user what happened, and give the exit code for it."""
    code = BUG
    if SETTINGS.verbose and isinstance(error, (ClusterStacksError, OSError)):
        traceback.print_exception(error)
    match error:
        case click.exceptions.Exit():
            code = error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            click.echo(error.ctx.get_help())
            code = 0
        case click.ClickException():
            error.show()
            code = error.exit_code
        case ClusterStacksError():
            show_error(error)
            code = FAILED if isinstance(error, DependencyError) else MUST_CHANGE
        case KeyboardInterrupt() | click.Abort():
            click.echo("interrupted", err=True)
            code = INTERRUPTED
        case BrokenPipeError():
            # The reader (head, less) has enough. What is still buffered must not fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        case OSError() if error.filename is not None or error.errno in _WAYS_OUT:
            show_error(_file_error(error))
            code = FAILED
        case _:
            _show_bug(error)
    return code


def _file_error(error: OSError) -> SpecError:
    """Say what the disk refused; a write that failed does not tell the name of its file."""
    file = error.filename2 or error.filename  # of two, the second is the one that is written
    place = f"{file}: " if file is not None else ""
    remedy = _WAYS_OUT.get(error.errno or 0, "")
    return SpecError("FileFailed", f"{place}{error.strerror}{f': {remedy}' if remedy else ''}")


def printable(text: str) -> str:
    r"""Return text with its control characters written out, as ``\x1b``: a terminal must not obey a message."""
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def show_error(error: ClusterStacksError) -> None:
    """Print an error: its first line says object, cause and way out, further lines are evidence."""
    first, *rest = error.message.splitlines() or [error.code]
    _echo(f"{click.style('Error:', fg='red', bold=True)} {printable(first)}", err=True)
    for line in (*rest, *_EVIDENCE.get(error.code, ())):
        _echo(printable(f"  {line}"), err=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns, as kubectl does."""
    cells = [list(header), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        line = "   ".join(padded).rstrip()
        _echo(click.style(line, bold=True) if number == 0 else line)


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print a document for programs."""
    click.echo(json.dumps(document, indent=2))


def print_text(text: str, file: Path | None = None) -> None:
    """Print a document as it is, or write it to a file; a terminal gets no control characters.

    Raises:
        OSError: The file cannot be written.
    """
    if file is not None:
        file.write_text(text, encoding="utf-8")
    else:
        click.echo(printable(text) if sys.stdout.isatty() else text, nl=False)


def say(text: str, *, colour: str | None = None, bold: bool = False) -> None:
    """Print a line about what the command found or did."""
    plain = printable(text)
    _echo(click.style(plain, fg=colour, bold=bold or None) if colour or bold else plain)


def say_digests(*, content: str, manifest: str = "") -> None:
    """Print the digests of a release: of its files, and of the manifest that holds them in a registry, if any."""
    if manifest:
        say(f"  manifest digest: {manifest}")
    say(f"  content digest:  {content}")


def note(text: str) -> None:
    """Print a line beside the result, unless csctl is quiet."""
    if not SETTINGS.quiet:
        _echo(printable(text), err=True)


def warn(text: str) -> None:
    """Print a warning beside the result."""
    _echo(f"{click.style('Warning:', fg='yellow', bold=True)} {printable(text)}", err=True)


def trace(text: str) -> None:
    """Print a line that only a search for an error needs."""
    if SETTINGS.verbose:
        _echo(click.style(printable(text), dim=True), err=True)


def note_some(label: str, texts: Sequence[str]) -> None:
    """Print the first of some texts beside the result, each on a line, and how many more there are."""
    for text in texts[:NOTED]:
        note(f"{label}: {text}")
    if len(texts) > NOTED:
        note(f"{label}: {len(texts) - NOTED} more")


def program() -> str:
    """Return how to call this program again: ``csctl`` where the shell finds it, else as it was called now."""
    called, found = Path(sys.argv[0]), shutil.which(PROGRAM)
    if called.name != PROGRAM or (found and called.resolve() == Path(found).resolve()):
        return PROGRAM
    return shlex.quote(str(called))


def progress() -> Callable[[str], None]:
    """Return a function that prints a line of progress with the time since now."""
    began = time.monotonic()

    def report(text: str) -> None:
        if not SETTINGS.quiet:
            _echo(f"{click.style(f'{time.monotonic() - began:6.1f} s', dim=True)}  {printable(text)}", err=True)

    return report


def megabytes(count: int) -> str:
    """Write a number of bytes as ``456 MB``."""
    return f"{count / 1e6:.0f} MB"


def _echo(text: str, *, err: bool = False) -> None:
    click.echo(text, err=err, color=SETTINGS.colours)


def _show_bug(error: BaseException) -> None:
    if SETTINGS.verbose:
        traceback.print_exception(error)
    else:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        _echo(printable(f"csctl has a bug: {what}; please report it with the output of csctl --verbose"), err=True)
