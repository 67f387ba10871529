"""OCI repository as a source of releases: every release is a tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.net.http.errors import NotThere
from clusterstacks.net.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.release.release_source import EnvelopeKind
from clusterstacks.release.sources.image_artifact import IMAGE_TAG
from clusterstacks.release.sources.oci_artifact import digest_of_files, files_of
from clusterstacks.release.sources.oci_signatures import find_evidence
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Collection
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.net.oci.registry import Registry
    from clusterstacks.release.release_source import Evidence

DIGEST_TAG = "sha256-"
"""Prefix of the tags of referrers (distribution-spec, "Referrers Tag Schema") and of cosign's signatures."""

MAX_MANIFESTS = 256
"""Most manifests in the cache, least recently used first out (arbitrary: 2 KB each)."""


class OCISource:
    """Releases in a repository.

    All methods may also raise ``CredentialsRefused``, ``AnswerRefused``, ``ContentCorrupt`` and ``ServerUnavailable``,
    and :class:`SpecError` for a tag that is not a release. ``digest`` is that of the manifest to read for every release
    instead of its tag; empty for the tag.
    """

    def __init__(self, registry: Registry, digest: str = "") -> None:
        self.registry = registry
        self._digest = digest
        self._known: dict[ReleaseName, Manifest] = {}

    async def list(self) -> tuple[str, ...]:
        """Return all tags, sorted, except those of signatures and images; ``NotThere`` without such a repository."""
        return tuple(tag for tag in await self.registry.tags() if not tag.startswith((DIGEST_TAG, IMAGE_TAG)))

    async def digest(self, name: ReleaseName) -> str:
        """Return the content digest in the manifest; one request, and from the second call on a HEAD.

        Registries with a pull limit do not count HEAD requests.
        """
        return digest_of_files(files_of(await self._manifest(name), name))

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        """Return the content of some layers, verified by their digests."""
        layers = files_of(await self._manifest(name), name)
        wanted = {file: layers[file] for file in files if file in layers}
        for file, layer in wanted.items():
            if layer.size > limit:
                raise ReleaseBroken(name, file, f"is larger than {limit} bytes")
        return {file: await self.registry.small_blob(layer, limit) for file, layer in wanted.items()}

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        """Write the release's files into an empty directory, each verified by digest and size."""
        files = files_of(await self._manifest(name), name)
        await gather(lambda layer: self.registry.blob(layer, into / layer.title), files.values(), at_once=BLOBS_AT_ONCE)

    async def evidence(self, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:
        """Return the manifest and its envelopes; for signatures, also cosign's under its own tag."""
        return await find_evidence(self.registry, await self._manifest(name), kind)

    async def image_size(self, digest: str) -> int:
        """Return the size of a node image; ``NotThere`` if it was not published."""
        return await self.registry.blob_size(digest)

    def image_part(self, digest: str, start: int, length: int) -> AsyncGenerator[bytes]:
        """Yield a part of a node image from the registry."""
        return self.registry.blob_part(digest, start, length)

    async def _manifest(self, name: ReleaseName) -> Manifest:
        known = self._known.pop(name, None)
        target = self._digest or name.release
        if known is None or await self.registry.head(target) != known.digest:
            try:
                known = await self.registry.manifest(target)
            except NotThere:
                raise ReleaseNotFound(name, self.registry.reference.at(self._digest)) from None
        self._known[name] = known
        while len(self._known) > MAX_MANIFESTS:
            del self._known[next(iter(self._known))]
        return known
