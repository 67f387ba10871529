"""What can be wrong with a release, its archives and the place it comes from.

::

    SpecError
    ├── UnsafeArchive      an archive holds what no archive of a release may hold, or is damaged
    ├── ReleaseBroken      a file of a release is missing or says something that cannot be used
    ├── ReleaseTaken       a release is published already, with another content
    ├── DigestMismatch     the source now has another content under a name that was pinned
    └── SourceBroken       a stack directory cannot be built
    DependencyError
    ├── ReleaseNotFound    the source does not have the release (yet)
    ├── SourceUnavailable  the source cannot be read
    │   └── ServerUnavailable  a server cannot be reached, or fails
    │       └── RateLimited    it asks to be left alone for a while
    ├── CredentialsRefused the source does not accept who asks
    ├── NotThere           a server has nothing under an address
    ├── AnswerRefused      a server answers what makes no sense
    ├── ReleaseDamaged     the stored copy changed on disk; the next access fetches it again
    └── StoreUnavailable   the store's disk refuses
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.errors import DependencyError, SpecError

if TYPE_CHECKING:
    from datetime import timedelta


class UnsafeArchive(SpecError):
    """An archive that is not read any further.

    Args:
        archive: What the archive is, e.g. ``release x: y.tgz``.
        member: The member at fault; empty when it is the archive as a whole.
        cause: What is wrong with it.
    """

    def __init__(self, archive: str, member: str, cause: str) -> None:
        place = f"{archive}: member {member!r}" if member else archive
        super().__init__("UnsafeArchive", f"{place} {cause}; build the release again")
        self.member = member
        self.cause = cause


class ReleaseBroken(SpecError):
    """A release that cannot be used until its author publishes it again."""

    def __init__(self, release: object, file: str, problem: str) -> None:
        super().__init__("ReleaseBroken", f"release {release}: {file} {problem}")


class ReleaseTaken(SpecError):
    """A release is published with another content, and a published release never changes.

    Args:
        place: Where, with the release's name.
        difference: What is other there; empty when that is not known.
    """

    def __init__(self, place: object, difference: str = "") -> None:
        what = f" ({difference})" if difference else ""
        super().__init__(
            "ReleaseTaken",
            f"{place} is published already with another content{what}: "
            "build the release with a higher version and publish that",
        )


class DigestMismatch(SpecError):
    """A release whose content changed under its name, which a published release never may."""

    def __init__(self, release: object, *, pinned: str, found: str) -> None:
        super().__init__(
            "DigestMismatch",
            f"release {release} was pinned to {pinned}, but its source now has {found}: bring back the old content "
            "and publish the change under a new version, or delete the ClusterStackRelease to accept what is there",
        )


class SourceBroken(SpecError):
    """A stack directory from which no release can be built."""

    def __init__(self, file: object, problem: str) -> None:
        super().__init__("SourceBroken", f"{file} {problem}")


class ReleaseNotFound(DependencyError):
    """The source has no such release; it may be published later."""

    def __init__(self, release: object, place: object) -> None:
        super().__init__(
            "ReleaseNotFound", f"release {release} is not in {place}: publish it there or correct the name"
        )


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


class ReleaseDamaged(DependencyError):
    """The stored copy of a release is not what was verified; it is thrown away and fetched again."""

    def __init__(self, release: object, file: str) -> None:
        super().__init__("ReleaseDamaged", f"release {release}: the stored {file} changed on disk; it is fetched again")


class StoreUnavailable(DependencyError):
    """The disk below the release store refuses to work."""

    def __init__(self, root: object, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        super().__init__(
            "StoreUnavailable", f"releases cannot be kept in {root}: {reason}; look at that disk or volume"
        )
