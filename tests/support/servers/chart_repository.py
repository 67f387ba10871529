"""A chart repository on the loopback address, and charts for it."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from aiohttp import web

from clusterstacks.model import yaml
from clusterstacks.net.oci.descriptor import EMPTY, Descriptor
from clusterstacks.net.oci.manifests import OCI_MANIFEST, write_manifest
from clusterstacks.release.charts.archive import write_archive

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Mapping

    from clusterstacks.net.oci.registry import Registry

CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def chart_files(name: str, version: str, *, text: str = "", extra: str = "") -> dict[str, bytes]:
    """Return the files of a chart with one ConfigMap; ``extra`` is appended to its Chart.yaml."""
    template = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{text: '{text or version}'}}\n"
    return {
        "Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: {version}\n{extra}".encode(),
        "templates/map.yaml": template.encode(),
    }


def package(files: Mapping[str, bytes]) -> bytes:
    """Pack a chart as ``helm package`` does."""
    return write_archive({f"chart/{path}": content for path, content in files.items()})


def packaged(name: str, version: str, *, text: str = "", extra: str = "") -> bytes:
    return package(chart_files(name, version, text=text, extra=extra))


def digest_of(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"


@dataclass
class ChartRepository:
    """Content of the server; everything may be changed while it runs.

    Args:
        url: Where it is.
        index: The document of index.yaml, without the parts that never change.
        files: What else it serves, by path.
        redirects: Paths that lead elsewhere.
        asked: The path of every request so far.
        headers: What the last request said.
        gate: What every answer waits for; None for nothing.
    """

    url: str = ""
    index: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    gate: asyncio.Event | None = None

    def publish(self, content: bytes, name: str, version: str, **entry: object) -> bytes:
        """Add a version of a chart; ``entry`` overrides its fields in the index."""
        path = f"{name}-{version}.tgz"
        self.files[f"/{path}"] = content
        said = {"name": name, "version": version, "urls": [path], "digest": digest_of(content).removeprefix("sha256:")}
        self.index.setdefault(name, []).append(said | entry)
        return content

    def add(self, name: str, *versions: str) -> bytes:
        """Publish a simple chart in some versions; return the archive of the last."""
        return [self.publish(packaged(name, version), name, version) for version in versions][-1]

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.path)
        self.headers = dict(request.headers)
        if self.gate is not None:
            await self.gate.wait()
        if request.path in self.redirects:
            raise web.HTTPFound(self.redirects[request.path])
        if request.path in self.files:
            return web.Response(body=self.files[request.path])
        if request.path == "/index.yaml":
            return web.Response(text=yaml.dump({"apiVersion": "v1", "entries": self.index}))
        raise web.HTTPNotFound


@asynccontextmanager
async def chart_repository() -> AsyncIterator[ChartRepository]:
    """Serve an empty chart repository."""
    repository = ChartRepository()
    runner = web.AppRunner(_application(repository))
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        repository.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield repository
    finally:
        await runner.cleanup()


def _application(repository: ChartRepository) -> web.Application:
    application = web.Application()
    application.router.add_get("/{path:.*}", repository.answer)
    return application


async def push_chart(registry: Registry, content: bytes, version: str) -> None:
    """Put a chart into a registry as ``helm push`` does."""
    layer = Descriptor(CHART_LAYER, await registry.push_blob(content), len(content))
    config = Descriptor(CHART_CONFIG, await registry.push_blob(EMPTY), len(EMPTY))
    manifest = write_manifest(artifact_type=CHART_CONFIG, layers=[layer], config=config)
    await registry.push_manifest(manifest, OCI_MANIFEST, version.replace("+", "_"))
