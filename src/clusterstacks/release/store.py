"""Content-addressed store of releases on disk.

A directory of the store is complete or does not exist: it is filled under another name, synced, and renamed. Its name
is the digest of its files, which is checked before use, so a damaged directory is discarded and downloaded again. A
release that was not approved has another name, under which :meth:`ReleaseStore.open` does not find it.
Different releases are downloaded concurrently, the same release only once, and a failure is not cached. Missing chart
dependencies are resolved after the download, once for everyone who asks without pins, and stored with the release:
rendering never uses the network.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.net.http.allowlist import host_of
from clusterstacks.net.http.errors import SourceUnavailable, store_unavailable
from clusterstacks.release.chart_store import find_charts, remove_charts, store_charts
from clusterstacks.release.charts.chart import ChartCache
from clusterstacks.release.charts.dependencies import CHART_ERRORS, ChartDependenciesMissing
from clusterstacks.release.charts.errors import ChartRepositoryRefused, ChartsUnavailable
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import DigestMismatch, ReleaseBroken, ReleaseDamaged
from clusterstacks.release.open import open_release
from clusterstacks.release.release import CLASS_CHART
from clusterstacks.release.staging import Staging, discard, sweep
from clusterstacks.runtime.files import sync_directory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.charts.lockfile import ResolvedChart
    from clusterstacks.release.charts.vendor import ChartDependencies, Vendored
    from clusterstacks.release.contents import Contents
    from clusterstacks.release.release import Release
    from clusterstacks.release.release_source import ReleaseSource

    _Key: TypeAlias = tuple[ReleaseName, str, tuple[ResolvedChart, ...]]

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_UNAPPROVED = "unapproved-"
_DIRECTORY = re.compile(rf"(?:{_UNAPPROVED})?sha256-[0-9a-f]{{64}}")

DEADLINE = timedelta(minutes=5)
"""Deadline of the download of one release (arbitrary: 128 MB at 4 Mbit/s)."""


class ReleaseStore:
    """Downloads releases into a private directory, which it creates when it is missing, and opens them.

    File work runs in threads and does not block the event loop. Several processes may share one directory. The deadline
    is that of the download of one release.
    """

    def __init__(self, root: Path, *, deadline: timedelta = DEADLINE) -> None:
        self._root = root
        self._deadline = deadline
        self._charts = ChartCache()
        self._opened: dict[_Key, Release] = {}
        self._fetching: dict[Hashable, asyncio.Task[Release]] = {}
        # Digests that were stored since the last collection: their users may not be known yet.
        self._fresh: set[str] = set()
        self._swept = False
        self._sweeping = threading.Lock()

    async def ensure(  # noqa: PLR0913 - the release, its source, and the conditions
        self,
        name: ReleaseName,
        source: ReleaseSource,
        *,
        digest: str = "",
        dependencies: ChartDependencies | None = None,
        pinned: Sequence[ResolvedChart] = (),
        approve: Callable[[Release], Awaitable[None]] | None = None,
        whole: bool = True,
    ) -> Release:
        """Return a release, from disk when ``digest`` names what is there, else from the source.

        Args:
            name: The release.
            source: Its source.
            digest: The expected digest; empty to accept any.
            dependencies: Resolves missing chart dependencies; None when that is not allowed.
            pinned: The charts of the first resolution (:attr:`Release.dependencies`); exactly these are used again.
            approve: Called with a release that is not complete on disk, before anything is downloaded for it; raises to
                refuse it.
            whole: Whether to refuse a release with missing dependencies of addons. Otherwise it is returned with
                :attr:`Release.incomplete`, so that its class can be used.

        Raises:
            SpecError: The release or ``digest`` is not valid, or (:class:`DigestMismatch`) the source has other content
                than ``digest``; :class:`ChartDependenciesMissing` when dependencies are missing that may not be
                downloaded; any other error of :meth:`ChartDependencies.vendor_all`.
            DependencyError: The source has no such release or cannot be read, the disk fails, or a chart is not
                available now.
        """
        pins = tuple(pinned)
        if digest and (stored := await self.open(name, digest, pins)) is not None:
            return stored
        release = await self._on_disk(self._load_any, name, digest) if digest else None
        if release is None:
            release = await self._once((id(source), name), partial(self._fetch, name, source))
        if digest and release.digest != digest:
            raise DigestMismatch(name, pinned=digest, found=release.digest)
        if approve is not None:
            await approve(release)
        release = await self._on_disk(self._accept, release)
        if not release.lacking:
            return release
        work = partial(self._complete, release, dependencies, pins)
        try:
            return await self._once((id(dependencies), name, release.digest, pins), work)
        except CHART_ERRORS as error:
            if whole or CLASS_CHART in release.lacking:
                raise
            return replace(release, incomplete=error)

    async def open(self, name: ReleaseName, digest: str, pinned: Sequence[ResolvedChart] = ()) -> Release | None:
        """Return a release from disk, without its source; None when it is not stored, complete and unchanged.

        Only the first call reads and verifies the files. A release that lacks charts must have been completed with the
        pinned ones.

        Raises:
            SpecError: ``digest`` is not valid, or belongs to a release of another name.
        """
        pins = tuple(pinned)
        opened = self._opened.get((name, digest, pins))
        return opened if opened is not None else await self._on_disk(self._load_whole, name, digest, pins)

    async def collect(self, keep: Collection[str]) -> list[str]:
        """Remove every release whose digest is not in ``keep``, and return the removed digests.

        A release that was stored since the last call is kept once. A removed release is downloaded again when needed.
        """
        fresh, self._fresh = self._fresh, set()
        removed = await self._on_disk(self._collect, {*keep, *fresh})
        for name, digest in {key[:2] for key in list(self._opened) if key[1] in removed}:
            self._forget(name, digest)
        return removed

    async def close(self) -> None:
        """Cancel all downloads; the sources may be closed only after that."""
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _once(self, key: Hashable, work: Callable[[], Coroutine[None, None, Release]]) -> Release:
        task = self._fetching.get(key)
        if task is None:
            task = asyncio.create_task(work(), name=f"fetch {key}")
            self._fetching[key] = task
            task.add_done_callback(partial(self._landed, key))
        # A cancelled caller must not cancel the download for the others.
        return await asyncio.shield(task)

    def _landed(self, key: Hashable, task: asyncio.Task[Release]) -> None:
        del self._fetching[key]
        if not task.cancelled():
            task.exception()  # retrieved here, because every caller may be gone

    async def _fetch(self, name: ReleaseName, source: ReleaseSource) -> Release:
        staging = await self._on_disk(partial(Staging.create, self._root))
        try:
            await self._in_time(source.fetch(name, staging.path), name, "no complete release")
            return await self._on_disk(self._admit, name, staging)
        except ClusterStacksError as error:
            # Messages are written to conditions, and the name of this directory differs at each attempt.
            error.message = error.message.replace(str(staging.path), str(self._root))
            error.args = (error.message,)
            raise
        finally:
            await asyncio.to_thread(staging.remove)

    async def _complete(
        self, release: Release, dependencies: ChartDependencies | None, pins: tuple[ResolvedChart, ...]
    ) -> Release:
        completed = await self.open(release.name, release.digest, pins)
        if completed is not None:
            return completed
        if dependencies is None:
            raise ChartDependenciesMissing(release.name, release.lacking, _permission(release))
        charts = {label: await asyncio.to_thread(release.chart_files, label) for label in release.lacking}
        try:
            complete_charts = await self._in_time(
                _vendored(dependencies, charts, pins), release.name, "not all dependencies of its charts"
            )
        except ChartRepositoryRefused as error:
            raise ChartDependenciesMissing(release.name, release.lacking, error.remedy) from None
        resolved = [chart for vendored in complete_charts.values() for chart in vendored.resolved]
        archives = [complete_charts[chart.chart].files[chart.path] for chart in resolved]
        await self._on_disk(store_charts, self._place(release.digest), resolved, archives)
        completed = await self.open(release.name, release.digest, resolved)
        if completed is None:
            raise ReleaseDamaged(release.name, "chart dependencies")
        return completed

    async def _in_time(self, work: Coroutine[None, None, _T], name: ReleaseName, lack: str) -> _T:
        try:
            async with asyncio.timeout(self._deadline.total_seconds()):
                return await work
        except TimeoutError:
            seconds = self._deadline.total_seconds()
            raise SourceUnavailable(f"of {name}", f"{lack} after {seconds:.0f} s") from None

    async def _on_disk(self, work: Callable[..., _T], *args: object) -> _T:
        try:
            return await asyncio.to_thread(self._after_sweep, work, *args)
        except OSError as error:
            raise store_unavailable(self._root, error) from error

    def _after_sweep(self, work: Callable[..., _T], *args: object) -> _T:
        with self._sweeping:
            if not self._swept:
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                sweep(self._root)
                self._swept = True
        return work(*args)

    def _admit(self, name: ReleaseName, staging: Staging) -> Release:
        contents = read_contents(name, staging.path)
        release = open_release(contents, self._charts)
        self._fresh.add(contents.digest)
        stored = self._load_any(name, contents.digest)
        if stored is None:
            target = self._unapproved(contents.digest)
            try:
                staging.publish(target)
            except FileExistsError:
                log.debug("another process stored %s first", name)
            stored = replace(release, contents=replace(contents, root=target))
        return stored

    def _accept(self, release: Release) -> Release:
        """Give an approved release its name, under which it is opened."""
        unapproved, place = self._unapproved(release.digest), self._place(release.digest)
        if release.contents.root == place:
            return release
        try:
            unapproved.rename(place)
        except OSError:
            if not place.exists():
                raise
            with suppress(FileNotFoundError):
                discard(unapproved)  # another caller was faster
        sync_directory(self._root)
        return self._kept(release, replace(release.contents, root=place))

    def _load_any(self, name: ReleaseName, digest: str) -> Release | None:
        """Open a release from disk as it was published, also one that was not approved."""
        release = self._load(name, digest)
        if release is None and (unapproved := self._unapproved(digest)).exists():
            contents = self._contents(name, digest, unapproved)
            # Another process may have approved it meanwhile.
            release = open_release(contents, self._charts) if contents is not None else self._load(name, digest)
        return release

    def _load(self, name: ReleaseName, digest: str) -> Release | None:
        """Open a release from disk, as it was published."""
        contents = self._contents(name, digest, self._place(digest))
        return self._kept(open_release(contents, self._charts), contents) if contents is not None else None

    def _contents(self, name: ReleaseName, digest: str, directory: Path) -> Contents | None:
        if not directory.exists():
            return None
        try:
            contents = read_contents(name, directory)
        except (ReleaseBroken, OSError):
            contents = None
        if contents is not None and contents.digest == digest:
            return contents
        with suppress(FileNotFoundError):  # another process has renamed or removed it
            discard(directory)
            log.warning("the stored copy of release %s is damaged; it is downloaded again", name)
        return None

    def _load_whole(self, name: ReleaseName, digest: str, pins: tuple[ResolvedChart, ...]) -> Release | None:
        """Open a release from disk with its added dependencies."""
        release = self._load(name, digest)
        if release is not None and release.lacking:
            vendored = find_charts(self._place(digest), release.lacking, pins)
            if vendored is None:
                return None
            release = self._kept(open_release(release.contents, self._charts, vendored), release.contents)
        if release is not None:
            self._opened[name, digest, pins] = release
        return release

    def _kept(self, release: Release, contents: Contents) -> Release:
        kept = replace(release, contents=contents, damaged=partial(self._forget, contents.release, contents.digest))
        if not kept.lacking:
            self._opened[contents.release, contents.digest, kept.dependencies] = kept
        return kept

    def _forget(self, name: ReleaseName, digest: str) -> None:
        for key in [key for key in list(self._opened) if key[:2] == (name, digest)]:
            self._opened.pop(key, None)

    def _collect(self, wanted: Collection[str]) -> list[str]:
        removed = set()
        for path in [path for path in self._root.iterdir() if _DIRECTORY.fullmatch(path.name)]:
            digest = path.name.removeprefix(_UNAPPROVED).replace("-", ":")
            if digest not in wanted:
                discard(path)
                removed.add(digest)
        remove_charts(self._root, wanted)
        return sorted(removed)

    def _place(self, digest: str) -> Path:
        # The digest comes from an annotation, which anyone with access to the object may have edited.
        if not _DIGEST.fullmatch(digest):
            raise SpecError(
                "InvalidDigest", f"{shown(digest)} is not a digest (expected sha256: and 64 hex digits, or nothing)"
            )
        return self._root / digest.replace(":", "-")

    def _unapproved(self, digest: str) -> Path:
        place = self._place(digest)
        return place.with_name(f"{_UNAPPROVED}{place.name}")


async def _vendored(
    dependencies: ChartDependencies, charts: Mapping[str, Mapping[str, bytes]], pins: tuple[ResolvedChart, ...]
) -> dict[str, Vendored]:
    try:
        return await dependencies.vendor_all(charts, pins)
    except DependencyError as error:  # of a repository, not of the source
        raise ChartsUnavailable(error) from error


def _permission(release: Release) -> str:
    repositories = {need.repository for needs in release.lacking.values() for need in needs}
    hosts = sorted(filter(None, map(host_of, repositories)))
    return f"allow {', '.join(hosts)} with --chart-repositories" if hosts else "add them to charts/"
