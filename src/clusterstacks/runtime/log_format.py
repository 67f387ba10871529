"""Formats of the log, JSON and text. Lines of a reconcile have its controller, object and id."""

from __future__ import annotations

import logging
import random
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
_reconcile: ContextVar[str] = ContextVar("reconcileID", default="")

_CONTROLS: Final = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))} | {
    ord("\t"): "\\t",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}
"""Escapes of control characters, so that a message can neither forge a line nor control a terminal."""


@contextmanager
def log_context(controller: str, subject: object) -> Iterator[str]:
    """Add controller, object and a new id, which is yielded, to every line logged here and in tasks started here."""
    # The id only has to differ within the log of an hour.
    identity = f"{random.getrandbits(32):08x}"
    before = _controller.set(controller), _object.set(str(subject)), _reconcile.set(identity)
    try:
        yield identity
    finally:
        _controller.reset(before[0])
        _object.reset(before[1])
        _reconcile.reset(before[2])


def reconciled() -> str:
    """Return the controller and object of the reconcile that runs now; empty outside of one."""
    return f"{_controller.get()} {_object.get()}".strip()


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, message and, if known, controller, object, reconcileID, trace."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without a line break; a message or trace over the limit is truncated."""
        return orjson.dumps(_fields(self, record)).decode()


class TextFormatter(logging.Formatter):
    """The fields of ``JsonFormatter`` as text on one line, for people."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line without a line break; control characters are escaped."""
        fields = _fields(self, record)
        message, trace = fields.pop("message"), fields.pop("trace", "")
        start = " ".join(fields.pop(name) for name in ("time", "level", "logger"))
        known = "".join(f" {name}={value}" for name, value in fields.items())
        return f"{start}{known} {message}{trace and f' trace={trace}'}".translate(_CONTROLS)


FIELDS: Final = {
    "time": "Time in UTC, with milliseconds.",
    "level": "debug, info, warning or error.",
    "logger": "Module that wrote the line.",
    "controller": "Controller of the reconcile; only in lines of a reconcile.",
    "object": "Object that is reconciled, as namespace/name; only in lines of a reconcile.",
    "reconcileID": "Id of the reconcile, equal in all its lines; the next reconcile of the object has another one.",
    "message": "A decision or a problem in one sentence: the object, the cause, and what to do.",
    "trace": "Traceback of an unexpected failure; report it.",
}

FORMATS: Final[dict[str, type[logging.Formatter]]] = {"json": JsonFormatter, "text": TextFormatter}
"""The formats by the value of ``--log-format``."""


def configure_logging(level: str = "INFO", stream: TextIO | None = None, *, form: str = "json") -> None:
    """Log to ``stream`` (default: standard error), replacing any earlier configuration; ``form`` is of ``FORMATS``."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(FORMATS[form]())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(capture=True)


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    fields = {
        "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
        "level": record.levelname.lower(),
        "logger": record.name,
    }
    if controller := _controller.get():
        fields |= {"controller": controller, "object": _object.get(), "reconcileID": _reconcile.get()}
    fields["message"] = _start(record.getMessage(), MESSAGE_LIMIT)
    if record.exc_info:
        fields["trace"] = _end(formatter.formatException(record.exc_info), TRACE_LIMIT)
    return fields


def _start(text: str, limit: int) -> str:
    return _encodable(text if len(text) <= limit else f"{text[:limit]}... ({len(text) - limit} characters cut)")


def _end(text: str, limit: int) -> str:
    """Truncate a trace; its end names the exception."""
    return _encodable(text if len(text) <= limit else f"({len(text) - limit} characters cut) ...{text[-limit:]}")


def _encodable(text: str) -> str:
    """Replace lone surrogates (from file names that are not UTF-8), which JSON cannot represent."""
    return text.encode("utf-8", "replace").decode()
