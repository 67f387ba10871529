"""Interface of a repository of manifests and blobs: in a registry, or in an image layout on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from clusterstacks.oci.descriptor import Descriptor
    from clusterstacks.oci.manifests import Manifest
    from clusterstacks.oci.reference import Reference
    from clusterstacks.oci.referrers import Referrers


class ImageRepository(Protocol):
    """A repository; :class:`~clusterstacks.oci.registry.Registry` describes the methods and their errors."""

    @property
    def reference(self) -> Reference:
        """The repository, without tag and digest."""
        ...

    @property
    def scratch(self) -> Path | None:
        """The directory for downloads that ``add_blob`` gets; None for the one of the system."""
        ...

    async def tags(self) -> tuple[str, ...]:
        """Return all tags, sorted."""
        ...

    async def head(self, target: str) -> str | None:
        """Return the digest of the manifest with a tag or digest; None when it does not exist."""
        ...

    async def manifest(self, target: str, limit: int = ...) -> Manifest:
        """Return a verified manifest by tag or digest."""
        ...

    async def has_blob(self, digest: str) -> bool:
        """Return whether the repository has a blob."""
        ...

    async def blob(self, blob: Descriptor, into: Path) -> None:
        """Write a blob to a new file, verified."""
        ...

    async def small_blob(self, blob: Descriptor, limit: int) -> bytes:
        """Return a blob of at most ``limit`` bytes, verified."""
        ...

    def blob_file(self, blob: Descriptor, scratch: Path | None) -> AbstractAsyncContextManager[Path]:
        """Yield a file with a blob; one that has to be downloaded is in ``scratch``, and is verified."""
        ...

    async def push_blob(self, content: bytes | Path, *, title: str = "") -> str:
        """Store a blob unless it exists; return its digest."""
        ...

    async def add_blob(self, blob: Descriptor, file: Path) -> None:
        """Store a blob that does not exist, verified; a file in ``scratch`` may be moved."""
        ...

    async def mount(self, digest: str, origin: str) -> bool:
        """Mount a blob from another repository of the same registry; False when that is not possible."""
        ...

    async def push_manifest(self, raw: bytes, media_type: str, target: str = "") -> str:
        """Store a manifest by tag, or by its digest without a tag; return the digest."""
        ...

    async def referrers(self, digest: str, artifact_type: str = "") -> Referrers:
        """Return the referrers of a manifest, of one artifact type or of all."""
        ...
