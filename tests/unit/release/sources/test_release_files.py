"""Single files of a release, read without a download from every kind of source."""

from __future__ import annotations

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.model.names import parse_release
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import AnswerRefused, SourceUnavailable
from clusterstacks.net.oci.errors import ContentCorrupt
from clusterstacks.net.oci.registry import Registry
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.plan.compat.release_statements import fetch_candidate
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.github.assets import GitHubSource
from clusterstacks.release.sources.http_index import HttpSource, write_index
from clusterstacks.release.sources.oci_publish import publish
from clusterstacks.release.sources.oci_repository import OCISource
from tests.support.builders.releases import STAGED, FakeSource, staged_release, write_release
from tests.support.fakes.github import OWNER, REPOSITORY, GitHubDouble
from tests.support.fakes.registry import RegistryDouble, digest
from tests.support.servers.static_server import StaticServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from clusterstacks.release.release_source import ReleaseSource

    Server = tuple[ReleaseSource, Callable[[], list[str]]]
    Start = Callable[[Path], AbstractAsyncContextManager[Server]]

STATED = b'apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1\nkubernetes: ">=1.34 <1.37"\n'
FILES = {**staged_release(), "compatibility.yaml": STATED}
OTHER = parse_release("local-tiny-1-35-v9")


@asynccontextmanager
async def web() -> AsyncIterator[HTTPClient]:
    async with HTTPClient(retries=RetryPolicy(pause=timedelta(milliseconds=1)), environ={}) as client:
        yield client


@asynccontextmanager
async def directory(root: Path) -> AsyncIterator[Server]:
    write_release(root / STAGED.release, FILES)
    yield DirectorySource(root), list


@asynccontextmanager
async def server(root: Path) -> AsyncIterator[Server]:
    write_release(root / STAGED.release, FILES)
    write_index(root)
    async with StaticServer.started(root) as static, web() as client:
        yield HttpSource(client, static.url), lambda: [path for path, _ in static.answers]


@asynccontextmanager
async def github(root: Path) -> AsyncIterator[Server]:  # noqa: ARG001 - as the others
    async with GitHubDouble.started() as double, web() as client:
        double.add(STAGED.release, FILES)
        source = GitHubSource(client, OWNER, REPOSITORY, api=double.url)
        yield source, double.asked


@asynccontextmanager
async def registry(root: Path) -> AsyncIterator[Server]:
    async with RegistryDouble.started() as double, web() as client:
        there = Registry(client, double.reference)
        await publish(write_release(root / STAGED.release, FILES), there, datetime.fromtimestamp(0, UTC))
        double.requests.clear()
        yield OCISource(there), lambda: double.asked


@pytest.mark.parametrize("start", [directory, server, github, registry])
async def test_only_requested_files_are_read(tmp_path: Path, start: Start) -> None:
    async with start(tmp_path) as (source, asked):
        found = await source.read(STAGED, ("metadata.yaml", "compatibility.yaml", "none.yaml"), 10_000)

        assert found == {name: FILES[name] for name in ("metadata.yaml", "compatibility.yaml")}
        assert len(asked()) in {0, 3}, "what the release is, and two files"


@pytest.mark.parametrize("start", [directory, server, github, registry])
async def test_missing_release_and_oversized_file_are_errors(tmp_path: Path, start: Start) -> None:
    async with start(tmp_path) as (source, _):
        with pytest.raises(ReleaseNotFound):
            await source.read(OTHER, ("metadata.yaml",), 10_000)
        with pytest.raises((ReleaseBroken, AnswerRefused), match=r"larger than 9 bytes|more than the 9 bytes"):
            await source.read(STAGED, ("metadata.yaml",), 9)


async def test_file_with_a_wrong_digest_is_rejected(tmp_path: Path) -> None:
    async with server(tmp_path) as (source, _):
        (tmp_path / STAGED.release / "metadata.yaml").write_bytes(b"other")
        with pytest.raises(SourceUnavailable, match="the source states"):
            await source.read(STAGED, ("metadata.yaml",), 10_000)
    async with GitHubDouble.started() as double, web() as client:
        double.add(STAGED.release, FILES).assets[0].served = b"other"
        source, name = GitHubSource(client, OWNER, REPOSITORY, api=double.url), next(iter(FILES))
        with pytest.raises(SourceUnavailable, match="the source states"):
            await source.read(STAGED, (name,), 10_000)
    async with RegistryDouble.started() as registry_double, web() as client:
        there = Registry(client, registry_double.reference)
        built = write_release(tmp_path / "built" / STAGED.release, FILES)
        await publish(built, there, datetime.fromtimestamp(0, UTC))
        stated = digest(FILES["metadata.yaml"])
        registry_double.blobs[stated] = b"x" * len(FILES["metadata.yaml"])
        with pytest.raises(ContentCorrupt):
            await OCISource(there).read(STAGED, ("metadata.yaml",), 10_000)


async def test_link_in_a_directory_is_not_followed(tmp_path: Path) -> None:
    release = write_release(tmp_path / STAGED.release, {})
    (tmp_path / "secret").write_text("not yours")
    (release / "metadata.yaml").symlink_to(tmp_path / "secret")
    with pytest.raises(ReleaseBroken, match="is a link"):
        await DirectorySource(tmp_path).read(STAGED, ("metadata.yaml",), 10_000)


async def test_compatibility_of_a_release_is_read_without_downloading_it() -> None:
    source = FakeSource({STAGED: FILES})
    candidate = await fetch_candidate(source, STAGED)
    assert candidate.name == STAGED
    assert candidate.kubernetes.text == "v1.35.4"
    assert candidate.compatibility is not None
    assert not source.fetched


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "metadata.yaml is missing; publish the release again"),
        ({"metadata.yaml": b"versions: {kubernetes: v1.36.1}"}, "publish the release under its own name"),
        ({"metadata.yaml": b"versions: {kubernetes: latest}"}, "expected a full Kubernetes version"),
        ({**FILES, "compatibility.yaml": orjson.dumps({"kubernetes": "newest"})}, "compatibility.yaml"),
    ],
)
async def test_unusable_file_is_named_with_its_release(files: Mapping[str, bytes], words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        await fetch_candidate(FakeSource({STAGED: files}), STAGED)
    assert str(STAGED) in str(caught.value)
