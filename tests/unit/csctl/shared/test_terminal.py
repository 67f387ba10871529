"""Lines, marks and tables on a terminal of 60 columns, and the same lines in a pipe."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import termios
import threading
from typing import TYPE_CHECKING, Any

import click
import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.terminal import wrap
from tests.support.builders.releases import METADATA, write_release

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("line", "hang", "lines"),
    [
        ("short", None, ["short"]),
        ("one two three four five", None, ["one two three", "  four five"]),
        ("  - one two three four", None, ["  - one two", "    three four"]),
        ("a-word-that-is-longer-than-the-line x", None, ["a-word-that-is-longer-than-the-line", "  x"]),
        ("NAME   a b c d e f g h", 7, ["NAME   a b c d", "       e f g h"]),
        (click.style("one two", fg="red") + " three four", None, ["\x1b[31mone two\x1b[0m three", "  four"]),
        ("", None, [""]),
        (" " * 30, None, [" " * 30]),
    ],
)
def test_a_line_is_wrapped_at_blanks_with_a_hanging_indent(line: str, hang: int | None, lines: list[str]) -> None:
    assert wrap(line, 14, hang).split("\n") == lines
    assert wrap(line, 0, hang) == line


def on_terminal(*arguments: object, columns: int = 60, **environ: str) -> str:
    """Run csctl on a terminal of this width; return what the terminal received."""
    return run_on_terminal([sys.executable, "-m", "clusterstacks.csctl.main", *map(str, arguments)], columns, **environ)


def run_on_terminal(command: list[str], columns: int = 60, **environ: str) -> str:
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, columns))
    kept = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "NO_COLOR"}}
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(command, env={**kept, "TERM": "xterm", **environ}, **streams) as process:
        os.close(theirs)
        received = b"".join(iter(lambda: _read(ours), b""))
        process.wait()
    os.close(ours)
    return received.decode().replace("\r\n", "\n")


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:  # EIO: the process has closed the terminal
        return b""


STATED = """\
apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1
kubernetes: ">=1.35 <1.36"
components:
- {name: mine, version: 1.0.0}
"""


@pytest.fixture
def release(tmp_path: Path) -> Path:
    metadata = METADATA.format(version="v2").encode()
    return write_release(
        tmp_path / "local-tiny-1-35-v2", {"metadata.yaml": metadata, "compatibility.yaml": STATED.encode()}
    )


def test_a_terminal_shows_marks_and_colours_and_a_pipe_does_not(release: Path) -> None:
    shown = on_terminal("compat", "check", release, "--kubernetes", "v1.36.1")
    assert "\x1b[31m✗\x1b[0m local-tiny-1-35-v2 with Kubernetes v1.36.1" in shown
    plain = on_terminal("compat", "check", release, "--kubernetes", "v1.36.1", NO_COLOR="1")
    assert plain == click.unstyle(shown)
    assert all(len(line) <= 60 for line in plain.splitlines()), plain
    dumb = on_terminal("compat", "check", release, "--kubernetes", "v1.36.1", TERM="dumb")
    piped = subprocess.run(
        [sys.executable, "-m", "clusterstacks.csctl.main", "compat", "check", release, "--kubernetes", "v1.36.1"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert dumb == piped.stdout
    assert not set("✓✗?\x1b") & set(dumb)
    assert any(len(line) > 60 for line in dumb.splitlines())


def test_refusals_and_tables_fit_into_sixty_columns(release: Path) -> None:
    error = click.unstyle(on_terminal("verify", release, "--key", release / "metadata.yaml"))
    first, *rest = error.splitlines()
    assert first.startswith("Error: ")
    assert all(line.startswith("  ") for line in rest)
    assert rest, error
    table = click.unstyle(on_terminal("compat", "matrix", release, columns=34))
    assert all(len(line) <= 34 for line in table.splitlines()), table
    assert [line.split() for line in table.splitlines() if line.startswith(("KUBERNETES", "local", "mine"))] == [
        ["KUBERNETES", "1.35", "1.36"],
        ["local-tiny-1-35-v2", "?", "✗"],
        ["mine", "1.0.0", "?", "?"],
    ]
    assert "✓ ok" in table


def test_a_table_wraps_its_last_column_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "columns", lambda **_: 40)
    output.print_table(("NAME", "MESSAGE"), [("one", "a message that is longer than this"), ("longer", "short")])
    assert capsys.readouterr().out.splitlines() == [
        "NAME     MESSAGE",
        "one      a message that is longer than",
        "         this",
        "longer   short",
    ]


def test_a_table_whose_other_columns_are_wide_is_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "columns", lambda **_: 30)
    rows = [("a-rather-long-name", "a title of it", "3m"), ("another-rather-long-name", "title", "4m")]
    output.print_table(("NAME", "TITLE", "AGE"), rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "NAME         TITLE         AGE",
        "a-rath…ame   a title… it   3m",
        "anothe…ame   title         4m",
    ]


@pytest.mark.regression("U-38")
def test_u_38_a_silent_verb_shows_its_time_until_the_next_line(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = threading.Event()

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            if "…" in text:
                counted.set()
            return super().write(text)

    shown = Terminal()
    monkeypatch.setattr(output, "SILENT_SECONDS", 0)
    monkeypatch.setattr(output, "COUNT_SECONDS", 0.01)
    monkeypatch.setattr(output, "is_terminal", lambda **_: True)
    monkeypatch.setattr(sys, "stderr", shown)

    async def work() -> str:
        assert counted.wait(120), "the counter"
        output.note("two")
        return "done"

    assert output.run_counted(work()) == "done"
    assert re.search(r" s  …\x1b\[K\r\x1b\[Ktwo\n", shown.getvalue()), "the next line erases it"
    assert shown.getvalue().endswith(("\r\x1b[K", "two\n"))


def test_nothing_is_counted_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "is_terminal", lambda **_: False)
    with output.counting():
        assert threading.active_count() == 1


STORY = """
from clusterstacks.csctl.shared.live_view import LiveView
from clusterstacks.plan.clusters.cluster_tree import NodeState, ViewNode

with LiveView(counts=True) as view:
    view.say("A provider offers a stack:")
    view.show([ViewNode("stack", NodeState.WORKING, "downloading")])
    view.show([ViewNode("stack", NodeState.DONE, "usable: v1")])
    view.say("A user creates a cluster:")
    view.show([ViewNode("cluster", NodeState.DONE, "", (ViewNode("addons", NodeState.DONE, "6 objects"),))])
"""


def test_each_heading_of_a_live_view_keeps_its_tree() -> None:
    received = click.unstyle(_drawn(run_on_terminal([sys.executable, "-c", STORY])))
    assert [line for line in received.splitlines() if line] == [
        "A provider offers a stack:",
        "✓ stack  usable: v1",
        "A user creates a cluster:",
        "✓ cluster",
        "└── ✓ addons  6 objects",
    ]


def _drawn(received: str) -> str:
    """Return the lines that a terminal shows after what it received: erased lines and a cursor that moves up."""
    screen, row = [""], 0
    for part in re.findall(r"\x1b\[\d*A|\x1b\[2K|\x1b\[[?\d;]*[hlm]|\r|\n|[^\x1b\r\n]+", received):
        if part.endswith("A") and part.startswith("\x1b"):
            row -= int(part[2:-1] or 1)
        elif part == "\x1b[2K":
            screen[row] = ""
        elif part == "\n":
            row += 1
            screen += [""] * (row + 1 - len(screen))
        elif part == "\r" or part.startswith("\x1b"):
            continue
        else:
            screen[row] += part
    return "\n".join(line.rstrip() for line in screen)


def test_commands_are_not_wrapped(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(output, "columns", lambda **_: 20)
    output.say("     kubectl patch cluster --namespace default first")
    assert len(capsys.readouterr().out.splitlines()) == 1
