"""Errors of requests to release sources and chart repositories.

::

    DependencyError
    ├── SourceUnavailable  a source cannot be read
    │   └── ServerUnavailable  a server cannot be reached, or fails
    │       └── RateLimited    the server reports too many requests
    ├── CredentialsRefused the server rejects the credentials
    ├── NotThere           an address does not exist
    └── AnswerRefused      a response cannot be used
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.errors import DependencyError

if TYPE_CHECKING:
    from datetime import timedelta


class SourceUnavailable(DependencyError):
    """A source cannot be read; a retry may succeed."""

    def __init__(self, place: object, cause: str) -> None:
        super().__init__("SourceUnavailable", f"the release source {place} cannot be read: {cause}")
        self.cause = cause


class ServerUnavailable(SourceUnavailable):
    """A server cannot be reached, or fails."""

    def __init__(self, place: object, cause: str) -> None:
        DependencyError.__init__(self, "SourceUnavailable", f"{place} is not available: {cause}")
        self.cause = cause


class RateLimited(ServerUnavailable):
    """A server asks its client to wait; ``wait`` is zero if it does not state how long."""

    def __init__(self, place: object, wait: timedelta) -> None:
        when = f"in {wait}" if wait else "later"
        super().__init__(place, f"it reports too many requests; retry {when}")
        self.wait = wait


class CredentialsRefused(DependencyError):
    """A server rejects the credentials, or requires some; ``who`` says which were sent, empty if not known."""

    def __init__(self, place: object, status: int, who: str = "") -> None:
        sent = f" ({who})" if who else ""
        super().__init__(
            "CredentialsRefused",
            f"{place} refuses access with status {status}{sent}; use credentials with access to it, or correct the "
            "address",
        )
        self.status = status


class NotThere(DependencyError):
    """An address does not exist on a server."""

    def __init__(self, place: object) -> None:
        super().__init__("NotThere", f"{place} does not exist; correct the address, or publish it there")


class AnswerRefused(DependencyError):
    """A server sends a response that cannot be used."""

    def __init__(self, place: object, problem: str) -> None:
        super().__init__("AnswerRefused", f"{place} {problem}; check the address")


def store_unavailable(root: object, cause: OSError) -> DependencyError:
    """Return the error of a disk that fails."""
    reason = cause.strerror or str(cause)
    return DependencyError(
        "StoreUnavailable", f"releases cannot be stored in {root}: {reason}; check that disk or volume"
    )
