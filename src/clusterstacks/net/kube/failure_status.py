"""Converts failure responses of API servers into the types of ``errors``.

The message of the server becomes part of the error's message, except for Secrets: an admission webhook, a policy or a
proxy may put the content of a Secret into a response with any status. Only the status, the reason, and the field
managers of a conflict and the name of a failing webhook are shown.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.model.bounded_json import Undecodable, decode
from clusterstacks.model.documents import mappings
from clusterstacks.net.kube.errors import (
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
from clusterstacks.net.retry import retry_after

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_MESSAGE = 2000
"""Maximum characters of the server's text in a message (arbitrary; schema errors of a CRD can reach a megabyte)."""

MAX_FIELD_MESSAGE = 300
"""Maximum characters of the message about one field; a longer message is shown without the value (arbitrary)."""

MATCHED_CHARACTERS = 2048
"""Characters at each end of a message that are matched (arbitrary; a name has up to 253). The reason is before or after
the value, which may be long."""

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
"""Reasons of responses without a Status, e.g. of a proxy in front of the server."""

_SIMPLE: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: AlreadyExists,
    410: Expired,
}
# At the beginning of a message this is the server's own text; that of a webhook begins with the webhook's name.
# Internal error occurred: failed calling webhook "strict.example.com": failed to call webhook: Post "https://...
_WEBHOOK_FAILED = re.compile(r'(?:Internal error occurred: )?failed calling webhook "([^"\s]{1,253})"')

# A webhook may send any text as the reason.
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

# conflict with "kubectl" using apps/v1 (the name is quoted with the rules of Go)
_MANAGER = re.compile(r'conflict with ("(?:[^"\\]|\\.)*")')


# At the beginning of a message, these are also the server's own text.
_VALIDATION = ("Apply failed with ", 'Secret "')

WITHHELD: Final = (
    "the server's message is withheld because it may quote the Secret; the same request with kubectl shows it"
)

_KNOWN_REASONS: Final = frozenset({*REASONS.values(), "AlreadyExists", "Expired"})
"""Reasons of errors about Secrets; any other one may be the text of a webhook."""


def status_error(
    about: str, status: int, body: Mapping[str, Any], *, confidential: bool = False
) -> ApiError | Unreachable | KindNotServed:
    """Return the error for a failure response; for a Secret, ``confidential`` keeps the server's text out of it.

    ``about`` is verb and object, e.g. ``apply Deployment.apps kube-system/coredns``. ``status`` is the HTTP status, or
    the code of an ERROR event. ``body`` is the Status object, or any other mapping if the server sent none.
    """
    reason = _reason(status, body, confidential=confidential)
    message = f"{about}: {status} {reason}: {_message(status, body, confidential=confidential)}"
    if status >= 500 and (failing := _WEBHOOK_FAILED.match(_text(body.get("message")))):
        return WebhookFailed(message, status=status, webhook=failing[1])
    if status >= 500 and not _schema_errors(status, body):
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
            wait = retry_after(_details(body).get("retryAfterSeconds"))
            return TooMany(message, status=status, reason=reason, retry_after=wait)
        case _:
            return _SIMPLE.get(status, ApiError)(message, status=status, reason=reason)


def _reason(status: int, body: Mapping[str, Any], *, confidential: bool) -> str:
    reason = _text(body.get("reason"))
    if _REASON.fullmatch(reason) and (not confidential or reason in _KNOWN_REASONS):
        return reason
    return "Invalid" if _schema_errors(status, body) else REASONS.get(status, "UnexpectedAnswer")


def parse_status(answer: bytes) -> Mapping[str, Any]:
    """Read a response as a Status; text becomes its message, and a health report is reduced to the failing checks."""
    try:
        body = decode(answer)
    except Undecodable:
        text = answer.decode("utf-8", "replace").strip()
        failing = ", ".join(_FAILING_CHECK.findall(text))
        return {"message": f"failing checks: {failing}" if failing else text}
    return body if isinstance(body, dict) else {}


def reason_without_value(message: str) -> str:
    """Return the reason from the message about a field, without the value: ``field is immutable``."""
    reason = head_and_tail(message)
    if reason.startswith(_VALUE):
        rest = reason.removeprefix(_VALUE)
        quoted = _QUOTED_VALUE.match(rest)
        reason = rest[quoted.end() :] if quoted else rest.rpartition(": ")[2]
    return reason if len(reason) <= MAX_FIELD_MESSAGE else f"{reason[:MAX_FIELD_MESSAGE]}..."


def head_and_tail(message: str) -> str:
    """Return the beginning and the end of a message, ``MATCHED_CHARACTERS`` each."""
    if len(message) <= 2 * MATCHED_CHARACTERS:
        return message
    return f"{message[:MATCHED_CHARACTERS]}\n{message[-MATCHED_CHARACTERS:]}"


def _field_message(cause: FieldCause) -> str:
    dumped = len(cause.message) > MAX_FIELD_MESSAGE and cause.message.startswith(_VALUE)
    message = f"{_VALUE}{reason_without_value(cause.message)}" if dumped else cause.message
    return f"{cause.field}: {message}" if cause.field else message


def _message(status: int, body: Mapping[str, Any], *, confidential: bool) -> str:
    if conflicts := _conflicts(body, confidential=confidential):
        message = ", ".join(f"{conflict.field} is managed by {conflict.manager}" for conflict in conflicts)
    elif confidential:
        failing = _WEBHOOK_FAILED.match(_text(body.get("message")))
        return f"{failing[0]}; {WITHHELD}" if failing else WITHHELD
    elif status in {422, 500} and (causes := _field_causes(body, confidential=confidential)):
        message = "; ".join(_field_message(cause) for cause in causes)
    else:
        message = _text(body.get("message")) or "the server gave no reason"
    # Policies and webhooks answer with tables and indented lists; a status is one line.
    return " ".join((message if len(message) <= MAX_MESSAGE else f"{message[:MAX_MESSAGE]}...").split())


def _conflicts(body: Mapping[str, Any], *, confidential: bool) -> tuple[FieldConflict, ...]:
    conflicts = []
    for cause in _causes(body, confidential=confidential):
        if cause.get("reason") != "FieldManagerConflict":
            continue
        quoted = _MANAGER.search(_text(cause.get("message")))
        conflicts.append(FieldConflict(_unquoted(quoted[1]) if quoted else "unknown", _text(cause.get("field"))))
    return tuple(conflicts)


def _field_causes(body: Mapping[str, Any], *, confidential: bool) -> tuple[FieldCause, ...]:
    causes = [
        FieldCause(
            _text(cause.get("field")),
            _text(cause.get("reason")),
            WITHHELD if confidential else _text(cause.get("message")),
        )
        for cause in _causes(body, confidential=confidential)
    ]
    if not causes and not confidential and (message := _schema_errors(500, body)):
        lines = [matched for line in message.splitlines() if (matched := _SCHEMA_LINE.fullmatch(line.strip()))]
        causes = [FieldCause(line[1], "SchemaMismatch", line[2]) for line in lines]
    return tuple(causes)


def _causes(body: Mapping[str, Any], *, confidential: bool) -> list[dict[str, Any]]:
    """Return the causes; for a Secret, only those of the API server itself, whose fields are the Secret's."""
    if confidential and not _text(body.get("message")).startswith(_VALIDATION):
        return []
    return mappings(_details(body), "causes")


def _schema_errors(status: int, body: Mapping[str, Any]) -> str:
    """Return the schema errors of a server-side apply; empty for every other response.

    The server reports them as a 500 without a reason, as it does temporary failures, but a retry cannot succeed.
    """
    if status != 500 or body.get("reason"):
        return ""
    matched = _SCHEMA.match(_text(body.get("message")))
    return matched[1] if matched else ""


def _details(body: Mapping[str, Any]) -> dict[str, Any]:
    details = body.get("details")
    return details if isinstance(details, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _unquoted(quoted: str) -> str:
    try:
        return str(orjson.loads(quoted))
    except orjson.JSONDecodeError:
        # Some escapes of Go are not valid in JSON.
        return quoted[1:-1]
