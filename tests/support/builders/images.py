"""Container images in a registry: an index with an image for each of two platforms."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.descriptor import describe
from clusterstacks.net.oci.manifests import OCI_INDEX, OCI_MANIFEST, write_index
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry

if TYPE_CHECKING:
    from tests.support.servers.registries import RegistryServer

LAYER_BYTES = 700_000


async def push_image(server: RegistryServer, repository: str, tag: str) -> str:
    """Push an image that is always the same for a repository; return the digest of its index."""
    async with HTTPClient() as web:
        registry = Registry(web, Reference(server.host, repository))
        members: list[object] = []
        for architecture in ("amd64", "arm64"):
            config = orjson.dumps({"architecture": architecture, "os": "linux", "rootfs": {"type": "layers"}})
            layer = random.Random(f"{repository} {architecture}").randbytes(LAYER_BYTES)
            for blob in (config, layer):
                await registry.push_blob(blob)
            document: dict[str, Any] = {
                "schemaVersion": 2,
                "mediaType": OCI_MANIFEST,
                "config": describe(config, "application/vnd.oci.image.config.v1+json").document(),
                "layers": [describe(layer, "application/vnd.oci.image.layer.v1.tar").document()],
            }
            raw = orjson.dumps(document)
            await registry.push_manifest(raw, OCI_MANIFEST)
            platform = {"platform": {"architecture": architecture, "os": "linux"}}
            members.append(describe(raw, OCI_MANIFEST).document() | platform)
        return await registry.push_manifest(write_index(members), OCI_INDEX, tag)
