"""Errors of releases and of stack directories.

::

    SpecError
    ├── ReleaseBroken      a file of a release is missing or not valid
    ├── ReleaseTaken       a release is already published with other content
    ├── DigestMismatch     the source has other content under a pinned name
    └── SourceBroken       a stack directory cannot be built
    DependencyError
    ├── ReleaseNotFound    the source does not have the release (yet)
    └── ReleaseDamaged     the stored copy changed on disk; the next access downloads it again
"""

from __future__ import annotations

from clusterstacks.model.errors import DependencyError, SpecError


class ReleaseBroken(SpecError):
    """A release that cannot be used until its publisher corrects it."""

    def __init__(self, release: object, file: str, problem: str) -> None:
        super().__init__("ReleaseBroken", f"release {release}: {file} {problem}")


class ReleaseTaken(SpecError):
    """A release is already published with other content; a published release never changes."""

    def __init__(self, place: object, difference: str = "") -> None:
        what = f" ({difference})" if difference else ""
        super().__init__(
            "ReleaseTaken",
            f"{place} is already published with other content{what}; "
            "build the release with a higher version and publish that",
        )


class DigestMismatch(SpecError):
    """A release whose content changed under its name; a published release must never change."""

    def __init__(self, release: object, *, pinned: str, found: str) -> None:
        super().__init__(
            "DigestMismatch",
            f"release {release} was pinned to {pinned}, but its source now has {found}; restore the old content and "
            "publish the change under a new version, or delete the ClusterStackRelease to accept the new content",
        )


class SourceBroken(SpecError):
    """A stack directory from which no release can be built."""

    def __init__(self, file: object, problem: str) -> None:
        super().__init__("SourceBroken", f"{file} {problem}")


def image_unusable(file: object, problem: str) -> SpecError:
    """Return the error for the file of a node image that cannot be published."""
    remedy = "build the release again with 'csctl create', or copy a published release with 'csctl copy'"
    return SpecError("NodeImageUnusable", f"{file} {problem}, and a node image of the release has this file: {remedy}")


def images_not_held(place: object) -> SpecError:
    """Return the error for a source that cannot have the files of node images."""
    return SpecError(
        "NodeImagesNotHeld",
        f"{place} cannot hold the files of node images: publish the release in an OCI registry, or name the images by "
        "https URLs in node-images.yaml",
    )


class ReleaseNotFound(DependencyError):
    """The source has no such release; it may be published later."""

    def __init__(self, release: object, place: object) -> None:
        super().__init__(
            "ReleaseNotFound", f"release {release} is not in {place}; publish it there or correct the name"
        )


class ReleaseDamaged(DependencyError):
    """The stored copy of a release changed since it was verified; it is discarded and downloaded again."""

    def __init__(self, release: object, file: str) -> None:
        super().__init__(
            "ReleaseDamaged", f"release {release}: the stored {file} changed on disk; it is downloaded again"
        )
