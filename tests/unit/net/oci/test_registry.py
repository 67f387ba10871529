"""Blobs, manifests and tags of one repository, with conforming and faulty registries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.errors import AnswerRefused, NotThere, ServerUnavailable
from clusterstacks.net.oci import blob_upload
from clusterstacks.net.oci.credentials import RegistryCredentials
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, describe
from clusterstacks.net.oci.errors import ContentCorrupt, ManifestInvalid
from clusterstacks.net.oci.manifests import MAX_BLOBS, OCI_MANIFEST, write_manifest
from clusterstacks.net.oci.registry import Registry
from tests.support.fakes.registry import digest
from tests.support.fakes.scripted_server import ScriptedServer, says

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.net.http.client import HTTPClient
    from tests.support.fakes.registry import RegistryDouble

CONTENT = os.urandom(3 * 1024 * 1024)
BLOB = describe(CONTENT, "x")
MANIFEST = write_manifest(artifact_type="a/b", layers=[], config=describe(EMPTY, EMPTY_TYPE))


async def test_blob_is_downloaded_and_verified(double: RegistryDouble, registry: Registry, tmp_path: Path) -> None:
    double.holds(CONTENT)

    await registry.blob(BLOB, tmp_path / "blob")

    assert (tmp_path / "blob").read_bytes() == CONTENT


async def test_interrupted_download_is_resumed(double: RegistryDouble, registry: Registry, tmp_path: Path) -> None:
    double.holds(CONTENT)
    double.cuts = [1_200_000, 700_000]

    await registry.blob(BLOB, tmp_path / "blob")

    assert (tmp_path / "blob").read_bytes() == CONTENT
    first, second, third = [request for request in double.requests if "blobs" in request.path]
    assert "Range" not in first.headers
    starts = [int(request.headers["Range"][6:-1]) for request in (second, third)]
    assert 0 < starts[0] <= 1_200_000 < starts[1] <= 1_900_000


async def test_download_without_progress_ends_with_an_error(
    double: RegistryDouble, registry: Registry, tmp_path: Path
) -> None:
    double.holds(CONTENT)
    double.cuts = [0] * 20

    with pytest.raises(ServerUnavailable):
        await registry.blob(BLOB, tmp_path / "blob")

    assert not (tmp_path / "blob").exists()


@pytest.mark.parametrize(
    ("there", "error"),
    [
        (CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]), ContentCorrupt),
        (CONTENT + b"more", AnswerRefused),
        (CONTENT[:-1], ServerUnavailable),
    ],
)
async def test_content_with_a_wrong_digest_is_not_kept(
    double: RegistryDouble, registry: Registry, tmp_path: Path, there: bytes, error: type[Exception]
) -> None:
    double.blobs[BLOB.digest] = there

    with pytest.raises(error):
        await registry.blob(BLOB, tmp_path / "blob")

    assert not (tmp_path / "blob").exists()


async def test_missing_blob_is_reported(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(NotThere):
        await registry.blob(BLOB, tmp_path / "blob")


async def test_small_blob_is_bounded_and_verified(double: RegistryDouble, registry: Registry) -> None:
    double.holds(b"abc")

    assert await registry.small_blob(describe(b"abc", "x"), 3) == b"abc"
    with pytest.raises(AnswerRefused, match="at most 2"):
        await registry.small_blob(describe(b"abc", "x"), 2)
    double.blobs[digest(b"abc")] = b"abd"
    with pytest.raises(ContentCorrupt):
        await registry.small_blob(describe(b"abc", "x"), 3)


async def test_existing_blob_is_not_uploaded(double: RegistryDouble, registry: Registry) -> None:
    double.holds(CONTENT)

    assert await registry.push_blob(CONTENT) == BLOB.digest

    assert [line for line in double.asked if "uploads" in line] == []


async def test_small_blob_is_uploaded_in_one_request(
    double: RegistryDouble, registry: Registry, tmp_path: Path
) -> None:
    (tmp_path / "blob").write_bytes(CONTENT)

    await registry.push_blob(tmp_path / "blob")

    assert double.blobs[BLOB.digest] == CONTENT
    assert [line.split()[0] for line in double.asked if "uploads" in line] == ["POST", "PUT"]


async def test_large_blob_is_uploaded_in_chunks(
    double: RegistryDouble, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_upload, "PART_BYTES", 1024 * 1024)
    (tmp_path / "blob").write_bytes(CONTENT)

    await registry.push_blob(tmp_path / "blob")

    assert double.blobs[BLOB.digest] == CONTENT
    assert [line.split()[0] for line in double.asked if "uploads" in line] == ["POST", "PATCH", "PATCH", "PATCH", "PUT"]


async def test_upload_chunks_have_at_least_the_minimum_size_of_the_registry(
    double: RegistryDouble, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_upload, "PART_BYTES", 1024 * 1024)
    double.least = 2 * 1024 * 1024
    (tmp_path / "blob").write_bytes(CONTENT)

    await registry.push_blob(tmp_path / "blob")

    parts = [request.headers["Content-Range"] for request in double.requests if request.method == "PATCH"]
    assert parts == ["0-2097151", "2097152-3145727"]


async def test_interrupted_upload_is_resumed(
    double: RegistryDouble, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_upload, "PART_BYTES", 2 * 1024 * 1024)
    (tmp_path / "blob").write_bytes(CONTENT)
    double.cuts = [1_000_000]

    await registry.push_blob(tmp_path / "blob")

    assert double.blobs[BLOB.digest] == CONTENT
    parts = [request.headers["Content-Range"] for request in double.requests if request.method == "PATCH"]
    assert parts[0] == "0-2097151"
    assert int(parts[1].split("-")[0]) >= 1_000_000
    assert double.asked.count("POST /v2/kaas/stacks/blobs/uploads/") == 1


async def test_upload_unknown_to_the_registry_is_restarted(
    double: RegistryDouble, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_upload, "PART_BYTES", 2 * 1024 * 1024)
    (tmp_path / "blob").write_bytes(CONTENT)
    double.cuts = [1_000_000]
    patched = double._receive

    async def forget(request: object, repository: str, upload: str) -> object:
        answer = await patched(request, repository, upload)  # type: ignore[arg-type]
        if not double.cuts and len(double.uploads) == 1 and "upload-1" in double.uploads:
            double.uploads.clear()
        return answer

    monkeypatch.setattr(double, "_receive", forget)

    await registry.push_blob(tmp_path / "blob")

    assert double.blobs[BLOB.digest] == CONTENT
    assert double.asked.count("POST /v2/kaas/stacks/blobs/uploads/") == 2


async def test_interrupted_small_upload_is_repeated(double: RegistryDouble, registry: Registry) -> None:
    double.cuts = [1_000_000]

    await registry.push_blob(CONTENT)

    assert double.blobs[BLOB.digest] == CONTENT


async def test_upload_without_progress_ends_with_an_error(double: RegistryDouble, registry: Registry) -> None:
    double.cuts = [0] * 20

    with pytest.raises(ServerUnavailable):
        await registry.push_blob(CONTENT)


async def test_error_contains_the_message_of_the_registry(
    double: RegistryDouble, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "blob").write_bytes(CONTENT)
    monkeypatch.setattr("tests.support.fakes.registry.digest", lambda _content: "sha256:other")

    with pytest.raises(AnswerRefused, match=r"status 400 .*DIGEST_INVALID.*other bytes"):
        await registry.push_blob(tmp_path / "blob")
    assert not double.blobs


async def test_upload_to_another_host_gets_no_credentials(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"me": "secret"}
    async with ScriptedServer.started() as elsewhere:
        elsewhere.plays(says({}, 201))
        double.upload_host = elsewhere.url.removeprefix("http://")

        await Registry(web, double.reference, RegistryCredentials("me", "secret")).push_blob(CONTENT)

        [request] = elsewhere.requests
        assert "Authorization" not in request.headers
        assert dict(request.query) == {"state": "a/b", "digest": BLOB.digest}
        assert elsewhere.bodies == [CONTENT]


async def test_blob_of_another_repository_is_mounted(double: RegistryDouble, registry: Registry) -> None:
    double.holds(CONTENT)

    assert await registry.mount(BLOB.digest, "other/stacks")
    assert not await registry.mount(digest(b"missing"), "other/stacks")

    assert not double.uploads, "the upload that was not wanted is cancelled"


async def test_rejected_mount_is_not_an_error(double: RegistryDouble, registry: Registry) -> None:
    assert await registry.head("v1") is None
    double.challenge = 'Unknown realm="x"'

    assert not await registry.mount(BLOB.digest, "other/stacks")


async def test_manifest_digest_is_verified(double: RegistryDouble, registry: Registry) -> None:
    found = double.tags("v1", MANIFEST, OCI_MANIFEST)

    assert (await registry.manifest("v1")).raw == MANIFEST
    assert (await registry.manifest(found)).artifact_type == "a/b"
    assert await registry.head("v1") == found
    assert await registry.head("v2") is None
    with pytest.raises(NotThere):
        await registry.manifest("v2")


async def test_manifest_with_a_wrong_digest_is_rejected(double: RegistryDouble, registry: Registry) -> None:
    other = digest(b"other")
    double.manifests["kaas/stacks", other] = MANIFEST, OCI_MANIFEST
    with pytest.raises(ContentCorrupt):
        await registry.manifest(other)

    double.tags("v1", MANIFEST, OCI_MANIFEST)
    double.extra = {"Docker-Content-Digest": other}
    with pytest.raises(ContentCorrupt):
        await registry.manifest("v1")
    with pytest.raises(ContentCorrupt):
        await registry.push_manifest(MANIFEST, OCI_MANIFEST, "v2")


async def test_unsupported_digest_algorithm_is_rejected(double: RegistryDouble, registry: Registry) -> None:
    double.tags("v1", MANIFEST, OCI_MANIFEST)
    double.extra = {"Docker-Content-Digest": f"sha512:{'a' * 128}"}

    with pytest.raises(AnswerRefused, match="only sha256"):
        await registry.manifest("v1")


@pytest.mark.parametrize(
    ("raw", "error"),
    [
        (b"<html>", ManifestInvalid),
        (b"[]", ManifestInvalid),
        (b'{"schemaVersion": 1}', SpecError),
        (b'{"schemaVersion": 2, "layers": {}}', ManifestInvalid),
        (b'{"schemaVersion": 2, "layers": [{"digest": "sha512:00", "size": 1, "mediaType": "x"}]}', ManifestInvalid),
        (orjson.dumps({"schemaVersion": 2, "layers": [BLOB.document()] * (MAX_BLOBS + 1)}), ManifestInvalid),
        (orjson.dumps({"schemaVersion": 2, "layers": [{**BLOB.document(), "size": -1}]}), ManifestInvalid),
    ],
)
async def test_invalid_manifest_is_rejected(
    double: RegistryDouble, registry: Registry, raw: bytes, error: type[Exception]
) -> None:
    double.tags("v1", raw, OCI_MANIFEST)

    with pytest.raises(error):
        _ = (await registry.manifest("v1")).layers


async def test_oversized_manifest_is_not_read(double: RegistryDouble, registry: Registry) -> None:
    double.tags("v1", b" " * (4 * 1024 * 1024 + 1), OCI_MANIFEST)

    with pytest.raises(AnswerRefused, match="more than"):
        await registry.manifest("v1")


async def test_all_pages_of_tags_are_read(double: RegistryDouble, registry: Registry) -> None:
    double.page = 7
    names = {f"t{number}" for number in range(30)}
    for name in names:
        double.tags(name, MANIFEST, OCI_MANIFEST)

    assert await registry.tags() == tuple(sorted(names))
    assert len(double.requests) == 1 + 5, "one to find out about TLS"


async def test_missing_repository_is_reported(registry: Registry) -> None:
    with pytest.raises(NotThere):
        await registry.tags()


@pytest.mark.parametrize("link", ["</v2/kaas/stacks/tags/list>; rel=next", '<?n=1>; rel="next"'])
async def test_endless_pagination_is_rejected(web: HTTPClient, double: RegistryDouble, link: str) -> None:
    async with ScriptedServer.started() as server:
        server.plays(says({"tags": ["a"]}, Link=link))
        reference = double.reference.parse(f"{server.url.removeprefix('http://')}/kaas/stacks")

        with pytest.raises(AnswerRefused, match="too many pages"):
            await Registry(web, reference).tags()


@pytest.mark.parametrize("body", [[], {"tags": "abc"}, {"tags": [1]}])
async def test_tag_list_of_another_shape_is_rejected(web: HTTPClient, double: RegistryDouble, body: object) -> None:
    async with ScriptedServer.started() as server:
        server.plays(says(body))
        reference = double.reference.parse(f"{server.url.removeprefix('http://')}/kaas/stacks")

        with pytest.raises(AnswerRefused):
            await Registry(web, reference).tags()
