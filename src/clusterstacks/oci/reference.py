"""References: ``[oci://]host[:port]/repository[:tag][@digest]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.domain.documents import shown
from clusterstacks.oci.errors import InvalidReference

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEME = "oci://"

# distribution-spec, "Pulling manifests"; a registry must look like one, as docker.io is no registry for releases that
# name none.
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_REPOSITORY = 255

_DOCKER_HUB = {"docker.io": "registry-1.docker.io", "index.docker.io": "registry-1.docker.io"}


def is_sha256(digest: object) -> bool:
    """Whether a value is a digest this program can check."""
    return isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None


@dataclass(frozen=True, slots=True)
class Reference:
    """A place in a registry.

    Args:
        registry: Host, with a port where it is not the usual one.
        repository: Path below it.
        tag: Empty for none.
        digest: ``sha256:<hex>``; empty for none; wins over the tag.

    Raises:
        InvalidReference: A part is none.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.registry):
            raise InvalidReference(f"{shown(self.registry)} is no registry: write its host, like ghcr.io")
        if not _REPOSITORY.fullmatch(self.repository) or len(self.repository) > _MAX_REPOSITORY:
            raise InvalidReference(
                f"{shown(self.repository)} is no repository: write lower-case words joined by slashes"
            )
        if self.tag and not _TAG.fullmatch(self.tag):
            raise InvalidReference(f"{shown(self.tag)} is no tag: write letters, digits, dots and dashes")
        if self.digest and not is_sha256(self.digest):
            raise InvalidReference(f"{shown(self.digest)} is no digest: write sha256: and 64 hex digits")

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference.

        Raises:
            InvalidReference: The text is none.
        """
        rest, at, digest = text.removeprefix(SCHEME).partition("@")
        registry, slash, path = rest.partition("/")
        if at and not digest.startswith("sha256:"):
            # What stands before it may be a password, which is not repeated.
            raise InvalidReference(
                "a reference has an @ that no digest follows: write <host>/<repository>[:<tag>][@sha256:<hex>]; "
                "credentials come from 'docker login' or OCI_USERNAME and OCI_PASSWORD"
            )
        if not slash or not looks_like_registry(registry) or (at and not digest):
            raise InvalidReference(
                f"{shown(text)} names nothing in a registry: write <host>/<repository>[:<tag>], "
                "like registry.example.com/kaas/cluster-stacks"
            )
        repository, _, tag = path.partition(":")
        if ":" in path and not tag:
            raise InvalidReference(f"{shown(text)} has an empty tag: write one, or leave the colon out")
        return cls(registry, repository, tag, digest)

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Reference | None:
        """Read ``OCI_REGISTRY`` and ``OCI_REPOSITORY``; None when there is no ``OCI_REPOSITORY``.

        The repository may hold the registry's host, as csctl wants it, or not, as build.sh does.

        Raises:
            InvalidReference: They name no repository.
        """
        registry = environ.get("OCI_REGISTRY", "").strip().removeprefix(SCHEME).rstrip("/")
        repository = environ.get("OCI_REPOSITORY", "").strip().removeprefix(SCHEME).strip("/")
        if not repository:
            return None
        if registry and not repository.startswith(f"{registry}/"):
            repository = f"{registry}/{repository}"
        return cls.parse(repository)

    @property
    def host(self) -> str:
        """Where the registry's API is: Docker's is not where its name says."""
        return _DOCKER_HUB.get(self.registry, self.registry)

    @property
    def place(self) -> str:
        """The repository, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    def at(self, target: str) -> Reference:
        """Return the same repository at a tag or digest."""
        if target.startswith("sha256:"):
            return replace(self, tag="", digest=target)
        return replace(self, tag=target, digest="")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.place}{tag}{f'@{self.digest}' if self.digest else ''}"


def looks_like_registry(part: str) -> bool:
    """Whether the first part of a path is a host: it has a dot or a port, or is localhost."""
    return part == "localhost" or ("." in part.strip(".") or ":" in part)
