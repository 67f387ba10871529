"""D61: downloads were not verified, so a changed registry could change a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.errors import ContentCorrupt
from clusterstacks.net.oci.manifests import OCI_MANIFEST
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.errors import DigestMismatch
from clusterstacks.release.sources.oci_publish import publish
from clusterstacks.release.sources.oci_repository import OCISource
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.fakes.registry import RegistryDouble, digest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.regression("D61")

EPOCH = datetime.fromtimestamp(0, UTC)


@pytest.mark.regression("D61")
async def test_layer_with_a_wrong_digest_is_rejected(tmp_path: Path) -> None:
    directory = write_release(tmp_path / STAGED.release, staged_release())
    async with RegistryDouble.started() as double, HTTPClient() as web:
        registry = Registry(web, double.reference)
        await publish(directory, registry, EPOCH)
        metadata = staged_release()["metadata.yaml"]
        double.blobs[digest(metadata)] = metadata.replace(b"1.35.4", b"1.35.5")

        store = ReleaseStore(tmp_path / "store")
        with pytest.raises(ContentCorrupt):
            await store.ensure(STAGED, OCISource(registry))

        assert await store.collect(()) == []


@pytest.mark.regression("D61")
async def test_moved_tag_is_not_followed(tmp_path: Path) -> None:
    directory = write_release(tmp_path / STAGED.release, staged_release())
    async with RegistryDouble.started() as double, HTTPClient() as web:
        registry = Registry(web, double.reference)
        source = OCISource(registry)
        await publish(directory, registry, EPOCH)
        pinned = await source.digest(STAGED)
        # Somebody pushes another release over it, past every check of ours.
        (directory / "hashes.json").write_text("{}")
        async with RegistryDouble.started() as scratch:
            await publish(directory, Registry(web, scratch.reference), EPOCH)
            double.blobs |= scratch.blobs
            double.tags(STAGED.release, scratch.manifests["kaas/stacks", STAGED.release][0], OCI_MANIFEST)

        assert await source.digest(STAGED) != pinned
        with pytest.raises(DigestMismatch):
            await ReleaseStore(tmp_path / "store").ensure(STAGED, source, digest=pinned)
