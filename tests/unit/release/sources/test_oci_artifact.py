"""Releases as OCI artifacts: reproducible, and readable in both formats."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.oci.manifests import (
    DOCKER_LIST,
    DOCKER_MANIFEST,
    OCI_INDEX,
    OCI_MANIFEST,
    Manifest,
    read_manifest,
)
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.open import open_directory
from clusterstacks.release.release_source import MAX_FILE_BYTES
from clusterstacks.release.sources.oci_artifact import compose, created_at, digest_of_files, files_of, layer_type
from tests.support.builders.releases import STAGED, staged_release, write_release

if TYPE_CHECKING:
    from pathlib import Path

EPOCH = datetime.fromtimestamp(0, UTC)
DIGEST = f"sha256:{'a' * 64}"


def manifest(*titles: str | None, size: int = 1, **changes: object) -> Manifest:
    """A manifest as build.sh pushes it: another artifact type, default layer types, no annotations."""
    layers = [
        {
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": DIGEST,
            "size": size,
            **({} if title is None else {"annotations": {"org.opencontainers.image.title": title}}),
        }
        for title in titles
    ]
    document = {"schemaVersion": 2, "mediaType": OCI_MANIFEST, "layers": layers}
    document |= {"artifactType": "application/vnd.clusterstack.release", **changes}
    return read_manifest(orjson.dumps(document), OCI_MANIFEST, "r.example/a")


def test_manifest_equals_the_one_of_go_csctl(tmp_path: Path) -> None:
    release = open_directory(write_release(tmp_path / STAGED.release, staged_release()))

    document = orjson.loads(compose(release, EPOCH).raw)

    assert list(document) == ["schemaVersion", "mediaType", "artifactType", "config", "layers", "annotations"]
    assert document["artifactType"] == "application/vnd.scs.cluster-stacks.v1"
    assert document["config"] == {
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "size": 2,
        "data": "e30=",
    }
    assert document["annotations"] == {
        "hash": "abcdefg",
        "kubernetesVersion": "v1.35.4",
        "org.opencontainers.image.created": "1970-01-01T00:00:00Z",
    }
    titles = [layer["annotations"]["org.opencontainers.image.title"] for layer in document["layers"]]
    assert titles == sorted(staged_release())


def test_manifest_is_reproducible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_directory(write_release(tmp_path / "a" / STAGED.release, staged_release()))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    second = open_directory(
        write_release(tmp_path / "b" / STAGED.release, dict(reversed(list(staged_release().items()))))
    )

    assert compose(first, created_at({})).raw == compose(second, created_at({})).raw
    monkeypatch.undo()
    time.tzset()


def test_content_digest_equals_the_digest_of_the_directory(tmp_path: Path) -> None:
    directory = write_release(tmp_path / STAGED.release, staged_release())
    raw = compose(open_directory(directory), EPOCH).raw

    files = files_of(read_manifest(raw, OCI_MANIFEST, "here"), STAGED)

    assert digest_of_files(files) == read_contents(STAGED, directory).digest


@pytest.mark.parametrize(
    ("file", "media_type"),
    [
        ("a-cluster-addon-v1.tgz", "application/vnd.scs.cluster-addon.layer.v1.tar+gzip"),
        ("a-cluster-class-v1.tgz", "application/vnd.scs.cluster-class.v1.tar+gzip"),
        ("a-node-image-v1.tgz", "application/vnd.scs.node-image.layer.v1.tar+gzip"),
        ("cluster-addon-values.yaml", "application/vnd.oci.image.layer.v1.tar"),
        ("clusteraddon.yaml", "application/vnd.scs.cluster-addon.config.layer.v1+yaml"),
        ("compatibility.yaml", "application/vnd.scs.cluster-stacks.compatibility.layer.v1+yaml"),
        ("csctl.yaml", "application/vnd.oci.image.layer.v1.tar"),
        ("hashes.json", "application/vnd.scs.hashes.layer.v1+yaml"),
        ("metadata.yaml", "application/vnd.scs.metadata.layer.v1+yaml"),
        ("node-images.yaml", "application/vnd.scs.node-image.config.layer.v1+yaml"),
    ],
)
def test_every_file_has_its_media_type(file: str, media_type: str) -> None:
    assert layer_type(file) == media_type


def test_creation_time_can_be_set() -> None:
    assert created_at({"SOURCE_DATE_EPOCH": "1700000000"}) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    for text in ("yesterday", "9" * 30):
        with pytest.raises(SpecError, match="SOURCE_DATE_EPOCH"):
            created_at({"SOURCE_DATE_EPOCH": text})


def test_artifact_of_the_upstream_build_script_is_read() -> None:
    assert set(files_of(manifest("metadata.yaml", "csctl.yaml"), STAGED)) == {"metadata.yaml", "csctl.yaml"}


@pytest.mark.parametrize("title", [None, "", ".", "..", "../x", "a/b", "/x", "a\\b", "a\nb", "a\0", "x" * 256])
def test_layer_needs_a_plain_file_name(title: str | None) -> None:
    with pytest.raises(ReleaseBroken, match="not a unique file name"):
        files_of(manifest("metadata.yaml", title), STAGED)


def test_two_layers_with_one_file_name_are_rejected() -> None:
    with pytest.raises(ReleaseBroken):
        files_of(manifest("metadata.yaml", "Metadata.yaml"), STAGED)


def test_oversized_release_is_rejected_before_the_download() -> None:
    with pytest.raises(ReleaseBroken, match="larger"):
        files_of(manifest("a", size=MAX_FILE_BYTES + 1), STAGED)
    with pytest.raises(ReleaseBroken, match="more than"):
        files_of(manifest("a", "b", "c", size=MAX_FILE_BYTES), STAGED)
    with pytest.raises(ReleaseBroken, match="more than"):
        files_of(manifest(*(f"f{number}" for number in range(101))), STAGED)


@pytest.mark.parametrize("media_type", [OCI_INDEX, DOCKER_MANIFEST, DOCKER_LIST, "application/json"])
def test_manifest_of_another_type_is_not_a_release(media_type: str) -> None:
    with pytest.raises(SpecError, match="not a release"):
        files_of(manifest("metadata.yaml", mediaType=media_type), STAGED)
