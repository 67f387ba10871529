"""A double of GitHub's REST API for releases on the loopback address.

Sources: https://docs.github.com/en/rest/releases, .../rest/using-the-rest-api (pagination, conditional requests, rate
limits). Assets live on a host of their own, which a token must never reach.
"""

from __future__ import annotations

import time
from collections import deque
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

TOKEN = "not-a-secret-of-anyone"
OWNER, REPOSITORY = "acme", "stacks"
LIMIT = 5000


@dataclass(eq=False)
class Asset:
    number: int
    name: str
    content: bytes
    state: str = "uploaded"
    served: bytes | None = None  # something else than what the API states


@dataclass(eq=False)
class Release:
    number: int
    tag: str
    title: str
    draft: bool = False
    prerelease: bool = False
    assets: list[Asset] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """A response that replaces the next one to a request of this method and path.

    Status 0 is a connection that is cut, after a request that did what it should.
    """

    method: str
    path: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    message: str = "it hurts"


class GitHubDouble:
    """One repository; ``requests`` and ``asset_requests`` record the received requests, ``times`` when they came.

    Args:
        private: Whether it is hidden from those without the token.
        digests: Whether assets state their digest, as older Enterprise Servers do not.
    """

    def __init__(self, *, private: bool = False, digests: bool = True) -> None:
        self.private = private
        self.digests = digests
        self.releases: list[Release] = []
        self.requests: list[web.Request] = []
        self.times: list[float] = []
        self.asset_requests: list[web.Request] = []
        self.faults: deque[Fault] = deque()
        self.remaining = LIMIT
        self.reset = int(time.time()) + 1800
        self.before_publishing: Callable[[], None] = lambda: None
        self.uploads_at = ""
        self.url = ""
        self._assets_url = ""
        self._numbers = 0

    @classmethod
    @asynccontextmanager
    async def started(cls, *, private: bool = False, digests: bool = True) -> AsyncIterator[GitHubDouble]:
        """Serve the API as an Enterprise Server does, and the assets on another port."""
        double = cls(private=private, digests=digests)
        api = web.Application(client_max_size=256 * 1024 * 1024, middlewares=[double._front])
        base = f"/repos/{OWNER}/{REPOSITORY}/releases"
        api.add_routes(
            [
                web.get(f"/api/v3{base}", double._list),
                web.post(f"/api/v3{base}", double._create),
                web.get(f"/api/v3{base}/tags/{{tag}}", double._by_tag),
                web.get(f"/api/v3{base}/assets/{{number}}", double._asset),
                web.delete(f"/api/v3{base}/assets/{{number}}", double._delete_asset),
                web.get(f"/api/v3{base}/{{number}}", double._by_number),
                web.patch(f"/api/v3{base}/{{number}}", double._edit),
                web.delete(f"/api/v3{base}/{{number}}", double._delete),
                web.post(f"/api/uploads{base}/{{number}}/assets", double._upload),
            ]
        )
        assets = web.Application()
        assets.add_routes([web.get("/content/{number}", double._content)])
        async with AsyncExitStack() as stack:
            double.url = f"{await _serve(api, stack)}/api/v3"
            double._assets_url = await _serve(assets, stack)
            double.uploads_at = double.url.replace("/api/v3", "/api/uploads")
            yield double

    def add(self, tag: str, files: Mapping[str, bytes], **traits: Any) -> Release:
        """Add a release; newer ones are listed first."""
        release = Release(self._number(), tag, traits.pop("title", tag), **traits)
        release.assets = [Asset(self._number(), name, content) for name, content in files.items()]
        self.releases.insert(0, release)
        return release

    def find(self, tag: str, *, draft: bool = False) -> Release | None:
        return next((release for release in self.releases if release.tag == tag and release.draft == draft), None)

    def asked(self) -> list[str]:
        """Return method and path of all API requests so far, without their common prefix."""
        return [f"{request.method} {request.path.partition(f'/{REPOSITORY}/')[2]}" for request in self.requests]

    @web.middleware
    async def _front(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        self.requests.append(request)
        self.times.append(time.time())
        token = request.headers.get("Authorization")
        if token not in {None, f"Bearer {TOKEN}"}:
            return _says({"message": "Bad credentials"}, 401)
        await request.read()
        if self._cuts(request):
            await handler(request)
            assert request.transport is not None
            request.transport.abort()
        answer = self._fault(request) or self._limited() or await self._permitted(request, handler)
        # A conditional request that is met counts only when it is made without credentials.
        if not (answer.status == 304 and token):
            self.remaining = max(0, self.remaining - 1)
        answer.headers.setdefault("X-RateLimit-Limit", str(LIMIT))
        answer.headers.setdefault("X-RateLimit-Remaining", str(self.remaining))
        answer.headers.setdefault("X-RateLimit-Reset", str(self.reset))
        return answer

    async def _permitted(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if (self.private or request.method != "GET") and not self._may_write(request):
            return _says({"message": "Not Found"}, 404)
        try:
            return await handler(request)
        except LookupError:
            return _says({"message": "Not Found"}, 404)

    def _cuts(self, request: web.Request) -> bool:
        fault = self.faults[0] if self.faults else None
        cuts = fault is not None and fault.status == 0 and fault.method == request.method and fault.path in request.path
        return cuts and bool(self.faults.popleft())

    def _fault(self, request: web.Request) -> web.Response | None:
        if self.faults and request.method == self.faults[0].method and self.faults[0].path in request.path:
            fault = self.faults.popleft()
            if request.method == "POST" and fault.status == 502:  # what the documentation says of failed uploads
                self._store(request, b"", "starter")
            return _says({"message": fault.message}, fault.status, fault.headers)
        return None

    def _limited(self) -> web.Response | None:
        if self.remaining:
            return None
        return _says({"message": "API rate limit exceeded for 127.0.0.1."}, 403)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        size = min(int(request.query.get("per_page", "30")), 100)
        page = int(request.query.get("page", "1"))
        seen = [release for release in self.releases if not release.draft or self._may_write(request)]
        headers = {}
        if page * size < len(seen):
            last = -(-len(seen) // size)
            links = {"next": page + 1, "last": last}
            headers["Link"] = ", ".join(
                f'<{self.url}/repositories/1/releases?per_page={size}&page={number}>; rel="{name}"'
                for name, number in links.items()
            )
        return self._conditional(request, [self._release(it) for it in seen[(page - 1) * size : page * size]], headers)

    async def _by_tag(self, request: web.Request) -> web.StreamResponse:
        release = self.find(request.match_info["tag"])
        return self._conditional(request, self._release(release), {}) if release else _says({}, 404)

    async def _by_number(self, request: web.Request) -> web.StreamResponse:
        return _says(self._release(self._numbered(request)))

    async def _create(self, request: web.Request) -> web.StreamResponse:
        wish = await request.json()
        if self.find(wish["tag_name"]):
            return _exists("tag_name")
        release = self.add(wish["tag_name"], {}, title=wish["name"], draft=wish["draft"], prerelease=wish["prerelease"])
        return _says(self._release(release), 201)

    async def _edit(self, request: web.Request) -> web.StreamResponse:
        self.before_publishing()
        release, wish = self._numbered(request), await request.json()
        if not wish["draft"] and self.find(release.tag) not in {None, release}:
            return _exists("tag_name")
        release.draft = wish["draft"]
        return _says(self._release(release))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        self.releases = [release for release in self.releases if release is not self._numbered(request)]
        return web.Response(status=204)

    async def _asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._numbered_asset(request)
        if request.headers["Accept"] != "application/octet-stream":
            return _says(self._asset_document(asset))
        location = f"{self._assets_url}/content/{asset.number}?signature=secret-of-the-url"
        return web.Response(status=302, headers={"Location": location})

    async def _delete_asset(self, request: web.Request) -> web.StreamResponse:
        asset = self._numbered_asset(request)
        for release in self.releases:
            release.assets = [other for other in release.assets if other is not asset]
        return web.Response(status=204)

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        if any(asset.name == request.query["name"] for asset in self._numbered(request).assets):
            return _exists("name")
        return _says(self._asset_document(self._store(request, await request.read(), "uploaded")), 201)

    async def _content(self, request: web.Request) -> web.StreamResponse:
        self.asset_requests.append(request)
        if request.query.get("signature") != "secret-of-the-url":
            return web.Response(status=403)
        asset = self._numbered_asset(request)
        content = asset.content if asset.served is None else asset.served
        return web.Response(body=content, content_type="application/octet-stream")

    def _store(self, request: web.Request, content: bytes, state: str) -> Asset:
        asset = Asset(self._number(), request.query["name"].replace(" ", "."), content, state)
        number = int(request.path.split("/")[-2])
        next(release for release in self.releases if release.number == number).assets.append(asset)
        return asset

    def _may_write(self, request: web.Request) -> bool:
        return request.headers.get("Authorization") == f"Bearer {TOKEN}"

    def _numbered(self, request: web.Request) -> Release:
        number = int(request.match_info["number"])
        found = [release for release in self.releases if release.number == number]
        return found[0]

    def _numbered_asset(self, request: web.Request) -> Asset:
        number = int(request.match_info["number"])
        return [asset for release in self.releases for asset in release.assets if asset.number == number][0]  # noqa: RUF015 - LookupError

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _release(self, release: Release) -> dict[str, Any]:
        root = f"/repos/{OWNER}/{REPOSITORY}/releases/{release.number}"
        return {
            "url": f"{self.url}{root}",
            "upload_url": f"{self.uploads_at}{root}/assets{{?name,label}}",
            "id": release.number,
            "tag_name": release.tag,
            "name": release.title,
            "draft": release.draft,
            "prerelease": release.prerelease,
            "assets": [self._asset_document(asset) for asset in release.assets],
        }

    def _asset_document(self, asset: Asset) -> dict[str, Any]:
        document = {
            "id": asset.number,
            "url": f"{self.url}/repos/{OWNER}/{REPOSITORY}/releases/assets/{asset.number}",
            "name": asset.name,
            "state": asset.state,
            "content_type": "application/octet-stream",
            "size": len(asset.content),
        }
        return document | ({"digest": f"sha256:{sha256(asset.content).hexdigest()}"} if self.digests else {})

    def _conditional(self, request: web.Request, body: Any, headers: Mapping[str, str]) -> web.Response:
        etag = f'W/"{sha256(orjson.dumps([body, dict(headers)])).hexdigest()}"'
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers={"ETag": etag, **headers})
        return _says(body, headers={"ETag": etag, **headers})


def _says(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    content = orjson.dumps(body)
    return web.Response(body=content, status=status, headers=headers, content_type="application/json")


def _exists(what: str) -> web.Response:
    errors = [{"resource": "Release", "code": "already_exists", "field": what}]
    return _says({"message": "Validation Failed", "errors": errors}, 422)


async def _serve(application: web.Application, stack: AsyncExitStack) -> str:
    runner = web.AppRunner(application, shutdown_timeout=0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"
