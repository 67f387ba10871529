"""Releases on a static web server."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from clusterstacks.model.digests import content_digest
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.net.http.errors import (
    AnswerRefused,
    CredentialsRefused,
    ServerUnavailable,
    SourceUnavailable,
)
from clusterstacks.release import release_source
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.release.release_source import EnvelopeKind, Evidence
from clusterstacks.release.sources import http_index
from clusterstacks.release.sources.http_index import HttpSource, write_index
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import SINGLE, STAGED, read_release, single_release, staged_release, write_release
from tests.support.fakes.scripted_server import ScriptedServer, says
from tests.support.servers.static_server import StaticServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.net.http.client import HTTPClient

FILES = staged_release()
ZERO = f"sha256:{'0' * 64}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A directory with a release and its signature, and what an author may have beside them."""
    root = tmp_path / "root"
    write_release(root / STAGED.release, FILES)
    (root / f"{STAGED}.dsse.json").write_bytes(b"{}")
    (root / "drafts").mkdir()
    (root / "README").write_text("hello")
    write_index(root)
    return root


@pytest.fixture
async def server(root: Path) -> AsyncIterator[StaticServer]:
    async with StaticServer.started(root) as server:
        yield server


@pytest.fixture
def into(tmp_path: Path) -> Path:
    (tmp_path / "into").mkdir()
    return tmp_path / "into"


def state(root: Path, entry: Any) -> None:
    """Write an index with this entry for the release."""
    (root / "index.json").write_bytes(orjson.dumps({"releases": {STAGED.release: entry}}))


async def test_release_is_downloaded_and_its_digest_is_known_before(
    web: HTTPClient, server: StaticServer, into: Path
) -> None:
    source = HttpSource(web, f"{server.url}/")
    assert await source.list() == (STAGED.release,)
    digest = content_digest((name, sha256(content).hexdigest()) for name, content in FILES.items())
    assert await source.digest(STAGED) == digest
    await source.fetch(STAGED, into)
    assert read_release(into) == FILES
    assert (await source.evidence(STAGED)).envelopes == (b"{}",)


async def test_release_of_an_index_is_stored(web: HTTPClient, server: StaticServer, root: Path, tmp_path: Path) -> None:
    write_release(root / SINGLE.release, single_release())
    write_index(root)
    source, store = HttpSource(web, server.url), ReleaseStore(tmp_path / "store")
    for name in (STAGED, SINGLE):
        assert (await store.ensure(name, source)).digest == await source.digest(name)


async def test_unchanged_index_is_not_transferred_again(web: HTTPClient, server: StaticServer) -> None:
    source = HttpSource(web, server.url)
    first = await source.list()
    assert await source.list() == first
    assert await source.digest(STAGED)
    assert server.answers == [("/index.json", 200), ("/index.json", 304), ("/index.json", 304)]


async def test_server_without_etags_is_asked_by_date(web: HTTPClient) -> None:
    async with ScriptedServer.started() as server:
        date = "Sat, 21 Nov 2026 10:00:00 GMT"
        index: dict[str, Any] = {"releases": {STAGED.release: {"files": {}}}}
        server.plays(says(index, 200, **{"Last-Modified": date}), says("", 304), says(index))
        source = HttpSource(web, server.url)
        assert [await source.list() for _ in range(4)] == [(STAGED.release,)] * 4
        conditions = [request.headers.get("If-Modified-Since") for request in server.requests]
        assert conditions == [None, date, date, None]


async def test_new_release_is_listed_once_it_is_in_the_index(web: HTTPClient, server: StaticServer, root: Path) -> None:
    source = HttpSource(web, server.url)
    await source.list()
    write_release(root / SINGLE.release, single_release())
    assert await source.list() == (STAGED.release,)
    with pytest.raises(ReleaseNotFound, match=f"{SINGLE} is not in {server.url}"):
        await source.fetch(SINGLE, root)
    write_index(root)
    assert await source.list() == (STAGED.release, SINGLE.release)


async def test_statements_of_stages_are_read_if_the_index_states_their_digest(
    web: HTTPClient, server: StaticServer, root: Path
) -> None:
    (root / f"{STAGED}.intoto.jsonl").write_bytes(b"{}\n{}\n")
    source = HttpSource(web, server.url)
    assert await source.evidence(STAGED, EnvelopeKind.STAGES) == Evidence()
    write_index(root)
    assert await source.evidence(STAGED, EnvelopeKind.STAGES) == Evidence((b"{}", b"{}"))
    assert await source.evidence(STAGED) == Evidence((b"{}",))


async def test_file_with_a_wrong_digest_is_rejected(
    web: HTTPClient, server: StaticServer, root: Path, into: Path
) -> None:
    (root / STAGED.release / "metadata.yaml").write_bytes(b"changed")
    (root / f"{STAGED}.dsse.json").write_bytes(b"changed")
    source = HttpSource(web, server.url)
    with pytest.raises(SourceUnavailable, match=r"metadata\.yaml cannot be read: its digest"):
        await source.fetch(STAGED, into)
    with pytest.raises(SourceUnavailable, match=r"dsse\.json cannot be read: its digest"):
        await source.evidence(STAGED)


async def test_missing_file_of_the_index_is_named(
    web: HTTPClient, server: StaticServer, root: Path, into: Path
) -> None:
    (root / STAGED.release / "metadata.yaml").unlink()
    (root / f"{STAGED}.dsse.json").unlink()
    source = HttpSource(web, server.url)
    with pytest.raises(SourceUnavailable, match=r"metadata\.yaml .* does not exist, but index\.json lists it"):
        await source.fetch(STAGED, into)
    with pytest.raises(SourceUnavailable, match=r"dsse\.json .* does not exist, but index\.json lists it"):
        await source.evidence(STAGED)


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (None, "is nothing in the index"),
        ([], "is a list in the index"),
        ({}, "files is nothing in the index"),
        ({"files": ["a"]}, "files is a list in the index"),
        ({"files": {"a": None}}, "'a' has the digest nothing"),
        ({"files": {"a": "md5:00"}}, "'a' has the digest 'md5:00'"),
        ({"files": {"a": ZERO.upper()}}, "'a' has the digest"),
        ({"files": {"../a": ZERO}}, "not a valid file name"),
        ({"files": {".": ZERO}}, "not a valid file name"),
        ({"files": {"a\n": ZERO}}, "not a valid file name"),
        (
            {"files": {f"{number}": ZERO for number in range(release_source.MAX_FILES + 1)}},
            "exceeds the limit of 100 files",
        ),
    ],
)
async def test_invalid_entry_does_not_affect_other_releases(
    web: HTTPClient, server: StaticServer, root: Path, into: Path, entry: Any, problem: str
) -> None:
    (root / "index.json").write_bytes(
        orjson.dumps({"releases": {STAGED.release: entry, SINGLE.release: {"files": {}}}})
    )
    source = HttpSource(web, server.url)
    with pytest.raises(ReleaseBroken, match=problem):
        await source.digest(STAGED)
    with pytest.raises(ReleaseBroken, match=problem):
        await source.fetch(STAGED, into)
    assert await source.list() == (STAGED.release, SINGLE.release)
    assert await source.digest(SINGLE)
    assert {path for path, _ in server.answers} == {"/index.json"}


async def test_file_with_special_characters_is_requested_by_its_encoded_name(
    web: HTTPClient, server: StaticServer, root: Path, into: Path
) -> None:
    files = {"a b.yaml": b"1", "100%25.yaml": b"2", "q?x#y.yaml": b"3", "ü+&.yaml": b"4"}
    for name, content in files.items():
        (root / STAGED.release / name).write_bytes(content)
    write_index(root)
    await HttpSource(web, server.url).fetch(STAGED, into)
    assert read_release(into) == {**FILES, **files}


async def test_oversized_file_is_stopped(
    web: HTTPClient, server: StaticServer, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.release.sources.downloads.MAX_FILE_BYTES", 10)
    with pytest.raises(ReleaseBroken, match="is larger than 10 bytes"):
        await HttpSource(web, server.url).fetch(STAGED, into)


async def test_oversized_release_is_stopped(
    web: HTTPClient, server: StaticServer, into: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_index, "MAX_RELEASE_BYTES", 300)
    with pytest.raises(ReleaseBroken, match="makes the release larger than"):
        await HttpSource(web, server.url).fetch(STAGED, into)


async def test_no_signature_in_the_index_is_no_evidence(web: HTTPClient, server: StaticServer, root: Path) -> None:
    state(root, {"files": {}})
    assert (await HttpSource(web, server.url).evidence(STAGED)).envelopes == ()


async def test_disk_error_is_not_reported_as_a_source_error(
    web: HTTPClient, server: StaticServer, tmp_path: Path
) -> None:
    with pytest.raises(DependencyError, match="No such file or directory"):
        await HttpSource(web, server.url).fetch(STAGED, tmp_path / "missing")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"releases": []}', b'{"releases": null}', b"{}", b"[" * 100_000])
async def test_invalid_index_is_reported(web: HTTPClient, server: StaticServer, root: Path, body: bytes) -> None:
    (root / "index.json").write_bytes(body)
    with pytest.raises(AnswerRefused, match=rf"{server.url}/index\.json is not a release index"):
        await HttpSource(web, server.url).list()


async def test_missing_index_is_reported(web: HTTPClient, server: StaticServer, root: Path) -> None:
    (root / "index.json").unlink()
    with pytest.raises(SourceUnavailable, match=r"has no index\.json"):
        await HttpSource(web, server.url).list()


async def test_not_modified_response_to_an_unconditional_request_is_an_error(web: HTTPClient) -> None:
    async with ScriptedServer.started() as server:
        server.plays(says("", 304))
        with pytest.raises(AnswerRefused, match="304"):
            await HttpSource(web, server.url).list()


async def test_credentials_are_sent_with_every_request_and_never_printed(
    web: HTTPClient, server: StaticServer, into: Path
) -> None:
    source = HttpSource(web, server.url, authorization="Bearer secret\n")
    await source.fetch(STAGED, into)
    await source.evidence(STAGED)
    assert {request.headers["Authorization"] for request in server.requests} == {"Bearer secret"}
    async with ScriptedServer.started() as strict:
        strict.plays(says("", 401))
        with pytest.raises(CredentialsRefused) as caught:
            await HttpSource(web, strict.url, authorization="Bearer secret").list()
        assert "secret" not in str(caught.value)


async def test_unreachable_server_makes_the_source_unavailable(web: HTTPClient, root: Path) -> None:
    async with StaticServer.started(root) as server:
        url = server.url
    with pytest.raises(ServerUnavailable, match=f"{url}/index.json is not available: Connection refused"):
        await HttpSource(web, url).list()


async def test_invalid_url_is_rejected(web: HTTPClient) -> None:
    with pytest.raises(SpecError, match="the URL is not valid"):
        await HttpSource(web, "ftp://stacks.example").list()
    with pytest.raises(SpecError, match="must not contain a query") as caught:
        HttpSource(web, "https://stacks.example/?token=secret")
    assert "secret" not in str(caught.value)


def test_index_lists_only_releases_and_is_reproducible(root: Path) -> None:
    index = write_index(root)
    assert index == write_index(root) == (root / "index.json").read_bytes()
    entry = orjson.loads(index)["releases"]
    assert list(entry) == [STAGED.release]
    assert entry[STAGED.release]["files"] == {
        name: f"sha256:{sha256(content).hexdigest()}" for name, content in FILES.items()
    }
    assert entry[STAGED.release]["signature"] == f"sha256:{sha256(b'{}').hexdigest()}"
    assert (root / "index.json").stat().st_mode & 0o777 == 0o644


def test_invalid_release_is_left_out_of_the_index(root: Path) -> None:
    before = (root / "index.json").read_bytes()
    (root / STAGED.release / "link").symlink_to("metadata.yaml")
    with pytest.raises((ReleaseBroken, DependencyError)):
        write_index(root)
    assert (root / "index.json").read_bytes() == before
    assert not list(root.glob(".index.json*"))


def test_missing_directory_gets_no_index(tmp_path: Path) -> None:
    with pytest.raises(DependencyError, match="No such file or directory"):
        write_index(tmp_path / "missing")
