"""Node images over HTTP, from a directory and from a source that breaks."""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import aiohttp
import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.http.errors import ServerUnavailable
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator import image_server as module
from clusterstacks.operator.image_requests import IMAGE_INDEX, image_path, images_of
from clusterstacks.operator.image_server import ImageAddresses, ImageServer
from clusterstacks.operator.webhooks.certificates import create_serving
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.runtime.cache import ObjectCache, key_of
from tests.support.fakes.api_server import FakeApi
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from clusterstacks.release.release_source import ImageSource

CONTENT = os.urandom(3 * 1024 * 1024 + 17)
DIGEST = f"sha256:{sha256(CONTENT).hexdigest()}"
KEY = b"k" * 32
PATH = image_path(KEY, ObjectKey("team", DIGEST))


class Breaking:
    """A source that fails after the first part, or at once."""

    def __init__(self, *, at_once: bool) -> None:
        self._at_once = at_once
        self.closed = asyncio.Event()

    async def image_size(self, digest: str) -> int:
        if self._at_once:
            raise ServerUnavailable(digest, "it is off")
        return len(CONTENT)

    async def image_part(self, digest: str, start: int, length: int) -> AsyncIterator[bytes]:
        try:
            yield CONTENT[start : start + min(length, 1000)]
            raise ServerUnavailable(digest, "it is off")
        finally:
            self.closed.set()


def release(namespace: str = "team", signed: str = "True") -> Manifest:
    conditions = [
        {"type": "ClusterStackReleaseDownloaded", "status": "True"},
        {"type": "SignatureVerified", "status": signed, "reason": "SignatureRequired"},
    ]
    status = {"nodeImageFiles": [DIGEST], "conditions": conditions}
    return {"metadata": {"namespace": namespace, "name": "local-shop-1-35-v1"}, "status": status}


@asynccontextmanager
async def serving(source: Any, *releases: Manifest, certificates: Path | None = None) -> AsyncIterator[str]:
    """Run a server with these releases; yields its URL."""
    cache = ObjectCache({IMAGE_INDEX: images_of})
    for one in releases:
        cache.put(key_of(one), one)
    addresses = ImageAddresses(client=None, secret=ObjectKey("own", "key"), url="", _key=KEY)  # type: ignore[arg-type]

    @asynccontextmanager
    async def opened(_: Manifest) -> AsyncIterator[ImageSource]:
        yield source

    server = ImageServer(
        "127.0.0.1", 0, addresses=addresses, releases=cache, open_source=opened, certificates=certificates
    )
    task = asyncio.create_task(server.run())
    await server.started.wait()
    try:
        yield f"{'https' if certificates else 'http'}://127.0.0.1:{server.port}"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def directory(tmp_path: Path) -> DirectorySource:
    (tmp_path / "node-images").mkdir()
    (tmp_path / "node-images" / DIGEST.removeprefix("sha256:")).write_bytes(CONTENT)
    return DirectorySource(tmp_path)


async def ask(url: str, method: str = "GET", **options: Any) -> tuple[int, bytes, Any]:
    async with aiohttp.ClientSession() as session, session.request(method, url, **options) as response:
        return response.status, await response.read(), response.headers


@pytest.mark.parametrize(
    ("wanted", "start", "length"),
    [("bytes=0-9", 0, 10), ("bytes=1048570-2097160", 1048570, 1048591), ("bytes=-17", len(CONTENT) - 17, 17)],
)
async def test_part_of_an_image_is_served(directory: DirectorySource, wanted: str, start: int, length: int) -> None:
    async with serving(directory, release()) as url:
        status, body, headers = await ask(url + PATH, headers={"Range": wanted})
    assert (status, body) == (206, CONTENT[start : start + length])
    assert headers["Content-Range"] == f"bytes {start}-{start + length - 1}/{len(CONTENT)}"


async def test_whole_image_and_its_size_are_served(directory: DirectorySource) -> None:
    async with serving(directory, release()) as url:
        status, body, headers = await ask(url + PATH)
        assert (status, body) == (200, CONTENT)
        assert (headers["ETag"], headers["Accept-Ranges"]) == (f'"{DIGEST}"', "bytes")
        status, body, headers = await ask(url + PATH, "HEAD")
        assert (status, body, headers["Content-Length"]) == (200, b"", str(len(CONTENT)))
        status, body, headers = await ask(url + PATH, headers={"Range": f"bytes={len(CONTENT)}-"})
        assert (status, headers["Content-Range"]) == (416, f"bytes */{len(CONTENT)}")


async def test_certificate_of_a_directory_is_used(directory: DirectorySource, tmp_path: Path) -> None:
    pair = create_serving(["127.0.0.1"], timedelta(hours=1), datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    async with serving(directory, release(), certificates=tmp_path) as url:
        assert (await ask(url + PATH, ssl=False))[1] == CONTENT


@pytest.mark.parametrize(
    ("path", "one", "method"),
    [
        (image_path(b"x" * 32, ObjectKey("team", DIGEST)), release(), "GET"),
        (image_path(KEY, ObjectKey("other", DIGEST)), release(), "GET"),
        (image_path(KEY, ObjectKey("team", f"sha256:{'0' * 64}")), release(), "GET"),
        (PATH, release("other"), "GET"),
        (PATH, release(signed="False"), "GET"),
        (PATH, release(), "POST"),
        ("/", release(), "GET"),
    ],
)
async def test_everything_else_gets_one_answer(
    directory: DirectorySource, path: str, one: Manifest, method: str
) -> None:
    async with serving(directory, one) as url:
        status, body, headers = await ask(url + path, method)
    assert (status, body) == (404, b"")
    assert "ETag" not in headers


async def test_image_of_two_releases_is_served_as_long_as_one_is_verified(directory: DirectorySource) -> None:
    refused = release(signed="False")
    refused["metadata"]["name"] = "local-shop-1-35-v0"
    async with serving(directory, refused, release()) as url:
        assert (await ask(url + PATH))[0] == 200


async def test_source_that_breaks_breaks_the_body(caplog: pytest.LogCaptureFixture) -> None:
    source = Breaking(at_once=False)
    async with serving(source, release()) as url:
        async with aiohttp.ClientSession() as session, session.get(url + PATH) as response:
            assert response.status == 200
            with pytest.raises(aiohttp.ClientError):
                await response.read()
        await source.closed.wait()
    assert "it is off" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


async def test_source_that_is_away_gives_no_answer_that_a_client_could_take_for_content() -> None:
    async with serving(Breaking(at_once=True), release()) as url:
        with pytest.raises(aiohttp.ClientError):
            await ask(url + PATH)


async def test_client_that_takes_nothing_is_disconnected(
    directory: DirectorySource, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(module, "WRITE_TIMEOUT", timedelta(milliseconds=50))
    os.truncate(directory.path / "node-images" / DIGEST.removeprefix("sha256:"), 2**28)  # more than sockets buffer
    async with serving(directory, release()) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=1)
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())

        async def is_logged() -> bool:
            return "took nothing" in caplog.text

        await eventually(is_logged, about="the timeout")
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await reader.readexactly(2**28)
        writer.transport.abort()


SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)


async def test_replicas_share_the_key_that_the_first_one_creates() -> None:
    api, secret, image = FakeApi(SECRETS), ObjectKey("own", "key"), ObjectKey("team", DIGEST)
    first, second = (ImageAddresses(client=cast("Any", api), secret=secret, url="http://x") for _ in range(2))

    url = await first.of(image)

    assert await second.of(image) == url
    assert await first.of(ObjectKey("other", DIGEST)) != url
    assert [verb for verb, _ in api.calls].count("create") == 1
    assert (await first.key()).hex() not in repr(first)


async def test_secret_without_a_key_is_named() -> None:
    api, secret = FakeApi(SECRETS), ObjectKey("own", "key")
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key", "namespace": "own"}}
    await api.create(SECRETS, {**manifest, "data": {"key": "AAAA"}}, "own")

    with pytest.raises(DependencyError, match=r"Secret own/key has no key of 32 bytes: delete it"):
        await ImageAddresses(client=cast("Any", api), secret=secret, url="http://x").key()
