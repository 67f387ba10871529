from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click
import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.model.documents import listed
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.net.http.errors import CredentialsRefused

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("error", "code", "shown"),
    [
        (SpecError("X", "a is wrong; change b\nevidence"), 2, "Error: a is wrong; change b\n  evidence\n"),
        (DependencyError("X", "a is away"), 1, "Error: a is away\n"),
        (ExceptionGroup("tasks", [DependencyError("X", "b is away")]), 1, "Error: b is away\n"),
        (click.UsageError("no such option"), 2, "Error: no such option\n"),
        (click.exceptions.Exit(3), 3, ""),
        (
            PermissionError(13, "Permission denied", "/srv/x"),
            1,
            "Error: /srv/x: Permission denied: correct the permissions, or choose another path\n",
        ),
        (
            OSError(17, "File exists", "a", None, "b"),
            1,
            "Error: b: File exists: move it away, or choose another path\n",
        ),
        (OSError(28, "No space left on device"), 1, "Error: No space left on device: free space on this disk\n"),
        (SpecError("X", "a\x1b]0;title\x07b\u202ec\udcff"), 2, "Error: a\\x1b]0;title\\x07b\\u202ec\\udcff\n"),
        (
            ConnectionResetError("reset"),
            70,
            "csctl has a bug: ConnectionResetError: reset; please report it with the output of csctl --verbose\n",
        ),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (click.Abort(), 130, "interrupted\n"),
        (KeyError("x"), 70, "csctl has a bug: KeyError: 'x'; please report it with the output of csctl --verbose\n"),
    ],
)
def test_every_error_has_its_exit_code_and_message(
    error: BaseException, code: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> None:
        raise error

    assert output.run(command) == code
    assert capsys.readouterr() == ("", shown)


def test_integer_result_is_the_exit_code() -> None:
    assert output.run(lambda: 1) == 1
    assert output.run(lambda: None) == 0


def test_traceback_is_printed_on_request(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CSCTL_TRACEBACK", "1")

    assert output.run(lambda: int("x")) == 70
    assert "Traceback" in capsys.readouterr().err


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(("NAME", "PORT"), [("etcd", 1), ("management", "")])

    assert capsys.readouterr().out == "NAME         PORT\netcd         1\nmanagement\n"


def test_program_name_in_messages_can_be_called_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "csctl"
    program.touch(mode=0o755)
    monkeypatch.setattr("sys.argv", [str(program)])

    monkeypatch.setenv("PATH", "/nowhere")
    assert output.program() == str(program)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert output.program() == "csctl"


def test_control_characters_are_escaped_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "\x1b[2J\r\x9b1m\u2066"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    output.say(hostile)
    output.note(hostile)
    output.progress()(hostile)
    output.print_table(("NAME",), [(hostile,)])
    output.print_text(f"{hostile}\n")

    printed = "".join(capsys.readouterr())
    assert not [one for one in ("\x1b[2J", "\r", "\x9b", "\u2066") if one in printed]


FORGED = "waits\nprod/main   READY\u2028a\tb\r\n\n  c"


@pytest.mark.regression("SEC-37")
@pytest.mark.parametrize(
    "print_value",
    [
        output.say,
        output.note,
        output.warn,
        output.progress(),
        partial(output.say, colour="red", wraps=True),
        partial(output.say_marked, "?", colour="red"),
        lambda value: output.note_some("label", [value]),
        lambda value: output.print_table(("A", "B"), [(value, value)]),
        lambda value: output.say_judged(ResultMark.GOOD, value),
        lambda value: output.show_failures([value], "some failed", []),
        lambda value: output.show_error(SpecError("Refused", listed("nothing was deleted:", [value]))),
    ],
)
def test_value_is_printed_in_one_line(print_value: Callable[[str], object], capsys: pytest.CaptureFixture[str]) -> None:
    print_value("plain")
    plain = "".join(capsys.readouterr())
    print_value(FORGED)
    printed = "".join(capsys.readouterr())

    assert len(printed.splitlines()) == len(plain.splitlines())
    assert "waits prod/main   READY a b c" in printed


@pytest.mark.regression("SEC-37")
def test_further_line_of_a_servers_message_is_not_at_the_margin(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_error(DependencyError("Forbidden", "patch Cluster a/b: 403: no\nprod/main READY\u2028x"))

    assert capsys.readouterr().err == "Error: patch Cluster a/b: 403: no\n  prod/main READY\n  x\n"


def test_piped_document_is_printed_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output.print_text("a: \u200e\n")
    output.print_text("a: \u200e\n", tmp_path / "file")

    assert capsys.readouterr().out == (tmp_path / "file").read_text(encoding="utf-8") == "a: \u200e\n"


def test_credentials_error_lists_where_credentials_are_read_from(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise CredentialsRefused("r.example/a", 401)

    assert output.run(command) == 1
    assert "OCI_USERNAME" in capsys.readouterr().err
