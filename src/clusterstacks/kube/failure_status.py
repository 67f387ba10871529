"""Turn a server's failure answer into one of the types of ``errors``.

The server's words go into the message, except for Secrets: what is said about an object may quote it (``redaction``).
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.api.bounded_json import Undecodable, decode
from clusterstacks.kube.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    FieldCause,
    FieldConflict,
    Forbidden,
    Invalid,
    KindNotServed,
    NotFound,
    TooMany,
    Unauthorized,
    Unreachable,
    WebhookFailed,
)
from clusterstacks.kube.redaction import REASONS as KNOWN_REASONS
from clusterstacks.kube.redaction import WITHHELD, names_fields, redacted

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_WORDS = 2000
"""Characters of the server's text that go into a message (arbitrary; a CRD's schema errors can fill a megabyte)."""

MAX_RETRY_AFTER = timedelta(hours=1)
"""Longest wait that a server may ask for (arbitrary; Kubernetes' own answers ask for 1 to 60 s)."""

MAX_VALUE_WORDS = 300
"""Characters of what a server says about one field; in longer words the value it repeats is left out (arbitrary)."""

MATCHED_CHARACTERS = 2048
"""Characters at each end of a server's words that are matched (arbitrary: a name has 253). A server says why before or
after it repeats the value, which may be long."""

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    413: "RequestEntityTooLarge",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
"""For answers without a Status, e.g. of a proxy in front of the server."""

_SIMPLE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: AlreadyExists,
    410: Expired,
}
# Internal error occurred: failed calling webhook "strict.example.com": failed to call webhook: Post "https://...
_WEBHOOK_FAILED = re.compile(r'failed calling webhook "([^"\s]{1,253})"')

# A webhook that refuses an object may send any text as reason.
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}")

# failed to create typed patch object (default/x; apps/v1, Kind=Deployment): .spec.foo: field not declared in schema
# failed to convert new object (default/x; /v1, Kind=Secret) to proper version: ...
_SCHEMA = re.compile(r"failed to (?:create typed|convert) [a-z ]+\([^)]*\)[^:]*: (.+)", re.DOTALL)
_SCHEMA_LINE = re.compile(r"\.([^:]+): (.+)")

# Invalid value: "x": field is immutable
# Invalid value: core.PodTemplateSpec{ObjectMeta:v1.ObjectMeta{Name:"", ...}}: field is immutable
_VALUE = "Invalid value: "
_QUOTED_VALUE = re.compile(r'"(?:[^"\\]|\\.)*": ')

# [-]etcd failed: reason withheld
_FAILING_CHECK = re.compile(r"^\[-\](\S+) failed", re.MULTILINE)

# conflict with "kubectl" using apps/v1 (the name is quoted as Go does it)
_MANAGER = re.compile(r'conflict with ("(?:[^"\\]|\\.)*")')


def failure(
    about: str, status: int, body: Mapping[str, Any], *, confidential: bool = False
) -> ApiError | Unreachable | KindNotServed:
    """Name a failure answer.

    Args:
        about: Verb and object, e.g. ``apply Deployment.apps kube-system/coredns``.
        status: The HTTP status, or the code inside an ERROR event of a watch.
        body: The Status object; any other mapping when the server sent none.
        confidential: The object is a Secret.
    """
    reason = _reason(status, body, confidential=confidential)
    message = f"{about}: {status} {reason}: {_words(status, body, confidential=confidential)}"
    said = message if confidential else _text(body.get("message"))
    if status >= 500 and (failing := _WEBHOOK_FAILED.search(said)):
        return WebhookFailed(message, status=status, webhook=failing[1])
    if status >= 500 and not _schema_words(status, body):
        return Unreachable(message, status=status)
    if status == 404 and not _details(body).get("name"):
        return KindNotServed(message)
    return _typed(message, status, reason, body, confidential=confidential)


def _typed(message: str, status: int, reason: str, body: Mapping[str, Any], *, confidential: bool) -> ApiError:
    match status:
        case 409 if reason != "AlreadyExists":
            return Conflict(
                message, status=status, reason=reason, conflicts=_conflicts(body, confidential=confidential)
            )
        case 422 | 500:
            return Invalid(message, status=status, reason=reason, causes=_field_causes(body, confidential=confidential))
        case 429:
            return TooMany(message, status=status, reason=reason, retry_after=timedelta(seconds=retry_seconds(body)))
        case _:
            return _SIMPLE.get(status, ApiError)(message, status=status, reason=reason)


def _reason(status: int, body: Mapping[str, Any], *, confidential: bool) -> str:
    reason = _text(body.get("reason"))
    if _REASON.fullmatch(reason) and (not confidential or reason in KNOWN_REASONS):
        return reason
    return "Invalid" if _schema_words(status, body) else REASONS.get(status, "UnexpectedAnswer")


def status_of(answer: bytes) -> Mapping[str, Any]:
    """Read an answer as a Status; a text answer becomes its message, of a health report only the failing checks."""
    try:
        body = decode(answer)
    except Undecodable:
        text = answer.decode("utf-8", "replace").strip()
        failing = ", ".join(_FAILING_CHECK.findall(text))
        return {"message": f"failing checks: {failing}" if failing else text}
    return body if isinstance(body, dict) else {}


def retry_seconds(body: Mapping[str, Any]) -> float:
    """The wait the Status itself asks for, 0 when it asks for none."""
    return bounded_wait(_details(body).get("retryAfterSeconds"))


def bounded_wait(seconds: object) -> float:
    """Read a number of seconds to wait, also from a header; 0 for anything but a number above 0.

    It is at most ``MAX_RETRY_AFTER``: a server may ask for any number, also for one that no duration can hold.
    """
    match seconds:
        case bool():
            return 0.0
        case int() | float() if seconds > 0:  # no NaN
            return float(min(seconds, MAX_RETRY_AFTER.total_seconds()))
        case str() if seconds.isdecimal():
            return min(float(seconds), MAX_RETRY_AFTER.total_seconds())
        case _:
            return 0.0


def reason_of(words: str) -> str:
    """Return why a server refuses a value of a field, without the value: ``field is immutable``."""
    reason = ends(words)
    if reason.startswith(_VALUE):
        rest = reason.removeprefix(_VALUE)
        quoted = _QUOTED_VALUE.match(rest)
        reason = rest[quoted.end() :] if quoted else rest.rpartition(": ")[2]
    return reason if len(reason) <= MAX_VALUE_WORDS else f"{reason[:MAX_VALUE_WORDS]}..."


def ends(words: str) -> str:
    """Return the beginning and the end of a server's words, each of ``MATCHED_CHARACTERS``."""
    if len(words) <= 2 * MATCHED_CHARACTERS:
        return words
    return f"{words[:MATCHED_CHARACTERS]}\n{words[-MATCHED_CHARACTERS:]}"


def _shown(cause: FieldCause) -> str:
    dumped = len(cause.message) > MAX_VALUE_WORDS and cause.message.startswith(_VALUE)
    words = f"{_VALUE}{reason_of(cause.message)}" if dumped else cause.message
    return f"{cause.field}: {words}" if cause.field else words


def _words(status: int, body: Mapping[str, Any], *, confidential: bool) -> str:
    if confidential and not _conflicts(body, confidential=True):
        fields = ", ".join(cause.field for cause in _field_causes(body, confidential=True))
        return f"{fields} {WITHHELD}" if fields else redacted(_text(body.get("message")))
    if conflicts := _conflicts(body, confidential=confidential):
        words = ", ".join(f"{one.field} is managed by {one.manager}" for one in conflicts)
    elif status in {422, 500} and (causes := _field_causes(body, confidential=False)):
        words = "; ".join(_shown(cause) for cause in causes)
    else:
        words = _text(body.get("message")) or "the server gave no reason"
    return words if len(words) <= MAX_WORDS else f"{words[:MAX_WORDS]}..."


def _conflicts(body: Mapping[str, Any], *, confidential: bool) -> tuple[FieldConflict, ...]:
    found = []
    for cause in _causes(body, confidential=confidential):
        if cause.get("reason") != "FieldManagerConflict":
            continue
        quoted = _MANAGER.search(_text(cause.get("message")))
        found.append(FieldConflict(_unquoted(quoted[1]) if quoted else "unknown", _text(cause.get("field"))))
    return tuple(found)


def _field_causes(body: Mapping[str, Any], *, confidential: bool) -> tuple[FieldCause, ...]:
    found = [
        FieldCause(_text(cause.get("field")), _text(cause.get("reason")), _text(cause.get("message")))
        for cause in _causes(body, confidential=confidential)
    ]
    if not found and (words := _schema_words(500, body)):
        lines = [matched for line in words.splitlines() if (matched := _SCHEMA_LINE.fullmatch(line.strip()))]
        found = [FieldCause(line[1], "SchemaMismatch", line[2]) for line in lines]
    return tuple(replace(cause, message=WITHHELD) if confidential else cause for cause in found)


def _schema_words(status: int, body: Mapping[str, Any]) -> str:
    """What server-side apply says of an object that does not fit its schema; empty for every other answer.

    The server sends it as a 500 without a reason, like its own troubles, though no time heals it.
    """
    if status != 500 or body.get("reason"):
        return ""
    matched = _SCHEMA.match(_text(body.get("message")))
    return matched[1] if matched else ""


def _causes(body: Mapping[str, Any], *, confidential: bool) -> list[Mapping[str, Any]]:
    """Return the causes; of a Secret only those that the API server found itself."""
    if confidential and not names_fields(_text(body.get("message"))):
        return []
    causes = _details(body).get("causes")
    return [cause for cause in causes if isinstance(cause, dict)] if isinstance(causes, list) else []


def _details(body: Mapping[str, Any]) -> Mapping[str, Any]:
    details = body.get("details")
    return details if isinstance(details, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _unquoted(quoted: str) -> str:
    try:
        return str(orjson.loads(quoted))
    except orjson.JSONDecodeError:
        # Go quotes some characters in a way JSON does not know.
        return quoted[1:-1]
