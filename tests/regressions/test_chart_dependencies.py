"""D65: charts are locked, verified and fetched with the release, not when they are rendered."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.render.renderer import Renderer, addon_request, class_request
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.release.charts.archive import write_archive
from clusterstacks.release.charts.dependencies import ChartDependenciesMissing
from clusterstacks.release.charts.errors import ChartDigestMismatch
from clusterstacks.release.charts.vendor import ChartDependencies
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import STAGED, FakeSource, below, chart, staged_release
from tests.support.servers.chart_repository import chart_files, chart_repository, packaged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.release.release import Release

pytestmark = pytest.mark.regression("D65")


@pytest.fixture
async def renderer() -> AsyncIterator[Renderer]:
    renderer = Renderer()
    yield renderer
    await renderer.close()


def build_script_release(url: str, *, locked: str = "", values: str = "{}") -> dict[str, bytes]:
    """A release in the build script's dialect: class and addon depend on a chart that was taken out of them."""
    declared = f"dependencies: [{{name: cache, version: ~1.2, repository: '{url}', condition: cache.enabled}}]\n"
    lock = {"name": "cache", "version": locked, "repository": url}
    lock_file = f"dependencies: [{lock}]\n".encode()
    top = f"{STAGED.series}-cluster-class"
    own = {"values.yaml": values.encode(), **({"Chart.lock": lock_file} if locked else {})}
    cni = chart_files("cni", "1.0.0", extra=declared) | own
    return staged_release() | {
        f"{top}-v2.tgz": write_archive(below(top, chart_files(top, "v2", extra=declared) | own)),
        f"{STAGED.series}-cluster-addon-v1.tgz": write_archive(below("cni", cni) | below("csi", chart("csi"))),
    }


async def rendered(renderer: Renderer, release: Release) -> dict[str, str]:
    """The ConfigMaps of the class and of the addon cni."""
    kubernetes = release.metadata.kubernetes
    requests = (
        class_request(release.class_chart(), release.name, kubernetes, namespace="default"),
        addon_request(release.addon("cni").chart, label="cni", values="", kubernetes=kubernetes),
    )
    found = [manifest for request in requests for manifest in await renderer.chart(request)]
    return {manifest["metadata"]["name"]: manifest["data"]["text"] for manifest in found}


class NetworkUsedError(Exception):
    """A connection was opened."""


def refuse(*_: Any) -> None:
    raise NetworkUsedError


async def fetched(root: Path, source: FakeSource, **options: Any) -> Release:
    async with HTTPClient(environ={}) as web:
        charts = ChartDependencies(web, None, allowed=AllowedHosts.parse("127.0.0.1:*"))
        return await ReleaseStore(root).ensure(STAGED, source, dependencies=charts, **options)


@pytest.mark.regression("D65")
async def test_rendering_a_chart_fetches_nothing(
    tmp_path: Path, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with chart_repository() as repository:
        repository.add("cache", "1.2.0", "1.2.9", "1.3.0")
        source = FakeSource({STAGED: build_script_release(repository.url)})
        release = await fetched(tmp_path, source)

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    restarted = await ReleaseStore(tmp_path).ensure(STAGED, source, digest=release.digest, pinned=release.dependencies)

    found = await rendered(renderer, restarted)
    assert found["cache"] == "1.2.9"
    assert {"cni", "cache"} <= set(found)
    assert found == await rendered(renderer, release)


@pytest.mark.regression("D65")
async def test_lock_file_selects_the_rendered_version(tmp_path: Path, renderer: Renderer) -> None:
    async with chart_repository() as repository:
        repository.add("cache", "1.2.0", "1.2.9")
        source = FakeSource({STAGED: build_script_release(repository.url, locked="1.2.0")})
        release = await fetched(tmp_path, source)

    assert (await rendered(renderer, release))["cache"] == "1.2.0"


@pytest.mark.regression("D65")
async def test_changed_chart_under_the_same_version_is_rejected(tmp_path: Path) -> None:
    async with chart_repository() as repository:
        repository.add("cache", "1.2.9")
        source = FakeSource({STAGED: build_script_release(repository.url)})
        release = await fetched(tmp_path / "first", source)
        repository.index.clear()
        repository.publish(packaged("cache", "1.2.9", text="hostile"), "cache", "1.2.9")

        with pytest.raises(ChartDigestMismatch, match=r"cache 1\.2\.9 .* must have the digest sha256:"):
            await fetched(tmp_path / "second", source, digest=release.digest, pinned=release.dependencies)


@pytest.mark.regression("D65")
async def test_release_with_missing_charts_is_rejected_when_fetched(tmp_path: Path) -> None:
    source = FakeSource({STAGED: build_script_release("https://charts.example.com")})

    with pytest.raises(ChartDependenciesMissing, match=r"allow charts\.example\.com with --chart-repositories"):
        await ReleaseStore(tmp_path).ensure(STAGED, source)


@pytest.mark.regression("D65")
async def test_disabled_chart_is_fetched_for_helm_and_not_rendered(tmp_path: Path, renderer: Renderer) -> None:
    async with chart_repository() as repository:
        repository.add("cache", "1.2.9")
        source = FakeSource({STAGED: build_script_release(repository.url, values="cache: {enabled: false}")})
        release = await fetched(tmp_path, source)

    assert len(release.dependencies) == 2
    assert set(await rendered(renderer, release)) == {"cni", f"{STAGED.series}-cluster-class"}
