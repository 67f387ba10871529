"""A release as an OCI artifact: one layer for each file.

Artifacts are written as by csctl in Go, and reproducibly: layers in the order of file names, and ``created`` is
``SOURCE_DATE_EPOCH``, or the beginning of 1970. So the same files always have the same manifest. Artifacts of build.sh
can be read as well; they have only the titles of the layers in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clusterstacks.model.digests import content_digest
from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, TITLE, Descriptor, describe
from clusterstacks.net.oci.manifests import write_manifest
from clusterstacks.release.charts.archive import MemberNames
from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.release_source import MAX_FILE_BYTES, MAX_FILES, MAX_RELEASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.release.release import Release

ARTIFACT_TYPE = "application/vnd.scs.cluster-stacks.v1"
CREATED = "org.opencontainers.image.created"
EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
"""https://reproducible-builds.org/specs/source-date-epoch/"""

_PREFIX = "application/vnd.scs."
_NAMED = {
    "clusteraddon.yaml": "cluster-addon.config.layer.v1+yaml",
    "metadata.yaml": "metadata.layer.v1+yaml",
    "hashes.json": "hashes.layer.v1+yaml",
    "node-images.yaml": "node-image.config.layer.v1+yaml",
    "compatibility.yaml": "cluster-stacks.compatibility.layer.v1+yaml",
}
_ARCHIVES = (
    ("cluster-addon", "cluster-addon.layer.v1.tar+gzip"),
    ("cluster-class", "cluster-class.v1.tar+gzip"),
    ("node-image", "node-image.layer.v1.tar+gzip"),
)
_DEFAULT = "application/vnd.oci.image.layer.v1.tar"


@dataclass(frozen=True, slots=True)
class Artifact:
    """A release ready to be published: its manifest, and the file of each layer by digest."""

    raw: bytes
    files: Mapping[str, Path]


def compose(release: Release, created: datetime) -> Artifact:
    """Write the manifest of an opened release directory; see :func:`created_at` for the creation time."""
    contents = release.contents
    layers = [
        Descriptor(layer_type(file), f"sha256:{digest}", (contents.root / file).stat().st_size, {TITLE: file})
        for file, digest in sorted(contents.files.items())
    ]
    annotations = {
        "kubernetesVersion": release.metadata.kubernetes.text,
        "hash": release.hashes.short,
        CREATED: created.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    raw = write_manifest(
        artifact_type=ARTIFACT_TYPE, layers=layers, config=describe(EMPTY, EMPTY_TYPE), annotations=annotations
    )
    return Artifact(raw, {layer.digest: contents.root / layer.title for layer in layers})


def layer_type(file: str) -> str:
    """Return the media type of a file's layer; readers use only the title."""
    if file in _NAMED:
        return _PREFIX + _NAMED[file]
    if file.endswith(".tgz"):
        for word, media_type in _ARCHIVES:
            if word in file:
                return _PREFIX + media_type
    return _DEFAULT


def created_at(environ: Mapping[str, str]) -> datetime:
    """Return the creation time of artifacts: ``SOURCE_DATE_EPOCH`` in seconds, or the beginning of 1970."""
    text = environ.get(EPOCH_VARIABLE, "").strip() or "0"
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        raise SpecError(
            "EpochInvalid", f"{EPOCH_VARIABLE} is not a valid time; set it to seconds since 1970, or unset it"
        ) from None


def files_of(manifest: Manifest, release: object) -> dict[str, Descriptor]:
    """Return the files in a manifest, within the bounds of a release.

    Raises:
        SpecError: It is not an image manifest.
        ManifestInvalid: It violates the image-spec.
        ReleaseBroken: The title of a layer is missing, not a plain file name or a duplicate, or the release is too
            large.
    """
    manifest.require_image()
    names = MemberNames(f"release {release}")
    files: dict[str, Descriptor] = {}
    for layer in manifest.layers:
        if not _is_plain(names, layer.title):
            problem = f"of layer {layer.digest} is not a unique file name; publish the release again"
            raise ReleaseBroken(release, f"the title {shown(layer.title)}", problem)
        if layer.size > MAX_FILE_BYTES:
            raise ReleaseBroken(release, layer.title, f"is larger than {MAX_FILE_BYTES} bytes")
        files[layer.title] = layer
    if len(files) > MAX_FILES or sum(layer.size for layer in files.values()) > MAX_RELEASE_BYTES:
        bounds = f"{MAX_FILES} files or {MAX_RELEASE_BYTES} bytes"
        raise ReleaseBroken(release, "the manifest", f"lists more than {bounds}, the limits of a release")
    return files


def digest_of_files(files: Mapping[str, Descriptor]) -> str:
    """Return the content digest of a release with these files."""
    return content_digest((name, layer.hex) for name, layer in files.items())


def _is_plain(names: MemberNames, title: str) -> bool:
    try:
        return names.admit(title, directory=False) == title and "/" not in title
    except UnsafeArchive:
        return False
