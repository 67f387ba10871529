"""Serves the files of node images inside the management cluster, streamed from the sources of their releases.

Only an Image has the path of its file. ORC takes every answer for the content of an image, also an error page, and
gives up after five of them, but it tries again as long as it gets none. So a source that fails closes the connection.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections import defaultdict
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from aiohttp import web

from clusterstacks.model.documents import text
from clusterstacks.model.errors import ClusterStacksError, DependencyError
from clusterstacks.net.kube.errors import AlreadyExists
from clusterstacks.net.tls import serve_with, server_context
from clusterstacks.operator.image_requests import (
    IMAGE_INDEX,
    RangeNotSatisfiable,
    image_path,
    is_verified,
    requested_image,
    requested_part,
)
from clusterstacks.operator.listener import Listener

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.release.release_source import ImageSource
    from clusterstacks.runtime.cache import ObjectCache

KEY: Final = "key"
KEY_BYTES: Final = 32

STREAMS: Final = 32
STREAMS_OF_NAMESPACE: Final = 8
"""Images served at a time, and those of one namespace, whose users know their paths; others wait. Arbitrary: each takes
two connections and about 1 MiB."""

WRITE_TIMEOUT: Final = timedelta(seconds=60)
"""Longest time in which a client may take nothing; as in the other direction."""

STOP_SECONDS: Final = 1
"""Timeout of requests under way when the server stops. Arbitrary: an image takes minutes, and is requested again."""

KEY_RETRY: Final = timedelta(seconds=10)
"""Pause before the key is read again. Arbitrary."""

RELOAD: Final = timedelta(minutes=1)
"""Interval at which certificate and key are read again; the kubelet updates mounted Secrets about as often."""

CERTIFICATE_FILES: Final = ("tls.crt", "tls.key")
"""Names as in Secrets of type kubernetes.io/tls."""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ImageAddresses:
    """The URLs of node images in this management cluster; the same for all replicas, and after a restart."""

    client: Client
    """Not bound to the Lease, because every replica serves."""
    secret: ObjectKey
    """The Secret with the key of the tokens; it is created when it is missing."""
    url: str
    """URL of the server, without a slash at its end."""
    _key: bytes = field(default=b"", repr=False)

    async def of(self, image: ObjectKey) -> str:
        """Return the URL of an image by namespace and digest. Raises DependencyError while the key cannot be read."""
        return self.url + image_path(await self.key(), image)

    async def key(self) -> bytes:
        """Return the key of the tokens; raise DependencyError if it cannot be read."""
        self._key = self._key or await self._stored()
        return self._key

    async def _stored(self) -> bytes:
        resource = await self.client.resource("", "Secret", "v1")
        found = await self.client.find(resource, self.secret.name, self.secret.namespace)
        if found is None:
            metadata = {"name": self.secret.name, "namespace": self.secret.namespace}
            data = {KEY: base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}
            manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque", "data": data}
            try:
                found = await self.client.create(resource, manifest)
            except AlreadyExists:  # another replica was quicker
                return await self._stored()
        with suppress(ValueError):
            key = base64.b64decode(text(found, "data", KEY), validate=True)
            if len(key) >= KEY_BYTES:
                return key
        raise DependencyError(
            "NodeImageKeyUnusable", f"Secret {self.secret} has no key of {KEY_BYTES} bytes: delete it"
        )


class ImageServer:
    """The server of one process.

    An empty ``host`` means all addresses, ``port`` 0 a free port, which attribute ``port`` has once ``started`` is set.
    ``releases`` has the index ``IMAGE_INDEX``; ``open_source`` opens the source of a release. ``certificates`` is the
    directory with certificate and key; None for plain HTTP.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        addresses: ImageAddresses,
        releases: ObjectCache,
        open_source: Callable[[Manifest], AbstractAsyncContextManager[ImageSource]],
        certificates: Path | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.started = asyncio.Event()
        self._addresses = addresses
        self._releases = releases
        self._open_source = open_source
        self._certificates = certificates
        self._context = server_context() if certificates else None
        self._listener = Listener(self._context, self._answer, stop_seconds=STOP_SECONDS)
        self._turns = asyncio.Semaphore(STREAMS)
        self._turns_of: dict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(STREAMS_OF_NAMESPACE))

    async def run(self) -> None:
        """Serve until cancelled; raises OSError if the address or a certificate cannot be used."""
        if self._context is not None and self._certificates is not None:
            await asyncio.to_thread(_load, self._context, self._certificates)
        await self._await_key()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._reload(), name="certificate of the node images")
            await self._listener.run(self.host, self.port, self._listens)

    async def _await_key(self) -> None:
        """Read the key before the first request, so that no client makes the operator send requests."""
        while True:
            try:
                await self._addresses.key()
            except DependencyError as error:
                log.warning("Node images are not served yet: %s", error)
                await asyncio.sleep(KEY_RETRY.total_seconds())
            else:
                return

    def _listens(self, port: int) -> None:
        self.port = port
        self.started.set()

    async def _reload(self) -> None:
        while self._context is not None and self._certificates is not None:
            await asyncio.sleep(RELOAD.total_seconds())
            try:
                await asyncio.to_thread(_load, self._context, self._certificates)
            except OSError as error:  # ssl.SSLError is one
                log.warning(
                    "The certificate in %s cannot be used, the previous one is kept: %s", self._certificates, error
                )

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            image = requested_image(await self._addresses.key(), request.raw_path)
            release = self._verified(image) if image is not None else None
            if image is None or release is None or request.method not in ("GET", "HEAD"):
                return _closing(web.Response(status=404))
            async with self._turns_of[image.namespace], self._turns, self._open_source(release) as source:
                return await self._serve(request, source, image.name)
        except ClusterStacksError as error:
            log.warning("A node image is not served: %s", error)
        except TimeoutError:
            log.info("A client of a node image took nothing for %s", WRITE_TIMEOUT)
        except ConnectionError:
            raise  # the client is gone; aiohttp ends the connection
        except Exception:
            log.exception("Unexpected failure while a node image was served, please report it")
        _abort(request)
        return web.Response(status=500)  # nobody gets it

    def _verified(self, image: ObjectKey) -> Manifest | None:
        found = self._releases.by_index(IMAGE_INDEX, f"{image.namespace}/{image.name}")
        return next((release for release in found if is_verified(release)), None)

    async def _serve(self, request: web.BaseRequest, source: ImageSource, digest: str) -> web.StreamResponse:
        size, tag = await source.image_size(digest), f'"{digest}"'
        headers = {"Accept-Ranges": "bytes", "ETag": tag, "Content-Type": "application/octet-stream"}
        try:
            part = requested_part(request.headers, tag, size)
        except RangeNotSatisfiable:
            return web.Response(status=416, headers={**headers, "Content-Range": f"bytes */{size}"})
        start, length = part or (0, size)
        if part is not None:
            headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{size}"
        response = web.StreamResponse(status=206 if part else 200, headers=headers)
        response.content_length = length
        await response.prepare(request)
        if request.method == "GET" and length:
            async with aclosing(source.image_part(digest, start, length)) as pieces:
                async for piece in pieces:
                    async with asyncio.timeout(WRITE_TIMEOUT.total_seconds()):
                        await response.write(piece)
        await response.write_eof()
        return response


def _load(context: ssl.SSLContext, directory: Path) -> None:
    certificate, key = ((directory / name).read_bytes() for name in CERTIFICATE_FILES)
    serve_with(context, certificate, key)


def _closing(response: web.Response) -> web.Response:
    response.force_close()
    return response


def _abort(request: web.BaseRequest) -> None:
    """Break the connection, so that the client cannot take what it has for the whole."""
    if request.transport is not None:
        request.transport.abort()
