"""References: ``[oci://]host[:port]/repository[:tag][@digest]``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError

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
    """Return whether a value has the form ``sha256:<64 hex digits>``."""
    return isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository in a registry, with an optional tag or digest; an invalid part raises SpecError.

    ``registry`` is the host, with the port unless it is the default. A digest has precedence over a tag.
    """

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.registry):
            raise _invalid(
                f"{shown(self.registry)} is not a valid registry (expected a host, for example ghcr.io)",
            )
        if not _REPOSITORY.fullmatch(self.repository) or len(self.repository) > _MAX_REPOSITORY:
            raise _invalid(
                f"{shown(self.repository)} is not a valid repository (expected lower-case words joined by slashes)",
            )
        if self.tag and not _TAG.fullmatch(self.tag):
            raise _invalid(f"{shown(self.tag)} is not a valid tag (expected letters, digits, dots and dashes)")
        if self.digest and not is_sha256(self.digest):
            raise _invalid(f"{shown(self.digest)} is not a valid digest (expected sha256: and 64 hex digits)")

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse a reference; raise SpecError if it is not valid, without text that may be a password."""
        rest, at, digest = text.removeprefix(SCHEME).partition("@")
        registry, slash, path = rest.partition("/")
        if at and not digest.startswith("sha256:"):
            # The text before it may be a password, so it is not shown.
            raise _invalid(
                "a reference has an @ without a digest after it: write <host>/<repository>[:<tag>][@sha256:<hex>]; "
                "credentials come from 'docker login' or OCI_USERNAME and OCI_PASSWORD",
            )
        if not slash or not looks_like_registry(registry) or (at and not digest):
            raise _invalid(
                f"{shown(text)} is not a valid reference: write <host>/<repository>[:<tag>], "
                "like registry.example.com/kaas/cluster-stacks",
            )
        repository, _, tag = path.partition(":")
        if ":" in path and not tag:
            raise _invalid(f"{shown(text)} has an empty tag: write one, or remove the colon")
        return cls(registry, repository, tag, digest)

    @classmethod
    def parse_image(cls, text: str) -> Reference:
        """Parse the name of a container image, with the defaults of docker: docker.io, library, latest."""
        name, at, digest = text.partition("@")
        host, slash, path = name.partition("/")
        if not (slash and looks_like_registry(host)):
            host, path = "docker.io", name
        path = f"library/{path}" if host == "docker.io" and "/" not in path else path
        reference = cls.parse(f"{host}/{path}{at}{digest}")
        return reference if reference.tag or reference.digest else reference.at("latest")

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Reference | None:
        """Read ``OCI_REGISTRY`` and ``OCI_REPOSITORY``; None without ``OCI_REPOSITORY``.

        The repository may contain the registry's host, as in csctl, or not, as in build.sh.
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
        """Host of the registry's API, which differs from the name for docker.io."""
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
    """Return whether the first part of a path is a host: it has a dot or a port, or is localhost."""
    return part == "localhost" or ("." in part.strip(".") or ":" in part)


def _invalid(message: str) -> SpecError:
    return SpecError("InvalidReference", message)
