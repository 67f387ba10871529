"""What a call to a Kubernetes API server may end with.

::

    DependencyError
    ├── ApiError          the server answered with a Status
    │   ├── NotFound, AlreadyExists, Forbidden, Unauthorized, Expired
    │   ├── Conflict      409: names the fields another manager owns
    │   ├── Invalid       422: names the fields and what is wrong with them
    │   └── TooMany       429 after bounded retries
    ├── Unreachable       no connection, no TLS, no answer in time, or 5xx after bounded retries
    │   └── WebhookFailed 5xx: the server could not call an admission webhook
    ├── KindNotServed     the server does not know the kind (yet)
    ├── WriteRefused      this process may not write at the moment
    └── CredentialsFailed a token file or credential plugin gave nothing usable
    SpecError
    └── Unreadable        an object that is nested too deep or has too many values to be read

Messages read ``<verb> <object>: <status> <reason>: <the server's words>``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import DependencyError, SpecError

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that another field manager owns, from the causes of a server-side apply conflict."""

    manager: str
    field: str


@dataclass(frozen=True, slots=True)
class FieldCause:
    """What a 422 says about one field: ``FieldCause("spec.foo", "FieldValueRequired", "Required value")``."""

    field: str
    reason: str
    message: str


class ApiError(DependencyError):
    """The server answered with a failure; ``reason`` is the CamelCase one of its Status."""

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(reason, message)
        self.status = status
        self.reason = reason


class NotFound(ApiError):
    """404 for an object (a path that is not served is ``KindNotServed``)."""


class AlreadyExists(ApiError):
    """409: an object of that name exists."""


class Forbidden(ApiError):
    """403."""


class Unauthorized(ApiError):
    """401, also after the credentials were renewed."""


class Expired(ApiError):
    """410: the resource version or continue token is too old; list again."""


class Conflict(ApiError):
    """409: others own the fields in ``conflicts``, or (then empty) the resource version or a precondition is stale."""

    def __init__(self, message: str, *, status: int, reason: str, conflicts: tuple[FieldConflict, ...] = ()) -> None:
        super().__init__(message, status=status, reason=reason)
        self.conflicts = conflicts


class Invalid(ApiError):
    """422: the object breaks its schema or a rule of the server."""

    def __init__(self, message: str, *, status: int, reason: str, causes: tuple[FieldCause, ...] = ()) -> None:
        super().__init__(message, status=status, reason=reason)
        self.causes = causes


class TooMany(ApiError):
    """429; ``retry_after`` is the server's wish."""

    def __init__(self, message: str, *, status: int, reason: str, retry_after: timedelta) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after = retry_after
        self.retry = max(retry_after, DependencyError.retry)


class Unreachable(DependencyError):
    """No usable answer: connection, TLS, deadline, broken stream, or 5xx (then ``status`` is set, else 0)."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__("Unreachable", message)
        self.status = status


class ResponseTooLarge(Unreachable):
    """The answer is larger than the client reads; a list may be asked for in smaller pages."""


class Unreadable(SpecError):
    """The server answered with an object that cannot be decoded within bounds: its owner must simplify it."""

    def __init__(self, message: str) -> None:
        super().__init__("ObjectUnreadable", message)


class WebhookFailed(Unreachable):
    """The server refused because it could not call the admission webhook named ``webhook``."""

    def __init__(self, message: str, *, status: int, webhook: str) -> None:
        super().__init__(message, status=status)
        self.code = "WebhookFailed"
        self.webhook = webhook

    def with_advice(self, advice: str) -> WebhookFailed:
        """Return the error with what to do at the end of its message."""
        return WebhookFailed(f"{self.message}; {advice}", status=self.status, webhook=self.webhook)


class KindNotServed(DependencyError):
    """The server does not serve the kind: its CRD or API service is missing, or not ready yet."""

    def __init__(self, message: str) -> None:
        super().__init__("KindNotServed", message)


class CredentialsFailed(DependencyError):
    """A token file, certificate file or credential plugin gave nothing usable."""

    def __init__(self, message: str) -> None:
        super().__init__("CredentialsFailed", message)


class WriteRefused(DependencyError):
    """This process may not write at the moment, because another one may: the write was not sent, or was broken off."""

    def __init__(self, message: str) -> None:
        super().__init__("WriteRefused", message)
