"""The processes that ``benchmarks.transfers`` measures: ``python -m benchmarks.movers <what> <arguments>``.

Each prints how long its transfer took, in seconds, without the start of the interpreter.
"""

from __future__ import annotations

import asyncio
import http.client
import io
import json
import shutil
import socket
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.model.names import parse_release
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.descriptor import EMPTY, Descriptor, digest_of
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.sources.download_release import pull
from clusterstacks.release.sources.oci_publish import publish
from clusterstacks.release.sources.oci_repository import OCISource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import BinaryIO

PIECE_BYTES = 1024 * 1024
ACCEPT = {"Accept": "application/vnd.oci.image.manifest.v1+json"}


def copy(file: str, port: str) -> None:
    """Send a file to whoever listens, and wait until it was taken."""
    with Path(file).open("rb") as content, socket.create_connection(("127.0.0.1", int(port))) as connection:
        while piece := content.read(PIECE_BYTES):
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b"!"


def push_blob(place: str, file: str) -> None:
    """Push a file."""
    _with_registry(place, lambda registry: registry.push_blob(Path(file)))


def pull_blob(place: str, file: str, digest: str, size: str) -> None:
    """Pull a blob into a file."""
    blob = Descriptor("application/octet-stream", digest, int(size))
    _with_registry(place, lambda registry: registry.blob(blob, Path(file)))


def push_releases(place: str, directory: str) -> None:
    """Publish every release of a directory."""

    releases = sorted(Path(directory).iterdir())

    async def publish_all(registry: Registry) -> None:
        for release in releases:
            await publish(release, registry, datetime.fromtimestamp(0, UTC))

    _with_registry(place, publish_all)


def pull_releases(place: str, into: str) -> None:
    """Pull every release of a repository."""

    async def pull_all(registry: Registry) -> None:
        source = OCISource(registry)
        for name in await source.list():
            await pull(source, parse_release(name), Path(into))

    _with_registry(place, pull_all)


def plain_push_blob(place: str, file: str, digest: str) -> None:
    """Push a file as ``http.client`` does it, in one request."""
    connection, repository = _connected(place)
    with Path(file).open("rb") as content:
        _put_blob(connection, repository, digest, content, Path(file).stat().st_size)


def plain_pull_blob(place: str, file: str, digest: str) -> None:
    """Pull a blob as ``http.client`` does it."""
    connection, repository = _connected(place)
    _get_blob(connection, repository, digest, Path(file))


def plain_push_releases(place: str, directory: str, manifests: str) -> None:
    """Push every file of every release and the manifests that are given, one request after the other."""
    connection, repository = _connected(place)
    _put_blob(connection, repository, digest_of(EMPTY), io.BytesIO(EMPTY), len(EMPTY))
    for path in sorted(Path(manifests).iterdir()):
        raw = path.read_bytes()
        for layer in json.loads(raw)["layers"]:
            title = layer["annotations"]["org.opencontainers.image.title"]
            with (Path(directory) / path.name / title).open("rb") as content:
                _put_blob(connection, repository, layer["digest"], content, layer["size"])
        headers = {"Content-Type": ACCEPT["Accept"]}
        connection.request("PUT", f"/v2/{repository}/manifests/{path.name}", body=raw, headers=headers)
        _done(connection.getresponse(), 201)


def plain_pull_releases(place: str, into: str, names: str) -> None:
    """Pull the manifests and all files of some releases, one request after the other."""
    connection, repository = _connected(place)
    for name in names.split():
        directory = Path(into) / name
        directory.mkdir(parents=True)
        connection.request("GET", f"/v2/{repository}/manifests/{name}", headers=ACCEPT)
        for layer in json.load(connection.getresponse())["layers"]:
            file = directory / layer["annotations"]["org.opencontainers.image.title"]
            _get_blob(connection, repository, layer["digest"], file)


def _connected(place: str) -> tuple[http.client.HTTPConnection, str]:
    host, _, repository = place.partition("/")
    return http.client.HTTPConnection(host), repository


def _put_blob(
    connection: http.client.HTTPConnection, repository: str, digest: str, content: BinaryIO, size: int
) -> None:
    connection.request("HEAD", f"/v2/{repository}/blobs/{digest}")
    if _done(connection.getresponse(), 200, 404).status == 200:
        return
    connection.request("POST", f"/v2/{repository}/blobs/uploads/")
    location = _done(connection.getresponse(), 202).headers["Location"]
    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(size)}
    connection.request("PUT", f"{location}&digest={digest}", body=content, headers=headers)
    _done(connection.getresponse(), 201)


def _get_blob(connection: http.client.HTTPConnection, repository: str, digest: str, file: Path) -> None:
    connection.request("GET", f"/v2/{repository}/blobs/{digest}")
    with file.open("wb") as into:
        shutil.copyfileobj(connection.getresponse(), into, PIECE_BYTES)


def _done(response: http.client.HTTPResponse, *statuses: int) -> http.client.HTTPResponse:
    said = response.read()
    assert response.status in statuses, said
    return response


def _with_registry(place: str, work: Callable[[Registry], Awaitable[object]]) -> None:
    async def run() -> None:
        async with HTTPClient() as web:
            await work(Registry(web, Reference.parse(place)))

    asyncio.run(run())


MOVERS: dict[str, Callable[..., None]] = {
    mover.__name__: mover
    for mover in (
        copy,
        push_blob,
        pull_blob,
        push_releases,
        pull_releases,
        plain_push_blob,
        plain_pull_blob,
        plain_push_releases,
        plain_pull_releases,
    )
}


def main() -> None:
    _, what, *arguments = sys.argv
    began = time.perf_counter()
    MOVERS[what](*arguments)
    print(time.perf_counter() - began)


if __name__ == "__main__":
    main()
