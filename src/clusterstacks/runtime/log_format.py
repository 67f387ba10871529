"""Log lines as JSON, each naming the controller and the object it is about."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterator

# Container runtimes cut a log line into pieces of 16 KiB; names, fields and escapes need the rest.
MESSAGE_LIMIT: Final = 6 * 1024
TRACE_LIMIT: Final = 6 * 1024

_controller: ContextVar[str] = ContextVar("controller", default="")
_object: ContextVar[str] = ContextVar("object", default="")


@contextmanager
def log_context(controller: str, subject: object) -> Iterator[None]:
    """Name controller and object in every line logged inside, also by tasks started there."""
    before = _controller.set(controller), _object.set(str(subject))
    try:
        yield
    finally:
        _controller.reset(before[0])
        _object.reset(before[1])


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message and, where known, controller, object and trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without its end; a message or trace over the limit is shortened."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _start(record.getMessage(), MESSAGE_LIMIT),
        }
        if controller := _controller.get():
            line |= {"controller": controller, "object": _object.get()}
        if record.exc_info:
            line["trace"] = _end(self.formatException(record.exc_info), TRACE_LIMIT)
        return orjson.dumps(line).decode()


def configure_logging(level: str = "INFO", stream: TextIO | None = None) -> None:
    """Send every logger's lines as JSON to ``stream`` (standard error), replacing what was configured before."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def _start(text: str, limit: int) -> str:
    return _encodable(text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} characters cut)")


def _end(text: str, limit: int) -> str:
    """Keep the end: it names the exception."""
    return _encodable(text if len(text) <= limit else f"({len(text) - limit} characters cut) ...{text[-limit:]}")


def _encodable(text: str) -> str:
    """Replace lone surrogates (file names that are no UTF-8), which JSON cannot carry."""
    return text.encode("utf-8", "replace").decode()
