"""An in-memory OCI registry that follows the distribution-spec, with optional deviations.

It does what Debian's docker-registry does not: referrers, bearer tokens, uploads resumed in the middle of a part.
"""

from __future__ import annotations

import base64
import itertools
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

from clusterstacks.net.oci.reference import Reference

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

INDEX = "application/vnd.oci.image.index.v1+json"


def digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


class RegistryDouble:
    """Holds blobs by digest and manifests by repository and target; ``requests`` records the requests.

    A test sets: ``users`` (passwords by name; then every request needs a token, and ``granted`` holds the scopes of
    each), ``life`` (seconds a token is good), ``realm`` (where tokens are), ``challenge`` (then nobody comes in),
    ``referrers`` (whether it keeps such lists), ``listed`` (what these lists begin with), ``page`` (tags on one),
    ``upload_host`` (where uploads go), ``hidden`` (blobs that are there for a mount only), ``least`` (bytes of a part
    of an upload), ``cuts`` (after how many bytes each of the next transfers breaks), ``failing`` (targets of manifests
    that are answered with 500), ``ranges`` (whether it sends parts of blobs) and ``extra`` (headers of manifests).
    """

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[tuple[str, str], tuple[bytes, str]] = {}
        self.hidden: set[str] = set()
        self.uploads: dict[str, bytearray] = {}
        self.requests: list[web.Request] = []
        self.users: dict[str, str] = {}
        self.granted: dict[str, str] = {}
        self.token_requests: list[web.Request] = []
        self.forms: list[dict[str, Any]] = []
        self.referrers = True
        self.ranges = True
        self.listed: list[object] = []
        self.page = 1000
        self.upload_host = ""
        self.least = 0
        self.cuts: list[int] = []
        self.failing: set[str] = set()
        self.life: object = 300
        self.realm = ""
        self.challenge = ""
        self.extra: dict[str, str] = {}
        self.host = ""
        self._count = itertools.count(1)

    @property
    def asked(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]

    @property
    def reference(self) -> Reference:
        return Reference.parse(f"{self.host}/kaas/stacks")

    @classmethod
    @asynccontextmanager
    async def started(cls) -> AsyncIterator[RegistryDouble]:
        double = cls()
        application = web.Application(client_max_size=2**30)
        application.router.add_route("*", "/token", double.token)
        application.router.add_route("*", "/{path:.*}", double.answer)
        runner = web.AppRunner(application, shutdown_timeout=0)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            double.host = f"{host}:{port}"
            yield double
        finally:
            await runner.cleanup()

    def holds(self, content: bytes) -> str:
        """Add a blob."""
        self.blobs[digest(content)] = content
        return digest(content)

    def tags(self, target: str, raw: bytes, media_type: str, repository: str = "kaas/stacks") -> str:
        """Add a manifest under a tag and its digest."""
        for name in (target, digest(raw)):
            self.manifests[repository, name] = raw, media_type
        return digest(raw)

    async def token(self, request: web.Request) -> web.StreamResponse:
        self.token_requests.append(request)
        if request.method == "POST":
            form = dict(await request.post())
            self.forms.append(form)
            if form.get("refresh_token") != self.users.get(""):
                return web.Response(status=401)
            scopes, key = [str(form["scope"])], "access_token"
        else:
            scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
            user, _, password = base64.b64decode(secret).decode().partition(":")
            if scheme and self.users.get(user) != password:
                return web.Response(status=401)
            scopes, key = request.query.getall("scope", []), "token"
        text = f"token-{next(self._count)}"
        self.granted[text] = " ".join(scopes)
        return web.json_response({key: text, "expires_in": self.life})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        if refused := self._refuses(request):
            return refused
        path = request.path.removeprefix("/v2/")
        if not path:
            return web.json_response({})
        repository, kind, rest = self._split(path)
        if kind == "blobs":
            upload = rest.removeprefix("uploads/")
            return await (self._blob(request, rest) if upload == rest else self._upload(request, repository, upload))
        if kind == "manifests":
            return await self._manifest(request, repository, rest)
        if kind == "referrers" and self.referrers:
            return self._referrers(repository, rest)
        return self._tags(request, repository) if kind == "tags" else web.Response(status=404)

    def _split(self, path: str) -> tuple[str, str, str]:
        for kind in ("tags", "manifests", "blobs", "referrers"):
            repository, found, rest = path.partition(f"/{kind}/")
            if found:
                return repository, kind, rest
        return path, "", ""

    def _refuses(self, request: web.Request) -> web.StreamResponse | None:
        if self.challenge:
            return web.Response(status=401, headers={"WWW-Authenticate": self.challenge})
        if not self.users:
            return None
        action = "pull" if request.method in {"GET", "HEAD"} else "push"
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if action in self.granted.get(token, "") or (request.path == "/v2/" and token in self.granted):
            return None
        realm = self.realm or f"http://{self.host}/token"
        challenge = f'Bearer realm="{realm}",service="double, of registries"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    def _tags(self, request: web.Request, repository: str) -> web.StreamResponse:
        tags = sorted(name for owner, name in self.manifests if owner == repository and ":" not in name)
        if not tags:
            return web.json_response({"errors": [{"code": "NAME_UNKNOWN"}]}, status=404)
        rest = [tag for tag in tags if tag > request.query.get("last", "")]
        page, headers = rest[: self.page], {}
        if len(rest) > len(page):
            headers["Link"] = f'</v2/{repository}/tags/list?last={page[-1]}>; rel="next"'
        return web.json_response({"name": repository, "tags": page}, headers=headers)

    async def _manifest(self, request: web.Request, repository: str, target: str) -> web.StreamResponse:
        if request.method == "PUT":
            raw = await request.read()
            found = self.tags(target, raw, request.content_type, repository)
            headers = {"Docker-Content-Digest": found, **self.extra}
            subject = orjson.loads(raw).get("subject")
            if subject and self.referrers:
                headers["OCI-Subject"] = subject["digest"]
            return web.Response(status=201, headers=headers)
        if target in self.failing:
            return web.Response(status=500)
        if (repository, target) not in self.manifests:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN"}]}, status=404)
        raw, media_type = self.manifests[repository, target]
        headers = {"Docker-Content-Digest": digest(raw), "Content-Type": media_type, **self.extra}
        return web.Response(body=raw, headers=headers)

    async def _blob(self, request: web.Request, wanted: str) -> web.StreamResponse:
        if wanted not in self.blobs or (request.method == "HEAD" and wanted in self.hidden):
            return web.Response(status=404)
        content, headers, status = self.blobs[wanted], {}, 200
        if self.ranges and (asked := request.headers.get("Range")):
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), int(last or len(content) - 1)
            headers["Content-Range"] = f"bytes {start}-{end}/{len(content)}"
            content, status = content[start : end + 1], 206
        if request.method == "HEAD" or not self.cuts:
            return web.Response(status=status, body=content, headers=headers)
        answer = web.StreamResponse(status=status, headers={**headers, "Content-Length": str(len(content))})
        await answer.prepare(request)
        await answer.write(content[: self.cuts.pop(0)])
        _abort(request)
        return answer

    async def _upload(self, request: web.Request, repository: str, upload: str) -> web.StreamResponse:
        if request.method == "POST":
            return self._begin(request, repository)
        if upload not in self.uploads:
            return web.Response(status=404)
        match request.method:
            case "GET":
                return self._where(repository, upload, 204)
            case "DELETE":
                del self.uploads[upload]
                return web.Response(status=204)
            case "PATCH" | "PUT":
                return await self._receive(request, repository, upload)
            case _:
                return web.Response(status=405)

    def _begin(self, request: web.Request, repository: str) -> web.StreamResponse:
        if request.query.get("mount") in self.blobs:
            return web.Response(status=201, headers={"Location": f"/v2/{repository}/blobs/{request.query['mount']}"})
        upload = f"upload-{next(self._count)}"
        self.uploads[upload] = bytearray()
        return self._where(repository, upload, 202)

    async def _receive(self, request: web.Request, repository: str, upload: str) -> web.StreamResponse:
        kept = self.uploads[upload]
        start = request.headers.get("Content-Range", f"{len(kept)}-").partition("-")[0]
        if int(start) != len(kept):
            return self._where(repository, upload, 416)
        room = self.cuts.pop(0) if self.cuts and request.content_length else None
        async for piece in request.content.iter_chunked(65536):
            kept += piece
            if room is not None and (room := room - len(piece)) <= 0:
                _abort(request)
                return web.Response()
        if request.method == "PATCH":
            return self._where(repository, upload, 202)
        content = bytes(self.uploads.pop(upload))
        if digest(content) != request.query.get("digest"):
            return web.json_response({"errors": [{"code": "DIGEST_INVALID", "message": "other bytes"}]}, status=400)
        self.holds(content)
        return web.Response(status=201)

    def _where(self, repository: str, upload: str, status: int) -> web.StreamResponse:
        base = f"http://{self.upload_host}" if self.upload_host else ""
        size = len(self.uploads[upload])
        headers = {"Location": f"{base}/v2/{repository}/blobs/uploads/{upload}?state=a%2Fb"}
        headers["Range"] = f"0-{max(size - 1, 0)}"
        if self.least:
            headers["OCI-Chunk-Min-Length"] = str(self.least)
        return web.Response(status=status, headers=headers)

    def _referrers(self, repository: str, wanted: str) -> web.StreamResponse:
        members = [*self.listed]
        for (owner, name), (raw, media_type) in self.manifests.items():
            document = orjson.loads(raw) if raw.startswith(b"{") else {}
            if owner == repository and name == digest(raw) and (document.get("subject") or {}).get("digest") == wanted:
                member = {"mediaType": media_type, "digest": name, "size": len(raw)}
                members.append({**member, "artifactType": document.get("artifactType")})
        body = orjson.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": members})
        return web.Response(body=body, content_type=INDEX)


def _abort(request: web.Request) -> None:
    assert request.transport is not None
    request.transport.abort()
