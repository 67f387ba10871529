"""Errors of registries and their content.

::

    SpecError
    ├── InvalidReference       a text is not a reference
    ├── DockerConfigInvalid    a file with credentials cannot be read
    ├── ManifestInvalid        a manifest violates the image-spec
    └── ManifestUnsupported    a tag is not a release
    DependencyError
    └── ContentCorrupt         content does not match its digest
"""

from __future__ import annotations

from clusterstacks.model.documents import DocumentError
from clusterstacks.model.errors import DependencyError, SpecError


class InvalidReference(SpecError):
    """The text is not a reference to a registry."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidReference", message)


class DockerConfigInvalid(SpecError):
    """A file with credentials is not valid."""

    def __init__(self, file: object, problem: str) -> None:
        super().__init__("DockerConfigInvalid", f"{file} {problem}: log in again to rewrite it, or remove it")


class ManifestUnsupported(SpecError):
    """The content of a tag is not a release, or cannot be read by this program."""

    def __init__(self, place: object, problem: str) -> None:
        super().__init__("ManifestUnsupported", f"{place} {problem}")


class ManifestInvalid(DocumentError):
    """A manifest violates the image-spec."""

    CODE = "ManifestInvalid"


class ContentCorrupt(DependencyError):
    """Content of a registry does not match its digest; it was discarded."""

    def __init__(self, place: object, *, expected: str, found: str) -> None:
        super().__init__(
            "ContentCorrupt",
            f"{place}: the content has the digest {found} instead of {expected}, so it was damaged in the registry or "
            "on the way; try again, then publish it again",
        )
