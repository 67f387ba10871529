"""Two builds of the operator's image: of this checkout, and a copy with another label."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.oci.descriptor import describe
from tools.image.building import build, machine, origin_of
from tools.image.pushing import Stored, open_layout
from tools.image.wheels import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = PROJECT / "dist" / "image"
REVISION = "org.opencontainers.image.revision"
LABEL = "org.opencontainers.image.version"


def built(folder: Path) -> Stored:
    """Build the image of this checkout for this machine, or use that of ``make image`` for the same commit."""
    if LAYOUT.is_dir() and _revision(stored := open_layout(LAYOUT)) == origin_of(PROJECT).revision:
        return stored
    build([machine()], folder, [], print)
    return open_layout(folder)


def _revision(stored: Stored) -> str:
    """Return the commit of an image; empty if it was built with uncommitted changes."""
    (image, *_) = stored.index.manifests
    config = orjson.loads(stored.content(stored.manifest(image).config).read_bytes())
    revision = str(config["config"]["Labels"].get(REVISION, ""))
    return "" if revision.endswith("-dirty") else revision


def relabelled(stored: Stored, folder: Path, version: str) -> Stored:
    """Write the image with another version label, and so with another digest."""
    shutil.copytree(stored.folder, folder)
    (image, *_) = stored.index.manifests
    manifest = orjson.loads(stored.content(image).read_bytes())
    config = orjson.loads(stored.content(stored.manifest(image).config).read_bytes())
    config["config"]["Labels"][LABEL] = version
    manifest["config"] |= _blob(folder, config)
    index = orjson.loads(stored.index.raw)
    index["manifests"][0] |= _blob(folder, manifest)
    entry = {"mediaType": stored.index.media_type, **_blob(folder, index)}
    entry["annotations"] = {"org.opencontainers.image.ref.name": version}
    (folder / "index.json").write_bytes(orjson.dumps({"schemaVersion": 2, "manifests": [entry]}))
    return open_layout(folder)


def _blob(folder: Path, document: Any) -> dict[str, Any]:
    content = orjson.dumps(document)
    descriptor = describe(content, "")
    (folder / "blobs" / "sha256" / descriptor.hex).write_bytes(content)
    return {"digest": descriptor.digest, "size": descriptor.size}
