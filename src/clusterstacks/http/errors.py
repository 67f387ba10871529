"""Errors of requests to release sources and chart repositories.

::

    DependencyError
    ├── SourceUnavailable  the source cannot be read
    │   └── ServerUnavailable  a server cannot be reached, or fails
    │       └── RateLimited    the server answered that there were too many requests
    ├── CredentialsRefused the server rejects the credentials
    ├── NotThere           the server has nothing at an address
    ├── AnswerRefused      the answer of the server cannot be used
    └── StoreUnavailable   the disk for downloads fails
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from datetime import timedelta


class SourceUnavailable(DependencyError):
    """The source cannot be read at all."""

    def __init__(self, place: object, cause: str) -> None:
        super().__init__("SourceUnavailable", f"the release source {place} cannot be read: {cause}")


class ServerUnavailable(SourceUnavailable):
    """A server cannot be reached, or fails."""

    def __init__(self, place: object, cause: str) -> None:
        DependencyError.__init__(self, "SourceUnavailable", f"{place} cannot be used now: {cause}")


class RateLimited(ServerUnavailable):
    """A server asks to be left alone for a while.

    Args:
        place: Which source.
        wait: For how long; zero when it does not say.
    """

    def __init__(self, place: object, wait: timedelta) -> None:
        when = f"again in {wait}" if wait else "later"
        super().__init__(place, f"it answers too many requests; it is asked {when}")
        self.wait = wait


class CredentialsRefused(DependencyError):
    """The source does not accept who asks, or wants to know who asks.

    Args:
        place: What was refused.
        status: The HTTP status.
        who: Whether credentials were sent, and whose; empty when that is not known.
    """

    def __init__(self, place: object, status: int, who: str = "") -> None:
        sent = f" ({who})" if who else ""
        super().__init__(
            "CredentialsRefused",
            f"{place} refuses access with status {status}{sent}: give credentials that may do this, or correct the "
            "address",
        )
        self.status = status


class NotThere(DependencyError):
    """A server has nothing under an address."""

    def __init__(self, place: object) -> None:
        super().__init__("NotThere", f"{place} does not exist: correct the address, or publish it there")


class AnswerRefused(DependencyError):
    """A server answers what cannot be used."""

    def __init__(self, place: object, problem: str) -> None:
        super().__init__("AnswerRefused", f"{place} {problem}: is it the right address?")


class StoreUnavailable(DependencyError):
    """The disk below the release store refuses to work."""

    def __init__(self, root: object, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        super().__init__(
            "StoreUnavailable", f"releases cannot be kept in {root}: {reason}; look at that disk or volume"
        )
