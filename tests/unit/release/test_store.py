from __future__ import annotations

import asyncio
import gc
import logging
import stat
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.digests import content_digest
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.net.http.errors import SourceUnavailable, store_unavailable
from clusterstacks.release.charts.chart import read_chart
from clusterstacks.release.contents import Contents, read_contents
from clusterstacks.release.errors import DigestMismatch, ReleaseBroken, ReleaseDamaged, ReleaseNotFound
from clusterstacks.release.release import Release
from clusterstacks.release.staging import Staging
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import SINGLE, STAGED, FakeSource, single_release, staged_release

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName

CLASS = "local-tiny-1-35-cluster-class-v2.tgz"
OTHER = f"sha256:{'0' * 64}"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "store"


@pytest.fixture
def source() -> FakeSource:
    return FakeSource({STAGED: staged_release(), SINGLE: single_release()})


def stored(root: Path) -> list[str]:
    return sorted(path.name for path in root.iterdir())


def modes(root: Path) -> set[tuple[bool, int]]:
    return {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in (root, *root.rglob("*"))}


async def test_a_release_is_fetched_once_and_then_opened_from_disk(root: Path, source: FakeSource) -> None:
    first = await ReleaseStore(root).ensure(STAGED, source)
    again = ReleaseStore(root)

    opened = await again.ensure(STAGED, source, digest=first.digest)

    assert source.fetched == [STAGED]
    assert (opened.digest, opened.class_chart()) == (first.digest, first.class_chart())
    assert await again.open(STAGED, first.digest) is opened
    assert stored(root) == [first.digest.replace(":", "-")]


async def test_stored_files_are_private(root: Path, source: FakeSource) -> None:
    await ReleaseStore(root).ensure(STAGED, source)

    assert modes(root) == {(True, 0o700), (False, 0o600)}


async def test_without_a_digest_the_release_is_fetched_again(root: Path, source: FakeSource) -> None:
    store = ReleaseStore(root)
    first = await store.ensure(STAGED, source)
    source.releases[STAGED] = staged_release() | {"README.md": b"changed"}

    second = await store.ensure(STAGED, source)

    assert first.digest != second.digest
    assert len(stored(root)) == 2


async def test_release_changed_under_its_name_is_rejected(root: Path, source: FakeSource) -> None:
    with pytest.raises(DigestMismatch, match=rf"local-tiny-1-35-v2 was pinned to {OTHER}, but its source now has sha"):
        await ReleaseStore(root).ensure(STAGED, source, digest=OTHER)


@pytest.mark.parametrize("digest", ["sha256:abc", "../../etc", f"sha256:{'G' * 64}", f"{OTHER}\n"])
async def test_invalid_digest_does_not_reach_the_file_system(root: Path, source: FakeSource, digest: str) -> None:
    with pytest.raises(SpecError, match="is not a digest"):
        await ReleaseStore(root).ensure(STAGED, source, digest=digest)


async def test_digest_of_another_release_is_rejected(root: Path, source: FakeSource) -> None:
    store = ReleaseStore(root)
    other = await store.ensure(SINGLE, source)

    with pytest.raises(ReleaseBroken, match=r"release local-tiny-1-35-v2: metadata\.yaml is for version v3"):
        await store.open(STAGED, other.digest)


async def test_broken_release_leaves_no_files(root: Path, source: FakeSource) -> None:
    del source.releases[STAGED]["metadata.yaml"]

    with pytest.raises(ReleaseBroken):
        await ReleaseStore(root).ensure(STAGED, source)
    assert stored(root) == []


async def test_an_unknown_release_is_not_found(root: Path) -> None:
    with pytest.raises(ReleaseNotFound):
        await ReleaseStore(root).ensure(STAGED, FakeSource({}))


async def test_source_that_never_ends_is_stopped(root: Path, source: FakeSource) -> None:
    source.gate.clear()

    with pytest.raises(SourceUnavailable, match="no complete release after 0 s"):
        await ReleaseStore(root, deadline=timedelta(milliseconds=10)).ensure(STAGED, source)
    assert stored(root) == []


async def test_disk_error_is_temporary(tmp_path: Path, source: FakeSource) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(DependencyError, match="store: Not a directory; check that disk"):
        await ReleaseStore(tmp_path / "file" / "store").ensure(STAGED, source)


@pytest.mark.regression("LIVE-LV-15")
@pytest.mark.parametrize(
    "failure",
    [
        lambda into: store_unavailable(into, OSError(28, "No space left on device")),
        lambda into: ReleaseBroken(STAGED, f"{into}/metadata.yaml", "is not valid"),
        lambda into: DependencyError("SourceUnavailable", f"cannot write {into}: {into} is full"),
    ],
    ids=["full disk", "broken release", "source"],
)
async def test_live_lv_15_each_attempt_has_the_same_message(
    root: Path, monkeypatch: pytest.MonkeyPatch, failure: Callable[[Path], ClusterStacksError]
) -> None:
    source = FakeSource({})

    async def fail(_: object, into: Path) -> None:
        raise failure(into)

    monkeypatch.setattr(source, "fetch", fail)
    messages = set()
    for _ in range(2):
        with pytest.raises(ClusterStacksError) as error:
            await ReleaseStore(root).ensure(STAGED, source)
        messages |= {error.value.message, str(error.value)}

    (message,) = messages
    assert str(root) in message
    assert ".staging-" not in message


@pytest.mark.parametrize("damage", ["changed", "missing", "added", "a link", "empty"])
async def test_damaged_copy_is_fetched_again(
    root: Path, source: FakeSource, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    digest = (await ReleaseStore(root).ensure(STAGED, source)).digest
    file = root / digest.replace(":", "-") / CLASS
    if damage == "changed":
        file.write_bytes(b"other")
    elif damage == "added":
        (file.parent / "more").touch()
    elif damage == "empty":
        for each in (CLASS, *set(staged_release()) - {CLASS}):
            (file.parent / each).unlink()
    else:
        file.unlink()
    if damage == "a link":
        file.symlink_to("metadata.yaml")

    store = ReleaseStore(root)
    with caplog.at_level(logging.WARNING):
        assert await store.open(STAGED, digest) is None
    release = await store.ensure(STAGED, source, digest=digest)

    assert "stored copy of release local-tiny-1-35-v2 is damaged" in caplog.text
    assert read_chart(release.class_chart(), "x") == read_chart(staged_release()[CLASS], "x")
    assert stored(root) == [digest.replace(":", "-")]


async def test_copy_damaged_after_opening_is_fetched_again_at_the_next_access(root: Path, source: FakeSource) -> None:
    store = ReleaseStore(root)
    release = await store.ensure(STAGED, source)
    (root / release.digest.replace(":", "-") / CLASS).write_bytes(b"other")

    with pytest.raises(ReleaseDamaged):
        release.class_chart()
    healed = await store.ensure(STAGED, source, digest=release.digest)

    assert read_chart(healed.class_chart(), "x") == read_chart(staged_release()[CLASS], "x")


async def test_two_stores_can_share_one_directory(root: Path, source: FakeSource) -> None:
    one, two = ReleaseStore(root), ReleaseStore(root)
    source.gate.clear()
    first = asyncio.create_task(one.ensure(STAGED, source))
    await source.arrived.acquire()

    # The second store starts, and sweeps, while the first one is in the middle of a download.
    second = asyncio.create_task(two.ensure(STAGED, source))
    await source.arrived.acquire()
    source.gate.set()

    digests = {release.digest for release in await asyncio.gather(first, second)}
    assert stored(root) == [digest.replace(":", "-") for digest in digests]


async def test_release_that_another_store_approves_meanwhile_is_opened_under_its_name(
    root: Path, source: FakeSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await ReleaseStore(root).ensure(STAGED, source)
    place = root / first.digest.replace(":", "-")
    unapproved = place.with_name(f"unapproved-{place.name}")
    place.rename(unapproved)

    def approved_meanwhile(name: ReleaseName, directory: Path) -> Contents:
        if directory == unapproved:
            unapproved.rename(place)
        return read_contents(name, directory)

    monkeypatch.setattr("clusterstacks.release.store.read_contents", approved_meanwhile)

    assert (await ReleaseStore(root).ensure(STAGED, source)).digest == first.digest
    assert stored(root) == [place.name]


async def test_cancelled_caller_does_not_stop_the_others(root: Path, source: FakeSource) -> None:
    store = ReleaseStore(root)
    source.gate.clear()
    leaving, staying = (asyncio.create_task(store.ensure(STAGED, source)) for _ in range(2))
    await source.arrived.acquire()

    leaving.cancel()
    source.gate.set()

    assert (await staying).name == STAGED
    assert source.fetched == [STAGED]


async def test_failure_without_a_waiting_caller_is_not_logged(
    root: Path, source: FakeSource, caplog: pytest.LogCaptureFixture
) -> None:
    source.gate.clear()
    source.failure = SourceUnavailable("there", "broken")
    store = ReleaseStore(root)
    leaving = asyncio.create_task(store.ensure(STAGED, source))
    await source.arrived.acquire()
    (fetch,) = store._fetching.values()
    leaving.cancel()
    source.gate.set()
    await asyncio.wait([fetch])

    del fetch
    gc.collect()
    assert caplog.records == []


async def test_new_release_survives_the_first_garbage_collection(root: Path, source: FakeSource) -> None:
    store = ReleaseStore(root)
    digest = (await store.ensure(STAGED, source)).digest

    assert await store.collect(set()) == []
    assert await store.collect(set()) == [digest]
    assert stored(root) == []
    assert await store.open(STAGED, digest) is None


async def test_foreign_files_in_the_directory_are_not_deleted(root: Path, source: FakeSource) -> None:
    store = ReleaseStore(root)
    await store.ensure(STAGED, source)
    (root / "lost+found").mkdir()

    await store.collect(set())
    await store.collect(set())

    assert stored(root) == ["lost+found"]


@pytest.fixture
def crashed(root: Path) -> None:
    (root / ".staging-0123456789abcdef").mkdir(parents=True)
    (root / ".staging-0123456789abcdef" / "part").write_bytes(b"x")
    (root / ".staging-fedcba9876543210").touch()
    (root / ".staging-environment").mkdir()


@pytest.mark.usefixtures("crashed")
async def test_startup_deletes_leftovers_of_a_crash_and_nothing_in_use(root: Path) -> None:
    used = Staging.create(root)

    await ReleaseStore(root).collect(set())

    assert stored(root) == sorted([used.path.name, ".staging-fedcba9876543210", ".staging-environment"])
    used.remove()


class Refused(Exception):
    """A release that the caller does not accept."""


async def refuse(_: object) -> None:
    raise Refused


async def accept(_: object) -> None:
    """Accept every release."""


@pytest.mark.regression("SEC-30")
async def test_refused_release_is_not_opened_by_its_digest(root: Path, source: FakeSource) -> None:
    store, known = ReleaseStore(root), content_digest_of(staged_release())
    for _ in range(2):
        with pytest.raises(Refused):
            await store.ensure(STAGED, source, digest=known, approve=refuse)

    assert source.fetched == [STAGED], "a retry does not download it again"
    for opened in (store, ReleaseStore(root)):
        assert await opened.open(STAGED, known) is None
        assert not opened._opened

    release = await ReleaseStore(root).ensure(STAGED, source, digest=known, approve=accept)

    assert source.fetched == [STAGED]
    assert release.class_chart()
    assert await ReleaseStore(root).open(STAGED, known) is not None
    assert stored(root) == [known.replace(":", "-")]


@pytest.mark.regression("SEC-30")
async def test_callers_that_share_a_download_decide_for_themselves(root: Path, source: FakeSource) -> None:
    store = ReleaseStore(root)
    source.gate.clear()
    decisions = (refuse, accept, accept, refuse)
    callers = [asyncio.create_task(store.ensure(STAGED, source, approve=one)) for one in decisions]
    await source.arrived.acquire()
    source.gate.set()

    refused, one, other, again = await asyncio.gather(*callers, return_exceptions=True)

    assert source.fetched == [STAGED]
    assert isinstance(refused, Refused)
    assert isinstance(again, Refused)
    assert isinstance(one, Release)
    assert isinstance(other, Release)
    assert one.class_chart() == other.class_chart()
    assert stored(root) == [one.digest.replace(":", "-")]


@pytest.mark.regression("SEC-30")
async def test_refused_release_is_collected(root: Path, source: FakeSource) -> None:
    store, known = ReleaseStore(root), content_digest_of(staged_release())
    with pytest.raises(Refused):
        await store.ensure(STAGED, source, approve=refuse)

    assert await store.collect(set()) == []
    assert await store.collect({known}) == []
    assert await store.collect(set()) == [known]
    assert stored(root) == []


def content_digest_of(files: Mapping[str, bytes]) -> str:
    return content_digest((name, sha256(content).hexdigest()) for name, content in files.items())
