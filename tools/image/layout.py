"""The OCI image layout: blobs, and the JSON documents that join them (image-spec 1.1)."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.model.errors import SpecError
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, TITLE, Descriptor, describe
from clusterstacks.net.oci.manifests import OCI_INDEX, OCI_MANIFEST, write_index, write_manifest
from tools.image.debian import USER
from tools.image.sbom import MEDIA_TYPE as SBOM_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tools.image.layers import Archive

NAME = "cluster-stack-operator"
PORTS = (8080, 9440, 9443)
"""Metrics, probes and webhooks: the defaults of the operator's flags."""

ENVIRONMENT = ("PATH=/usr/bin", "MALLOC_TRIM_THRESHOLD_=131072")
"""The second one keeps the C library's threshold for the return of free memory at its initial value. Otherwise it grows
with the largest freed block (mallopt(3)): by 5 MB after some rollouts of 563 objects (benchmarks/rollouts.py)."""

CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
REF_NAME = "org.opencontainers.image.ref.name"

_MARKER = "oci-layout"


@dataclass(frozen=True, slots=True)
class Origin:
    """The state of the project from which an image is built.

    Args:
        version: Of the project.
        created: Seconds since 1970, of the commit: the time of the build would change the digest.
        revision: The commit; empty outside a git repository.
    """

    version: str
    created: int
    revision: str

    @property
    def time(self) -> str:
        """The time as RFC 3339 writes it."""
        return datetime.fromtimestamp(self.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def configuration(architecture: str, layers: Mapping[str, Archive], origin: Origin) -> bytes:
    """Write the configuration of an image (image-spec ``config.md``).

    Args:
        architecture: ``amd64`` or ``arm64``.
        layers: The layers from the lowest to the highest, by what is in them.
        origin: From what they were built.
    """
    labels = {
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.version": origin.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    if origin.revision:
        labels["org.opencontainers.image.revision"] = origin.revision
    document = {
        "architecture": architecture,
        "os": "linux",
        "created": origin.time,
        "config": {
            "User": f"{USER}:{USER}",
            "WorkingDir": "/",
            "Entrypoint": ["/usr/bin/cluster-stack-operator"],
            "Env": ENVIRONMENT,
            "ExposedPorts": {f"{port}/tcp": {} for port in PORTS},
            "Labels": labels,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers.values()]},
        "history": [{"created": origin.time, "created_by": what} for what in layers],
    }
    return orjson.dumps(document, option=orjson.OPT_SORT_KEYS)


class Layout:
    """An image layout that is being written.

    Args:
        folder: Where; a layout that is there is replaced.

    Raises:
        SpecError: The folder has other content.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not (folder / _MARKER).is_file() and any(folder.iterdir()):
            raise SpecError(
                "NotALayout", f"{folder} is not an OCI image layout and is not replaced: name another folder"
            )
        shutil.rmtree(folder, ignore_errors=True)
        self._blobs = folder / "blobs" / "sha256"
        self._blobs.mkdir(parents=True)
        (folder / _MARKER).write_bytes(orjson.dumps({"imageLayoutVersion": "1.0.0"}))
        self._folder = folder

    def add_image(self, architecture: str, layers: Mapping[str, Archive], origin: Origin) -> Descriptor:
        """Add the image of one architecture."""
        config = self._blob(configuration(architecture, layers, origin), CONFIG_TYPE)
        stored = [self._blob(layer.content, LAYER_TYPE) for layer in layers.values()]
        manifest = {
            "schemaVersion": 2,
            "mediaType": OCI_MANIFEST,
            "config": config.document(),
            "layers": [one.document() for one in stored],
        }
        return self._blob(orjson.dumps(manifest), OCI_MANIFEST)

    def add_referrer(self, subject: Descriptor, content: bytes, media_type: str, title: str) -> Descriptor:
        """Add a document about an image, as a referrer of it (image-spec ``manifest.md``, "subject")."""
        self._blob(EMPTY, EMPTY_TYPE)
        stored = replace(self._blob(content, media_type), annotations={TITLE: title})
        raw = write_manifest(
            artifact_type=media_type, config=describe(EMPTY, EMPTY_TYPE), layers=[stored], subject=subject
        )
        return replace(self._blob(raw, OCI_MANIFEST), artifact_type=media_type)

    def add_sbom(self, subject: Descriptor, content: bytes) -> Descriptor:
        """Add the list of what is in an image."""
        return self.add_referrer(subject, content, SBOM_TYPE, "sbom.cdx.json")

    def add_index(self, images: Mapping[str, Descriptor]) -> Descriptor:
        """Add the index of the images by architecture: what to deploy, on every architecture."""
        members = [_with_platform(image, architecture) for architecture, image in sorted(images.items())]
        return self._blob(write_index(members), OCI_INDEX)

    def finish(self, index: Descriptor, referrers: Sequence[Descriptor], tag: str) -> None:
        """Write the entry point of the layout: the index by its name, and beside it the referrers, as ORAS does."""
        named = index.document() | {"annotations": {REF_NAME: tag}}
        entry = write_index([named, *(one.document() for one in referrers)])
        (self._folder / "index.json").write_bytes(entry)

    def _blob(self, content: bytes, media_type: str) -> Descriptor:
        blob = describe(content, media_type)
        (self._blobs / blob.hex).write_bytes(content)
        return blob


def _with_platform(image: Descriptor, architecture: str) -> dict[str, Any]:
    return image.document() | {"platform": {"architecture": architecture, "os": "linux"}}
