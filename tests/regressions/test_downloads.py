"""D8 and D55: a failed download delays no other; different releases download concurrently."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.errors import SourceUnavailable
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import SINGLE, STAGED, FakeSource, single_release, staged_release

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.regression("D8", "D55")


@pytest.fixture
def source() -> FakeSource:
    return FakeSource({STAGED: staged_release(), SINGLE: single_release()})


async def test_failed_download_delays_neither_the_next_nor_others(tmp_path: Path, source: FakeSource) -> None:
    store = ReleaseStore(tmp_path)
    source.failure = SourceUnavailable("there", "connection reset")

    with pytest.raises(SourceUnavailable):
        await store.ensure(STAGED, source)

    assert (await store.ensure(SINGLE, source)).name == SINGLE
    assert (await store.ensure(STAGED, source)).name == STAGED


async def test_different_releases_are_downloaded_concurrently_and_the_same_one_once(
    tmp_path: Path, source: FakeSource
) -> None:
    store = ReleaseStore(tmp_path)
    source.gate.clear()
    waiting = [asyncio.create_task(store.ensure(name, source)) for name in (STAGED, STAGED, SINGLE, STAGED)]
    for _ in ("one of each",) * 2:
        await source.arrived.acquire()
    source.gate.set()

    releases = await asyncio.gather(*waiting)

    assert [release.name for release in releases] == [STAGED, STAGED, SINGLE, STAGED]
    assert sorted(source.fetched) == [STAGED, SINGLE]
