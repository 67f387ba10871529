"""JSON log format; every line has the controller and the object that it is about."""

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

# Container runtimes split log lines at 16 KiB; the rest is for names, fields and escapes.
MESSAGE_LIMIT: Final = 6 * 1024
TRACE_LIMIT: Final = 6 * 1024

_controller: ContextVar[str] = ContextVar("controller", default="")
_object: ContextVar[str] = ContextVar("object", default="")


@contextmanager
def log_context(controller: str, subject: object) -> Iterator[None]:
    """Add controller and object to every line logged in this context, including by tasks started in it."""
    before = _controller.set(controller), _object.set(str(subject))
    try:
        yield
    finally:
        _controller.reset(before[0])
        _object.reset(before[1])


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message and, if known, controller, object and trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without a line break; a message or trace over the limit is truncated."""
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
    """Log as JSON to ``stream`` (default: standard error), replacing any earlier configuration."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def _start(text: str, limit: int) -> str:
    return _encodable(text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} characters cut)")


def _end(text: str, limit: int) -> str:
    """Truncate a trace; its end names the exception."""
    return _encodable(text if len(text) <= limit else f"({len(text) - limit} characters cut) ...{text[-limit:]}")


def _encodable(text: str) -> str:
    """Replace lone surrogates (from file names that are not UTF-8), which JSON cannot represent."""
    return text.encode("utf-8", "replace").decode()
