"""Errors of releases and of stack directories.

::

    SpecError
    ├── ReleaseBroken      a file of a release is missing or says something that cannot be used
    ├── ReleaseTaken       a release is published already, with another content
    ├── DigestMismatch     the source now has another content under a name that was pinned
    └── SourceBroken       a stack directory cannot be built
    DependencyError
    ├── ReleaseNotFound    the source does not have the release (yet)
    └── ReleaseDamaged     the stored copy changed on disk; the next access fetches it again
"""

from __future__ import annotations

from clusterstacks.domain.errors import DependencyError, SpecError


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


class ReleaseDamaged(DependencyError):
    """The stored copy of a release is not what was verified; it is thrown away and fetched again."""

    def __init__(self, release: object, file: str) -> None:
        super().__init__("ReleaseDamaged", f"release {release}: the stored {file} changed on disk; it is fetched again")
