"""Errors of registries and their content.

::

    SpecError
    └── ManifestInvalid  a manifest violates the image-spec
    DependencyError
    └── ContentCorrupt   content does not match its digest
"""

from __future__ import annotations

from clusterstacks.model.documents import DocumentError
from clusterstacks.model.errors import DependencyError, SpecError


def docker_config_invalid(file: object, problem: str) -> SpecError:
    """Return the error for a file with credentials that is not valid."""
    return SpecError("DockerConfigInvalid", f"{file} {problem}: log in again to rewrite it, or remove it")


def manifest_unsupported(place: object, problem: str) -> SpecError:
    """Return the error for a manifest that is not a release, or cannot be read by this program."""
    return SpecError("ManifestUnsupported", f"{place} {problem}")


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
