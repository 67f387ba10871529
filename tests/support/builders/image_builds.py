"""Two builds of the operator's image: the one that README describes, and a copy with another label."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.net.oci.descriptor import describe
from tests.support.running.doc_pages import INSTALLATION, README, Page
from tools.image.building import origin_of
from tools.image.pushing import Stored, open_layout
from tools.image.wheels import PROJECT

if TYPE_CHECKING:
    from pathlib import Path

LAYOUT = PROJECT / "dist" / "image"
SECONDS = 1500
"""Time for a build of both architectures on a busy machine; it takes 100 s of CPU."""
REVISION = "org.opencontainers.image.revision"
LABEL = "org.opencontainers.image.version"


def built() -> Stored:
    """Build the image by the commands of README, or use the one that they have left for the same commit."""
    if not LAYOUT.is_dir() or _revision(open_layout(LAYOUT)) != origin_of(PROJECT).revision:
        page = Page.read(README, section=INSTALLATION)
        page.part(page.blocks[:1]).run(PROJECT, os.environ, seconds=SECONDS)
    return open_layout(LAYOUT)


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
