"""Vendors chart dependencies from a real registry."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import CredentialsRefused
from clusterstacks.net.oci.credentials import RegistryCredentials
from clusterstacks.net.oci.descriptor import EMPTY, Descriptor
from clusterstacks.net.oci.manifests import OCI_MANIFEST, write_manifest
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.charts.errors import ChartBroken, ChartDigestMismatch, ChartNotFound, ChartRepositoryRefused
from clusterstacks.release.charts.vendor import ChartDependencies
from tests.support.servers.chart_repository import chart_files, chart_repository, digest_of, packaged, push_chart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer

LABEL = "cluster-addon/web"


@pytest.fixture
async def web() -> AsyncIterator[HTTPClient]:
    async with HTTPClient(retries=RetryPolicy(attempts=1, pause=timedelta(0)), environ={}) as web:
        yield web


@pytest.fixture
def place(registry: RegistryServer, request: pytest.FixtureRequest) -> str:
    """A path of the registry for this test only."""
    return f"{registry.host}/{request.node.originalname.replace('_', '-')}"


async def push(web: HTTPClient, place: str, *versions: str, text: str = "") -> None:
    registry = Registry(web, Reference.parse(f"{place}/cache"))
    for version in versions:
        await push_chart(registry, packaged("cache", version, text=text), version)


def needing(version: str, place: str) -> dict[str, bytes]:
    line = f"- {{name: cache, version: '{version}', repository: 'oci://{place}'}}\n"
    return chart_files("web", "1.0.0", extra=f"dependencies:\n{line}")


async def test_newest_allowed_tag_is_used(web: HTTPClient, place: str) -> None:
    await push(web, place, "1.2.0", "1.2.9+build.1", "1.3.0", "1.2.10-rc.1")

    vendored = await ChartDependencies(web, None).vendor(needing("~1.2", place), LABEL)

    content = packaged("cache", "1.2.9+build.1")
    (resolved,) = vendored.resolved
    assert (resolved.version, resolved.digest) == ("1.2.9+build.1", digest_of(content))
    assert vendored.files["charts/cache-1.2.9+build.1.tgz"] == content


async def test_pinned_and_cached_chart_have_the_same_bytes(web: HTTPClient, place: str, tmp_path: Path) -> None:
    await push(web, place, "1.2.0")
    files = needing("~1.2", place)
    first = await ChartDependencies(web, tmp_path).vendor(files, LABEL)
    await push(web, place, "1.2.1")

    assert await ChartDependencies(web, None).vendor(files, LABEL, first.resolved) == first
    assert await ChartDependencies(web, tmp_path, offline=True).vendor(files, LABEL) == first


async def test_moved_tag_is_rejected_for_a_pinned_chart(web: HTTPClient, place: str) -> None:
    await push(web, place, "1.2.0")
    files = needing("1.2.0", place)
    first = await ChartDependencies(web, None).vendor(files, LABEL)
    await push(web, place, "1.2.0", text="changed")

    with pytest.raises(ChartDigestMismatch, match=f"cache 1.2.0 of oci://{place} must have the digest"):
        await ChartDependencies(web, None).vendor(files, LABEL, first.resolved)


@pytest.mark.parametrize("version", ["2.0.0", "^2"])
async def test_missing_version_or_chart_is_named_in_the_error(web: HTTPClient, place: str, version: str) -> None:
    charts = ChartDependencies(web, None)
    with pytest.raises(ChartNotFound, match=f"is not in oci://{place}"):
        await charts.vendor(needing(version, place), LABEL)
    await push(web, place, "1.0.0")
    with pytest.raises(ChartNotFound, match=f"is not in oci://{place}"):
        await charts.vendor(needing(version, place), LABEL)


async def test_artifact_that_is_not_a_chart_is_rejected(web: HTTPClient, place: str) -> None:
    registry = Registry(web, Reference.parse(f"{place}/cache"))
    layer = Descriptor("application/octet-stream", await registry.push_blob(EMPTY), len(EMPTY))
    manifest = write_manifest(artifact_type="application/x.something", layers=[layer], config=layer)
    await registry.push_manifest(manifest, OCI_MANIFEST, "1.0.0")

    with pytest.raises(ChartBroken, match="contains 0 chart layers"):
        await ChartDependencies(web, None).vendor(needing("1.0.0", place), LABEL)


async def test_only_allowed_registry_paths_are_contacted(web: HTTPClient, place: str) -> None:
    await push(web, place, "1.2.0")
    files = needing("1.2.0", place)

    other = ChartDependencies(web, None, allowed=AllowedHosts.parse(f"{place}-other"))
    with pytest.raises(ChartRepositoryRefused, match="with --chart-repositories"):
        await other.vendor(files, LABEL)
    assert (await ChartDependencies(web, None, allowed=AllowedHosts.parse(place)).vendor(files, LABEL)).resolved


async def test_index_may_refer_to_an_allowed_registry(web: HTTPClient, place: str) -> None:
    await push(web, place, "1.2.0")
    async with chart_repository() as repository:
        repository.publish(b"", "cache", "1.2.0", urls=[f"oci://{place}/cache:1.2.0"], digest=None)
        line = f"- {{name: cache, version: '1', repository: '{repository.url}'}}\n"
        files = chart_files("web", "1.0.0", extra=f"dependencies:\n{line}")
        host = repository.url.removeprefix("http://")

        with pytest.raises(ChartRepositoryRefused):
            await ChartDependencies(web, None, allowed=AllowedHosts.parse(host)).vendor(files, LABEL)
        both = AllowedHosts.parse(f"{host},{place}")
        vendored = await ChartDependencies(web, None, allowed=both).vendor(files, LABEL)

    assert vendored.resolved[0].digest == digest_of(packaged("cache", "1.2.0"))


async def test_private_registry_needs_credentials(secure_registry: RegistryServer) -> None:
    async def find(reference: Reference) -> RegistryCredentials:
        assert reference.registry == secure_registry.host
        return RegistryCredentials(secure_registry.username, secure_registry.password)

    place = f"{secure_registry.host}/charts"
    async with HTTPClient(ca=secure_registry.ca, environ={}) as web:
        reference = Reference.parse(f"{place}/cache")
        await push_chart(Registry(web, reference, await find(reference)), packaged("cache", "1.2.0"), "1.2.0")

        with pytest.raises(CredentialsRefused):
            await ChartDependencies(web, None).vendor(needing("1.2.0", place), LABEL)
        assert (await ChartDependencies(web, None, credentials=find).vendor(needing("1.2.0", place), LABEL)).resolved
