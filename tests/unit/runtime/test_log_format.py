from __future__ import annotations

import asyncio
import io
import json
import logging
import warnings
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.runtime.log_format import (
    FIELDS,
    MESSAGE_LIMIT,
    JsonFormatter,
    TextFormatter,
    configure_logging,
    log_context,
)
from tests.support.observing.log_lines import parse_line

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Configure logging into a string, and put everything back afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    for handler in handlers:
        root.removeHandler(handler)
    text = io.StringIO()
    configure_logging("INFO", text)
    yield text
    logging.captureWarnings(capture=False)
    root.handlers[:] = handlers
    root.setLevel(level)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_is_a_json_object_with_time_level_logger_and_message(stream: io.StringIO) -> None:
    logging.getLogger("a.b").info("%d objects", 3)
    logging.getLogger("a.b").debug("not this one")

    (line,) = lines(stream)
    assert line.pop("time").endswith("+00:00")
    assert line == {"level": "info", "logger": "a.b", "message": "3 objects"}


def test_controller_and_object_are_named_where_known(stream: io.StringIO) -> None:
    log = logging.getLogger("x")
    with log_context("clusteraddon", "ns/one"):
        log.warning("inside")
    log.warning("outside")

    inside, outside = lines(stream)
    assert (inside["controller"], inside["object"]) == ("clusteraddon", "ns/one")
    assert len(inside["reconcileID"]) == 8
    assert "controller" not in outside


async def test_tasks_side_by_side_do_not_mix_their_objects(stream: io.StringIO) -> None:
    async def work(name: str) -> None:
        with log_context("c", name):
            await asyncio.sleep(0)
            logging.getLogger("x").info(name)

    await asyncio.gather(*(work(f"ns/{number}") for number in range(5)))

    written = lines(stream)
    assert len(written) == 5
    assert all(line["object"] == line["message"] for line in written)


def test_a_trace_is_part_of_the_line(stream: io.StringIO) -> None:
    try:
        _ = 1 // 0
    except ZeroDivisionError:
        logging.getLogger("x").exception("failed")

    (line,) = lines(stream)
    assert line["trace"].endswith("ZeroDivisionError: integer division or modulo by zero")


def test_warnings_of_the_interpreter_are_lines_too(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(capture=True)
        warnings.warn("old", UserWarning, stacklevel=1)

    assert "UserWarning: old" in lines(stream)[0]["message"]


def formatted(message: str, **fields: Any) -> str:
    return JsonFormatter().format(logging.makeLogRecord({"msg": message, "levelname": "INFO", **fields}))


def test_long_message_is_truncated_with_a_marker() -> None:
    message = json.loads(formatted("x" * 100_000))["message"]

    assert len(message) < MESSAGE_LIMIT + 50
    assert message.endswith(f"({100_000 - MESSAGE_LIMIT} characters cut)")


def test_the_end_of_a_long_trace_is_kept() -> None:
    error = ValueError("x" * 100_000 + " the cause")
    trace = json.loads(formatted("m", exc_info=(ValueError, error, None)))["trace"]

    assert trace.endswith(" the cause")
    assert len(trace) < 10_000


def test_text_that_is_not_unicode_is_logged() -> None:
    assert json.loads(formatted("file \udce4.tgz\nforged"))["message"] == "file ?.tgz\nforged"


def test_lines_of_one_reconcile_have_one_id_and_those_of_the_next_another(stream: io.StringIO) -> None:
    log = logging.getLogger("x")
    for _ in range(2):
        with log_context("c", "ns/one"):
            log.info("begins")
            log.info("ends")

    first, second, third, fourth = (line["reconcileID"] for line in lines(stream))
    assert first == second != third == fourth


def text(message: str, **fields: Any) -> str:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "a.b", "created": 0.0, **fields})
    return TextFormatter().format(record)


def test_text_format_has_the_same_fields_on_one_line() -> None:
    with log_context("clusteraddon", "ns/one"):
        line = text("3 objects")
        found = parse_line(line)
        as_json = parse_line(JsonFormatter().format(logging.makeLogRecord({"msg": "3 objects", "levelname": "INFO"})))

    assert line == (
        "1970-01-01T00:00:00.000+00:00 info a.b controller=clusteraddon object=ns/one "
        f"reconcileID={as_json['reconcileID']} 3 objects"
    )
    assert [*as_json] == [*found] == [name for name in FIELDS if name != "trace"]
    assert (found["object"], found["message"]) == ("ns/one", "3 objects")


def test_a_text_line_can_neither_be_forged_nor_control_a_terminal() -> None:
    line = text("one\n1970-01-01T00:00:00.000+00:00 info a.b two\x1b[31m\x9b\r\u2028")

    assert line.isprintable()
    assert "one\\n1970" in line
    assert "\\x1b[31m\\x9b" in line


def test_a_trace_is_on_the_text_line() -> None:
    error = ValueError("the cause")
    assert text("failed", exc_info=(ValueError, error, None)).endswith("failed trace=ValueError: the cause")
