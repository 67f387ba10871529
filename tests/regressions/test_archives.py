"""D63 and D64: archives write nothing outside, and files are private and removed when unused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator import app
from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import STAGED, FakeSource, gzipped, staged_release, tar_of
from tests.support.builders.stacks import config_map, templates
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World

pytestmark = pytest.mark.regression("D63", "D64")


def below(directory: Path) -> list[tuple[str, int]]:
    return [(path.name, path.stat().st_mode & 0o777) for path in directory.rglob("*")]


async def test_release_with_path_traversal_in_addons_is_rejected(tmp_path: Path) -> None:
    archive = "local-tiny-1-35-cluster-addon-v1.tgz"
    source = FakeSource({STAGED: staged_release() | {archive: gzipped(tar_of(("../../evil", b"x")))}})

    with pytest.raises(
        UnsafeArchive, match=rf"release {STAGED}: {archive}: member '\.\./\.\./evil' leaves the archive"
    ):
        await ReleaseStore(tmp_path / "store").ensure(STAGED, source)
    assert not any(name == "evil" for name, _ in below(tmp_path))


async def test_unused_release_is_removed(tmp_path: Path) -> None:
    store = ReleaseStore(tmp_path)
    digest = (await store.ensure(STAGED, FakeSource({STAGED: staged_release()}))).digest

    await store.collect({digest})
    assert {mode for _, mode in below(tmp_path)} == {0o700, 0o600}
    await store.collect(set())
    assert below(tmp_path) == []


@pytest.mark.regression("D64")
async def test_operator_removes_releases_that_no_object_uses(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "COLLECT_INTERVAL", timedelta(seconds=0.1))
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))

    async def is_empty() -> bool:
        return not list(world.cache.rglob("metadata.yaml"))

    async with world.operator():
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.release_ready(name)
        assert not await is_empty()
        await world.delete(stack)
        await world.delete(release)
        await eventually(is_empty, about="an empty cache")
