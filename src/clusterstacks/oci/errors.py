"""Errors of registries and their content.

::

    SpecError
    ├── InvalidReference       a text names nothing in a registry
    ├── DockerConfigInvalid    a file with credentials cannot be read
    ├── ManifestInvalid        a manifest breaks the image-spec
    └── ManifestUnsupported    something else than a release is under a tag
    DependencyError
    ├── HelperFailed           a credential helper does not do its work
    └── ContentCorrupt         bytes are not what their digest says
"""

from __future__ import annotations

from clusterstacks.domain.documents import DocumentError
from clusterstacks.domain.errors import DependencyError, SpecError


class InvalidReference(SpecError):
    """A text that names nothing in a registry."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidReference", message)


class DockerConfigInvalid(SpecError):
    """A file with credentials that is none."""

    def __init__(self, file: object, problem: str) -> None:
        super().__init__("DockerConfigInvalid", f"{file} {problem}: log in again to write it anew, or remove it")


class ManifestUnsupported(SpecError):
    """What is under a tag is no release, or one this program cannot read."""

    def __init__(self, place: object, problem: str) -> None:
        super().__init__("ManifestUnsupported", f"{place} {problem}")


class ManifestInvalid(DocumentError):
    """A manifest that breaks the image-spec."""

    CODE = "ManifestInvalid"


class HelperFailed(DependencyError):
    """A program that keeps credentials gave none; what it said may hold anything and is not repeated."""

    def __init__(self, program: str, problem: str, way_out: str = "log in with it again") -> None:
        super().__init__("CredentialHelperFailed", f"the credential helper {program} {problem}: {way_out}")


class ContentCorrupt(DependencyError):
    """A registry gave bytes that are not what their digest says; nothing of them was kept."""

    def __init__(self, place: object, *, expected: str, found: str) -> None:
        super().__init__(
            "ContentCorrupt",
            f"{place} gave a content of digest {found} for {expected}: it is damaged there or on the way; "
            "try again, then publish it again",
        )
