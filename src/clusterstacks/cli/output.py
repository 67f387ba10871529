"""How ``csctl`` speaks: results to standard output, progress and errors to standard error, one exit code a meaning.

====  =========================================================================================
0     done
1     something outside failed or is not as it should be; the same command may work later
2     the command line, a file or a setting must be changed
70    a bug of csctl
130   interrupted by Ctrl-C
====  =========================================================================================
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.domain.errors import ClusterStacksError, DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = "csctl"
FAILED = 1
MUST_CHANGE = 2
BUG = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells have it
TRACE_VARIABLE = "CSCTL_TRACEBACK"


def run(command: Callable[[], object]) -> int:
    """Run a command and translate how it ends into an exit code; no traceback reaches the user."""
    try:
        result = command()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, it becomes an exit code
        return _exit_code(error)
    return result if isinstance(result, int) else 0


def _exit_code(error: BaseException) -> int:
    """Tell the user what happened, and give the exit code for it."""
    code = BUG
    match error:
        case click.exceptions.Exit():
            code = error.exit_code
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
        case OSError(filename=str() | os.PathLike()):  # a full disk, a directory that is not ours
            show_error(SpecError("FileFailed", f"{error.filename}: {error.strerror}"))
            code = FAILED
        case _:
            _show_bug(error)
    return code


def show_error(error: ClusterStacksError) -> None:
    """Print an error: its first line says object, cause and way out, further lines are evidence."""
    first, *rest = error.message.splitlines() or [error.code]
    click.echo(f"{click.style('Error:', fg='red', bold=True)} {first}", err=True)
    for line in rest:
        click.echo(f"  {line}", err=True)


def print_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print aligned columns, as kubectl does."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    for number, row in enumerate(cells):
        padded = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        line = "   ".join(padded).rstrip()
        click.echo(click.style(line, bold=True) if number == 0 else line)


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print a document for programs."""
    click.echo(json.dumps(document, indent=2))


def say(text: str) -> None:
    """Print a line about what the command found or did."""
    click.echo(text)


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
        click.echo(f"{click.style(f'{time.monotonic() - began:6.1f} s', dim=True)}  {text}", err=True)

    return report


def megabytes(count: int) -> str:
    """Write a number of bytes as ``456 MB``."""
    return f"{count / 1e6:.0f} MB"


def _show_bug(error: BaseException) -> None:
    if os.environ.get(TRACE_VARIABLE):
        traceback.print_exception(error)
    else:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        click.echo(f"csctl has a bug: {what}; please report it with the output of {TRACE_VARIABLE}=1", err=True)
