"""Releases in the store whose charts have missing dependencies."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import SourceUnavailable
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.charts.archive import write_archive
from clusterstacks.release.charts.chart import read_chart
from clusterstacks.release.charts.dependencies import ChartDependenciesMissing
from clusterstacks.release.charts.errors import ChartDigestMismatch, ChartsUnavailable
from clusterstacks.release.charts.vendor import ChartDependencies
from clusterstacks.release.errors import DigestMismatch, ReleaseDamaged
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import SINGLE, STAGED, FakeSource, below, chart, single_release, staged_release
from tests.support.servers.chart_repository import ChartRepository, chart_repository, packaged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

OTHER = f"sha256:{'0' * 64}"


@pytest.fixture
async def repository() -> AsyncIterator[ChartRepository]:
    async with chart_repository() as repository:
        repository.add("cache", "1.2.0", "1.2.9")
        yield repository


@pytest.fixture
async def charts() -> AsyncIterator[ChartDependencies]:
    async with HTTPClient(retries=RetryPolicy(attempts=1, pause=timedelta(0)), environ={}) as web:
        yield ChartDependencies(web, None, allowed=AllowedHosts.parse("127.0.0.1:*"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


def needing(name: str, url: str, version: str = "~1.2", **files: str) -> dict[str, bytes]:
    text = f"apiVersion: v2\nname: {name}\nversion: 1.0.0\ndependencies:\n"
    text += f"- {{name: cache, version: '{version}', repository: {url}}}\n"
    return chart(name, **{"Chart.yaml": text, **files})


def staged(url: str, **files: str) -> dict[str, bytes]:
    """A release with stages: its class and the addon csi depend on the chart cache, cni on nothing."""
    top = f"{STAGED.series}-cluster-class"
    addons = below("cni", chart("cni")) | below("csi", needing("csi", url, **files))
    return staged_release() | {
        f"{top}-v2.tgz": write_archive(below(top, needing(top, url, "1.2.0"))),
        f"{STAGED.series}-cluster-addon-v1.tgz": write_archive(addons),
    }


def single(url: str) -> dict[str, bytes]:
    """A release in the single-chart layout whose addon depends on the chart cache."""
    addon = write_archive(below("tiny", needing("tiny", url)))
    return single_release() | {f"{SINGLE.series}-cluster-addon-v1.tgz": addon}


def names(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def archives(root: Path) -> list[Path]:
    return sorted(root.glob("*.*/*.tgz"))


def held(packed: bytes) -> set[str]:
    return {path for path in read_chart(packed, "a chart") if path.startswith("charts/")}


async def test_chart_dependencies_are_added_when_a_release_is_fetched(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})

    release = await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)

    assert [(one.chart, one.version) for one in release.dependencies] == [
        ("cluster-addon/csi", "1.2.9"),
        ("cluster-class", "1.2.0"),
    ]
    assert held(release.class_chart()) == {"charts/cache-1.2.0.tgz"}
    assert held(release.addon("csi").chart) == {"charts/cache-1.2.9.tgz"}
    assert held(release.addon("cni").chart) == set()
    assert release.lacking == {}


async def test_chart_dependencies_are_added_to_a_single_chart_release(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({SINGLE: single(repository.url)})

    release = await ReleaseStore(root).ensure(SINGLE, source, dependencies=charts)

    assert [one.chart for one in release.dependencies] == ["cluster-addon"]
    assert held(release.addon("cluster-addon").chart) == {"charts/cache-1.2.9.tgz"}
    assert release.addon("cluster-addon").chart == release.addon("cluster-addon").chart


async def test_release_digest_excludes_added_charts_and_addon_digest_includes_them(
    repository: ChartRepository, charts: ChartDependencies, root: Path, tmp_path: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    first = await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)
    repository.add("cache", "1.2.10")

    second = await ReleaseStore(tmp_path / "other").ensure(STAGED, source, dependencies=charts)

    assert second.digest == first.digest
    assert second.addon("csi").digest != first.addon("csi").digest
    assert second.addon("cni").digest == first.addon("cni").digest


async def test_restart_sends_no_request(repository: ChartRepository, charts: ChartDependencies, root: Path) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    first = await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)
    repository.add("cache", "1.2.10")
    asked = list(repository.asked)

    again = await ReleaseStore(root).ensure(STAGED, source, digest=first.digest, pinned=first.dependencies)
    assert again.dependencies == first.dependencies
    assert again.addon("csi").chart == first.addon("csi").chart
    assert await ReleaseStore(root).open(STAGED, first.digest, first.dependencies) is not None
    assert (source.fetched, repository.asked) == ([STAGED], asked)


async def test_second_call_uses_the_open_release(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    store = ReleaseStore(root)
    first = await store.ensure(STAGED, source, dependencies=charts)

    again = await store.ensure(STAGED, source, digest=first.digest, dependencies=charts, pinned=first.dependencies)
    assert await store.ensure(STAGED, source, digest=first.digest, pinned=first.dependencies) is again


@pytest.mark.regression("SEC-27")
async def test_charts_that_others_resolved_decide_nothing(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    store = ReleaseStore(root)
    others = await store.ensure(STAGED, source, dependencies=charts)
    repository.add("cache", "1.2.10")

    for opened in (store, ReleaseStore(root)):
        assert await opened.open(STAGED, others.digest) is None
        assert await opened.open(STAGED, others.digest, others.dependencies[:1]) is None
        ours = await opened.ensure(STAGED, source, digest=others.digest, dependencies=charts)
        assert {str(chart.version) for chart in ours.dependencies} == {"1.2.0", "1.2.10"}
        assert {str(chart.version) for chart in others.dependencies} != {"1.2.0", "1.2.10"}


async def test_pinned_charts_are_restored_after_the_loss_of_the_disk(
    repository: ChartRepository, charts: ChartDependencies, root: Path, tmp_path: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    first = await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)
    repository.add("cache", "1.2.10")

    again = await ReleaseStore(tmp_path / "new").ensure(
        STAGED, source, digest=first.digest, dependencies=charts, pinned=first.dependencies
    )

    assert again.dependencies == first.dependencies
    assert again.class_chart() == first.class_chart()
    assert again.addon("csi").chart == first.addon("csi").chart


async def test_changed_or_missing_pinned_chart_is_an_error(
    repository: ChartRepository, charts: ChartDependencies, root: Path, tmp_path: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    pins = (await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)).dependencies
    lost = ReleaseStore(tmp_path / "new")

    repository.index.clear()
    repository.add("cache", "1.2.0", "1.2.10")
    with pytest.raises(ChartsUnavailable, match=r"cache 1\.2\.9 is not in"):
        await lost.ensure(STAGED, source, dependencies=charts, pinned=pins)
    repository.publish(packaged("cache", "1.2.9", text="changed"), "cache", "1.2.9")
    with pytest.raises(ChartDigestMismatch, match=rf"cache 1\.2\.9 of .*{pins[0].digest}"):
        await lost.ensure(STAGED, source, dependencies=charts, pinned=pins)


async def test_release_can_be_pinned_to_several_sets_of_charts(
    repository: ChartRepository, charts: ChartDependencies, root: Path, tmp_path: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    store = ReleaseStore(root)
    old = await store.ensure(STAGED, source, dependencies=charts)
    repository.add("cache", "1.2.10")
    newer = await ReleaseStore(tmp_path / "other").ensure(STAGED, source, dependencies=charts)

    both = [
        await store.ensure(STAGED, source, digest=old.digest, dependencies=charts, pinned=one.dependencies)
        for one in (old, newer)
    ]

    assert [one.addon("csi").chart for one in both] == [old.addon("csi").chart, newer.addon("csi").chart]
    assert len(names(root)) == 3


async def test_release_with_disallowed_dependencies_is_rejected_when_fetched(
    repository: ChartRepository, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    host = repository.url.removeprefix("http://")
    store = ReleaseStore(root)
    words = (
        rf"release {STAGED} lacks .*cluster-addon/csi needs cache ~1\.2 of {repository.url}.*cluster-class needs "
        rf"cache 1\.2\.0 of .*allow {host} with --chart-repositories, or build .* vendored \(csctl create\)"
    )

    with pytest.raises(ChartDependenciesMissing, match=words):
        await store.ensure(STAGED, source)
    async with HTTPClient(environ={}) as web:
        with pytest.raises(ChartDependenciesMissing, match=words):
            await store.ensure(STAGED, source, dependencies=ChartDependencies(web, None, allowed=AllowedHosts()))
    assert repository.asked == []


async def test_dependencies_are_fetched_once_they_are_allowed(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    store = ReleaseStore(root)
    with pytest.raises(ChartDependenciesMissing):
        await store.ensure(STAGED, source)

    assert (await store.ensure(STAGED, source, dependencies=charts)).dependencies


async def test_file_repository_of_a_dependency_is_rejected(charts: ChartDependencies, root: Path) -> None:
    source = FakeSource({STAGED: staged("file://../common")})

    with pytest.raises(ChartDependenciesMissing, match="csctl create"):
        await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)


async def test_wrong_release_digest_is_rejected_before_charts_are_fetched(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})

    with pytest.raises(DigestMismatch):
        await ReleaseStore(root).ensure(STAGED, source, digest=OTHER, dependencies=charts)
    assert repository.asked == []


async def test_outdated_lock_file_is_rejected(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url, **{"Chart.lock": f"dependencies: []\ndigest: {OTHER}\n"})})

    with pytest.raises(SpecError, match=r"cluster-addon/csi: Chart\.lock"):
        await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)


def spoil(paths: Iterable[Path]) -> None:
    for path in paths:
        path.write_bytes(b"spoilt")


async def test_damaged_charts_are_fetched_again(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    first = await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)
    spoil(archives(root))
    store = ReleaseStore(root)

    assert await store.open(STAGED, first.digest) is None
    again = await store.ensure(STAGED, source, digest=first.digest, dependencies=charts, pinned=first.dependencies)
    assert again.class_chart() == first.class_chart()
    assert source.fetched == [STAGED]


def forge(root: Path) -> None:
    (record,) = root.glob("*.*/resolved.json")
    record.write_bytes(record.read_bytes().replace(b"1.2.9", b"1.2.8"))


async def test_charts_changed_on_disk_are_detected_while_the_release_is_open(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    store = ReleaseStore(root)
    release = await store.ensure(STAGED, source, dependencies=charts)
    spoil(archives(root))

    with pytest.raises(ReleaseDamaged, match="charts that cluster-class depends on"):
        release.class_chart()
    healed = await store.ensure(STAGED, source, digest=release.digest, dependencies=charts, pinned=release.dependencies)
    assert held(healed.class_chart()) == {"charts/cache-1.2.0.tgz"}


async def test_forged_resolution_record_is_not_trusted(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    first = await ReleaseStore(root).ensure(STAGED, source, dependencies=charts)
    forge(root)

    assert await ReleaseStore(root).open(STAGED, first.digest) is None


async def test_charts_are_deleted_with_their_release(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url), SINGLE: single(repository.url)})
    store = ReleaseStore(root)
    gone = await store.ensure(STAGED, source, dependencies=charts)
    kept = await store.ensure(SINGLE, source, dependencies=charts)
    await store.collect({kept.digest, gone.digest})

    assert await store.collect({kept.digest}) == [gone.digest]
    assert [name.partition(".")[0] for name in names(root)] == [kept.digest.replace(":", "-")] * 2


async def test_concurrent_callers_share_one_resolution(
    repository: ChartRepository, charts: ChartDependencies, root: Path
) -> None:
    source = FakeSource({STAGED: staged(repository.url)})
    store = ReleaseStore(root)

    found = await asyncio.gather(*(store.ensure(STAGED, source, dependencies=charts) for _ in range(5)))

    assert all(one is found[0] for one in found)
    assert repository.asked.count("/cache-1.2.9.tgz") == 1


async def test_repository_timeout_is_a_temporary_error(root: Path) -> None:
    async with chart_repository() as repository, HTTPClient(environ={}) as web:
        gate = asyncio.Event()
        repository.gate = gate
        source = FakeSource({STAGED: staged(repository.url)})
        store = ReleaseStore(root, deadline=timedelta(milliseconds=300))

        with pytest.raises(SourceUnavailable, match="not all dependencies"):
            await store.ensure(STAGED, source, dependencies=ChartDependencies(web, None))
        gate.set()
        repository.add("cache", "1.2.0")
        assert (await store.ensure(STAGED, source, dependencies=ChartDependencies(web, None))).dependencies
