"""Errors of calls to a Kubernetes API server.

::

    DependencyError
    ├── ApiError          the server answered with a Status
    │   ├── NotFound, AlreadyExists, Forbidden, Unauthorized, Expired
    │   ├── Conflict      409: has the fields that another manager owns
    │   ├── Invalid       422: has the fields that are not valid
    │   └── TooMany       429 after bounded retries
    ├── Unreachable       no connection, no TLS, no response in time, or 5xx after bounded retries
    │   └── WebhookFailed 5xx: the server could not call an admission webhook
    ├── KindNotServed     the server does not know the kind (yet)
    └── CredentialsFailed a token file or credential plugin gave no usable credentials

Messages have the form ``<verb> <object>: <status> <reason>: <message of the server>``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import DependencyError

if TYPE_CHECKING:
    from datetime import timedelta


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """A field that another field manager owns, from the causes of a server-side apply conflict."""

    manager: str
    field: str


@dataclass(frozen=True, slots=True)
class FieldCause:
    """Cause of a 422 about one field: ``FieldCause("spec.foo", "FieldValueRequired", "Required value")``."""

    field: str
    reason: str
    message: str


class ApiError(DependencyError):
    """Failure response of the server; ``reason`` is the CamelCase reason of its Status."""

    def __init__(self, message: str, *, status: int, reason: str) -> None:
        super().__init__(reason, message)
        self.status = status
        self.reason = reason


class NotFound(ApiError):
    """404 for an object (a path that is not served is ``KindNotServed``)."""


class AlreadyExists(ApiError):
    """409: an object of that name exists."""


_MISSING_RIGHT: Final = re.compile(
    r'cannot (\w{1,63}) resource "([^"]{1,253})" in API group "([^"]{0,253})"(?: in the namespace "([^"]{1,253})")?'
)


@dataclass(frozen=True, slots=True)
class MissingRight:
    """The right that RBAC misses; the namespace is empty for one in all of them, or of a cluster-scoped resource."""

    verb: str
    resource: str
    group: str
    namespace: str

    def __str__(self) -> str:
        """``you may not list clusters.cluster.x-k8s.io in namespace team``."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        place = f"namespace {self.namespace}" if self.namespace else "all namespaces"
        return f"you may not {self.verb} {resource} in {place}"


class Forbidden(ApiError):
    """403: the user may not do this."""

    @property
    def missing(self) -> MissingRight | None:
        """The right that RBAC misses; None if something else refused the request."""
        found = _MISSING_RIGHT.search(self.message)
        return MissingRight(*(part or "" for part in found.groups())) if found is not None else None


class Unauthorized(ApiError):
    """401, even after the credentials were renewed."""


class Expired(ApiError):
    """410: the resource version or continue token is too old; list again."""


class Conflict(ApiError):
    """409: other managers own ``conflicts``, or (if it is empty) a resource version or precondition is stale."""

    def __init__(self, message: str, *, status: int, reason: str, conflicts: tuple[FieldConflict, ...] = ()) -> None:
        super().__init__(message, status=status, reason=reason)
        self.conflicts = conflicts


class Invalid(ApiError):
    """422: the object violates its schema or a rule of the server."""

    def __init__(self, message: str, *, status: int, reason: str, causes: tuple[FieldCause, ...] = ()) -> None:
        super().__init__(message, status=status, reason=reason)
        self.causes = causes


class TooMany(ApiError):
    """429; ``retry_after`` is what the server requested."""

    def __init__(self, message: str, *, status: int, reason: str, retry_after: timedelta) -> None:
        super().__init__(message, status=status, reason=reason)
        self.retry_after = retry_after
        self.retry = max(retry_after, DependencyError.retry)


class Unreachable(DependencyError):
    """No usable response: connection, TLS, deadline, broken stream, or 5xx (then ``status`` is set, else 0)."""

    def __init__(self, message: str, *, status: int = 0) -> None:
        super().__init__("Unreachable", message)
        self.status = status


class ResponseTooLarge(Unreachable):
    """The response exceeds the limit of the client; a list can be read in smaller pages."""


class WebhookFailed(Unreachable):
    """The server failed to call the admission webhook ``webhook``."""

    def __init__(self, message: str, *, status: int, webhook: str) -> None:
        super().__init__(message, status=status)
        self.code = "WebhookFailed"
        self.webhook = webhook

    def with_advice(self, advice: str) -> WebhookFailed:
        """Return the error with advice appended to its message."""
        return WebhookFailed(f"{self.message}; {advice}", status=self.status, webhook=self.webhook)


class KindNotServed(DependencyError):
    """The server does not serve the kind: its CRD or API service is missing, or not ready yet."""

    def __init__(self, message: str) -> None:
        super().__init__("KindNotServed", message)


class CredentialsFailed(DependencyError):
    """A token file, certificate file or credential plugin gave no usable credentials."""

    def __init__(self, message: str) -> None:
        super().__init__("CredentialsFailed", message)
