"""Output and exit codes of ``csctl``: results on standard output, progress, notes and errors on standard error."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
import sys
import threading
import time
import traceback
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from clusterstacks.csctl.shared.terminal import HANGING, OutputSettings, ResultMark, columns, cut, is_terminal, wrap
from clusterstacks.model.documents import CONTROL_CHARACTERS, listed, without_line_breaks
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

T = TypeVar("T")

PROGRAM = "csctl"
PLUGIN = "kubectl-clusterstacks"
"""The name under which kubectl finds csctl as a plugin."""
FAILED = 1
MUST_CHANGE = 2
NEGATIVE = 3
UNDECIDED = 4
BUG = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells have it

EXIT_CODES = {
    0: "success; for verbs that check something: the result is positive",
    FAILED: (
        "an external failure, so that the same command may succeed later; also: diff or drift --exit-code found a "
        "difference, or dev status a component that does not run"
    ),
    MUST_CHANGE: (
        "the command line, a file or a setting must be changed; also: lint found errors, or drift --exit-code could "
        "not compare all objects"
    ),
    NEGATIVE: (
        "a negative result: create found no changes, verify no signature by one of the keys, compat check an "
        "incompatible combination, plan, why and upgrade no plan, or an upgrade failed or is blocked"
    ),
    UNDECIDED: "the search of plan, why or upgrade stopped without a result, or upgrade --wait ended before it",
    BUG: "a bug in csctl",
    INTERRUPTED: "interrupted by Ctrl-C",
}
"""Every exit code and its meaning."""

GAP = "   "
"""Blanks between the columns of a table."""

NARROWEST_COLUMN = 8
"""Columns to which a cell is cut at most (arbitrary)."""

NOTED = 10
"""Maximum number of notes of one kind (arbitrary: the result must stay on the screen)."""
TRACE_VARIABLE = "CSCTL_TRACEBACK"

_FULL = "free space on this disk"
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: "choose another path",
    errno.EACCES: "correct the permissions, or choose another path",
    errno.EPERM: "correct the permissions, or choose another path",
    errno.EEXIST: "move it away, or choose another path",
    errno.ENOENT: "correct the path",
    errno.ENOTDIR: "correct the path",
    errno.EISDIR: "correct the path",
    errno.EIO: "check this disk",
}
"""Remedies by the error of the operating system."""

_EVIDENCE = {
    "CredentialsRefused": (
        "for a registry: 'csctl login REGISTRY' or 'docker login REGISTRY', or set OCI_REGISTRY with OCI_USERNAME and",
        "OCI_PASSWORD, or with OCI_ACCESS_TOKEN; for GitHub: set GIT_ACCESS_TOKEN",
    )
}
"""Details that only csctl prints, by error code; the same errors also occur in the operator."""


COUNT_SECONDS = 0.5
"""Interval of the counter of a running verb (arbitrary)."""

SILENT_SECONDS = 2.0
"""Time without output after which the counter shows (arbitrary)."""

_STATUS_SHOWN: list[str] = []
"""The line that :func:`show_status` wrote, until it is removed."""

_LAST_SHOWN = [0.0]
"""Monotonic time of the last output on standard error."""

_WRITING = threading.RLock()
"""Held while standard error is written, because the counter is another thread."""

SETTINGS = OutputSettings()
"""The options of this process; :func:`run` resets them."""


def run(command: Callable[[], object]) -> int:
    """Run a command and return its exit code; tracebacks are printed only with --verbose."""
    SETTINGS.colour, SETTINGS.quiet, SETTINGS.verbose = "auto", False, bool(os.environ.get(TRACE_VARIABLE))
    try:
        result = command()
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - whatever it is, it becomes an exit code
        return _exit_code(error)
    finally:
        clear_status()
    return result if isinstance(result, int) else 0


def show_status(text: str) -> None:
    """Replace the line below the output on a terminal, which the next output removes."""
    with _WRITING:
        _LAST_SHOWN[0] = time.monotonic()
        _write_status(text)


def _write_status(text: str) -> None:
    _STATUS_SHOWN[:] = [text]
    sys.stderr.write(f"\r{printable(text)}\x1b[K")
    sys.stderr.flush()


def clear_status() -> None:
    """Remove the line of :func:`show_status`."""
    with _WRITING:
        _LAST_SHOWN[0] = time.monotonic()
        if _STATUS_SHOWN:
            _STATUS_SHOWN.clear()
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@contextmanager
def counting() -> Iterator[None]:
    """Show on a terminal how long the block has been running, as often as it prints nothing for two seconds.

    The block must not ask the user anything.
    """
    if SETTINGS.quiet or not is_terminal(err=True):
        yield
        return
    began = _LAST_SHOWN[0] = time.monotonic()
    ended = threading.Event()

    def count() -> None:
        while not ended.wait(COUNT_SECONDS):
            with _WRITING:
                if time.monotonic() - _LAST_SHOWN[0] >= SILENT_SECONDS:
                    _write_status(f"{time.monotonic() - began:6.1f} s  …")

    counter = threading.Thread(target=count, daemon=True)
    counter.start()
    try:
        yield
    finally:
        ended.set()
        counter.join()
        clear_status()


def run_counted(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, with a counter of :func:`counting`."""
    import asyncio

    with counting():
        return asyncio.run(work)


def _exit_code(error: BaseException) -> int:
    """Print an error and return its exit code."""
    clear_status()
    code = BUG
    if SETTINGS.verbose and isinstance(error, (ClusterStacksError, OSError)):
        traceback.print_exception(error)
    match error:
        case BaseExceptionGroup():  # of tasks that ran beside each other
            code = _exit_code(error.exceptions[0])
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
            # The reader (head, less) has closed the pipe. Buffered output must not fail again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 0
        case OSError() if error.filename is not None or error.errno in _REMEDIES:
            show_error(_file_error(error))
            code = FAILED
        case _:
            _show_bug(error)
    return code


def _file_error(error: OSError) -> SpecError:
    """Return the error of a file operation; a failed write has no file name."""
    file = error.filename2 or error.filename  # the second of two names is the target
    place = f"{file}: " if file is not None else ""
    remedy = _REMEDIES.get(error.errno or 0, "")
    return SpecError("FileFailed", f"{place}{error.strerror}{f': {remedy}' if remedy else ''}")


def printable(text: str) -> str:
    r"""Return a text in one line, with escaped control characters such as ``\x1b``."""
    return _escaped(without_line_breaks(text).replace("\t", " "))


def _escaped(text: str) -> str:
    return CONTROL_CHARACTERS.sub(lambda control: control[0].encode("unicode_escape").decode(), text)


def show_error(error: ClusterStacksError) -> None:
    """Print an error: the first line names object, cause and remedy, further lines are details."""
    first, *rest = _message(error).splitlines() or [error.code]
    _echo(f"{click.style('Error:', fg='red', bold=True)} {printable(first)}", err=True, wraps=True)
    for line in (*rest, *_EVIDENCE.get(error.code, ())):
        _echo(printable(f"  {line}"), err=True, wraps=True)


def _message(error: ClusterStacksError) -> str:
    """Return the message; for a 403 of RBAC the missing right, because the server repeats the request and the user."""
    if error.code != "Forbidden":
        return error.message
    from clusterstacks.net.kube.errors import Forbidden

    missing = error.missing if isinstance(error, Forbidden) else None
    return f"{missing}: ask for this right, or name a namespace with -n" if missing else error.message


def show_failures(lines: Sequence[str], summary: str, errors: Sequence[ClusterStacksError]) -> int:
    """Print the failures of a verb that continued after them (a line each), and return its exit code.

    If a retry cannot succeed for any of the errors, the exit code says so.
    """
    retry = any(isinstance(error, DependencyError) for error in errors)
    show_error(SpecError("Incomplete", listed(f"{summary}:", lines)))
    return FAILED if retry else MUST_CHANGE


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[object]], *, marks: Mapping[str, ResultMark] = MappingProxyType({})
) -> None:
    """Print aligned columns, as kubectl does.

    Cells have the colours of ``marks``, by their text. A terminal that is too narrow wraps the last column, or cuts the
    widest ones if the others take more than half of it.
    """
    cells = [list(header), *([printable(str(cell)) for cell in row] for row in rows)]
    widths = _fitted([max(len(row[column]) for row in cells) for column in range(len(header))], columns())
    _print_cells(cells[0], widths, lambda cell: click.style(cell, bold=True))
    for row in cells[1:]:
        _print_cells(row, widths, lambda cell: _styled(cell, marks))


def table_width(rows: Iterable[Sequence[str]]) -> int:
    """Return the columns that a table of these rows takes."""
    return _total([max(map(len, cells)) for cells in zip(*rows, strict=True)])


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _fitted(widths: Sequence[int], width: int) -> list[int]:
    """Return the widths of columns that fit, unless the last column can be wrapped; 0 fits everything."""
    fitted = list(widths)
    if not width or _total(fitted) - fitted[-1] <= width // 2:
        return fitted
    while _total(fitted) > width and max(fitted) > NARROWEST_COLUMN:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _print_cells(cells: Sequence[str], widths: Sequence[int], style: Callable[[str], str]) -> None:
    width, last = columns(), _total(widths) - widths[-1]
    hang = last if last <= width // 2 else HANGING
    limits = [*widths[:-1], widths[-1] if hang == HANGING and width else len(cells[-1])]
    shown = [cut(cell, limit) for cell, limit in zip(cells, limits, strict=True)]
    padded = [cell.ljust(size) for cell, size in zip(shown[:-1], widths, strict=False)]
    _echo(wrap(GAP.join(map(style, [*padded, shown[-1]])).rstrip(), width, hang))


def _styled(cell: str, marks: Mapping[str, ResultMark]) -> str:
    mark = marks.get(cell.rstrip())
    return click.style(cell, fg=mark.colour) if mark is not None else cell


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print a document as indented JSON."""
    clear_status()
    click.echo(json.dumps(document, indent=2))


def print_document(document: Any, form: str) -> None:  # noqa: ANN401 - any JSON value
    """Print a document as ``json`` or ``yaml``."""
    if form == "json":
        print_json(document)
    else:
        from clusterstacks.model import yaml

        clear_status()
        # JSON has no tuples and no enumerations, so that both formats have the same values.
        click.echo(yaml.dump(json.loads(json.dumps(document))), nl=False)


def print_text(text: str, file: Path | None = None) -> None:
    """Print a text unchanged, or write it to a file; control characters are escaped on a terminal."""
    if file is not None:
        file.write_text(text, encoding="utf-8")
    else:
        clear_status()
        click.echo(_escaped(text) if sys.stdout.isatty() else text, nl=False)


def say(text: str, *, colour: str | None = None, bold: bool = False, wraps: bool = False) -> None:
    """Print a line of the result; ``wraps`` wraps it on a terminal, which would break a command."""
    plain = printable(text)
    _echo(click.style(plain, fg=colour, bold=bold or None) if colour or bold else plain, wraps=wraps)


def say_lines(*lines: str) -> None:
    """Print lines of the result."""
    for line in lines:
        say(line)


def say_marked(mark: str, text: str, colour: str, *, indent: int = 0) -> None:
    """Print a line of the result after a coloured mark."""
    _echo(f"{' ' * indent}{click.style(mark, fg=colour)} {printable(text)}".rstrip(), wraps=True)


def say_judged(mark: ResultMark, text: str, *, indent: int = 0) -> None:
    """Print a line of the result, on a terminal after a mark."""
    if is_terminal():
        say_marked(mark.sign, text, mark.colour, indent=indent)
    else:
        say(f"{' ' * indent}{text}")


def say_digests(*, content: str, manifest: str = "") -> None:
    """Print the digests of a release: of its content, and of its manifest if it is in a registry."""
    if manifest:
        say(f"  manifest digest: {manifest}")
    say(f"  content digest:  {content}")


def note(text: str) -> None:
    """Print a line that is not part of the result, unless --quiet is set."""
    if not SETTINGS.quiet:
        _echo(printable(text), err=True, wraps=True)


def warn(text: str) -> None:
    """Print a warning on standard error, also with --quiet."""
    _echo(f"{click.style('Warning:', fg='yellow', bold=True)} {printable(text)}", err=True, wraps=True)


def warn_all(texts: Iterable[str]) -> None:
    """Print each text as a warning of its own."""
    for text in texts:
        warn(text)


def trace(text: str) -> None:
    """Print a line about the details of the run, only with --verbose."""
    if SETTINGS.verbose:
        _echo(click.style(printable(text), dim=True), err=True)


def note_some(label: str, texts: Sequence[str]) -> None:
    """Print the first texts of a list as notes, and the number of the others."""
    for text in texts[:NOTED]:
        note(f"{label}: {text}")
    if len(texts) > NOTED:
        note(f"{label}: {len(texts) - NOTED} more")


def called_name() -> str:
    """Return the name of this program for its help: ``csctl``, or as a plugin ``kubectl clusterstacks``."""
    return PLUGIN.replace("-", " ") if Path(sys.argv[0]).name == PLUGIN else PROGRAM


def program() -> str:
    """Return the command of this program: ``csctl`` if the shell finds it, otherwise the path of this process."""
    called, installed = Path(sys.argv[0]), shutil.which(PROGRAM)
    if called.name == PLUGIN:
        return called_name()
    if called.name != PROGRAM or (installed and called.resolve() == Path(installed).resolve()):
        return PROGRAM
    return shlex.quote(str(called))


def progress() -> Callable[[str], None]:
    """Return a function that prints a line of progress with the time since this call."""
    began = time.monotonic()

    def report(text: str) -> None:
        if not SETTINGS.quiet:
            _echo(f"{click.style(f'{time.monotonic() - began:6.1f} s', dim=True)}  {printable(text)}", err=True)

    return report


def megabytes(count: int) -> str:
    """Format a number of bytes as ``456 MB``, or as ``4.5 MB`` below 10 MB."""
    return f"{count / 1e6:.{0 if count >= 10_000_000 else 1}f} MB"


def _echo(text: str, *, err: bool = False, wraps: bool = False) -> None:
    width = columns(err=err) if wraps else 0
    with _WRITING:
        clear_status()
        click.echo("\n".join(wrap(line, width) for line in text.split("\n")), err=err, color=SETTINGS.colours)


def _show_bug(error: BaseException) -> None:
    if SETTINGS.verbose:
        traceback.print_exception(error)
    else:
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        _echo(printable(f"csctl has a bug: {what}; please report it with the output of csctl --verbose"), err=True)
