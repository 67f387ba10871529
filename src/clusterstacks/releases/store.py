"""The releases on this machine's disk, each under its digest.

A directory of the store is whole or does not exist: it is filled under another name, brought to disk, and renamed
(INCUMBENT D62). Its name is the digest of its files and is checked before anything in it is used, so a damaged one is
thrown away and fetched again. Different releases are fetched at the same time, the same one once (D55), and nothing
is held over a failure (D8).
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.charts import ChartCache
from clusterstacks.releases.contents import survey
from clusterstacks.releases.errors import DigestMismatch, ReleaseBroken, SourceUnavailable, StoreUnavailable
from clusterstacks.releases.opening import open_release
from clusterstacks.releases.staging import Staging, discard, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.contents import Contents
    from clusterstacks.releases.release import Release
    from clusterstacks.releases.sources import ReleaseSource

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_DIRECTORY = re.compile(r"sha256-[0-9a-f]{64}")

DEADLINE = timedelta(minutes=5)
"""How long a source may take for one release (arbitrary: 128 MB at 4 Mbit/s)."""


class ReleaseStore:
    """Fetches releases into a private directory and opens them.

    File work runs in threads, so other work goes on meanwhile. Several processes may share one directory.

    Args:
        root: The directory; made when it is missing.
        deadline: How long a source may take for one release.
    """

    def __init__(self, root: Path, *, deadline: timedelta = DEADLINE) -> None:
        self._root = root
        self._deadline = deadline
        self._charts = ChartCache()
        self._opened: dict[tuple[ReleaseName, str], Release] = {}
        self._fetching: dict[tuple[int, ReleaseName], asyncio.Task[Release]] = {}
        # Digests that arrived since the last collection: their users had no time yet to be counted.
        self._fresh: set[str] = set()
        self._swept = False
        self._sweeping = threading.Lock()

    async def ensure(self, name: ReleaseName, source: ReleaseSource, *, digest: str = "") -> Release:
        """Return a release, from disk when ``digest`` names what is there, else from the source.

        Raises:
            SpecError: The release is broken, ``digest`` is none, or (:class:`DigestMismatch`) the source has another
                content than ``digest`` says.
            DependencyError: The source has no such release or cannot be read, or the disk refuses.
        """
        if digest and (held := await self.open(name, digest)) is not None:
            return held
        release = await self._fetched(name, source)
        if digest and release.digest != digest:
            raise DigestMismatch(name, pinned=digest, found=release.digest)
        return release

    async def open(self, name: ReleaseName, digest: str) -> Release | None:
        """Return a release that is on disk; None when it is not there, whole and unchanged. Asks no source.

        Cheap: all files are read and verified at the first call only.

        Raises:
            SpecError: ``digest`` is none, or belongs to a release of another name.
            DependencyError: The disk refuses.
        """
        held = self._opened.get((name, digest))
        return held if held is not None else await self._on_disk(self._load, name, digest)

    async def collect(self, keep: Collection[str]) -> list[str]:
        """Remove every release whose digest is not in ``keep``, and return the digests removed (INCUMBENT D64).

        A release that arrived since the last call stays once. One removed by mistake is fetched again when needed.

        Raises:
            DependencyError: The disk refuses.
        """
        fresh, self._fresh = self._fresh, set()
        removed = await self._on_disk(self._collect, {*keep, *fresh})
        for key in [key for key in self._opened if key[1] in removed]:
            self._forget(key)
        return removed

    async def _fetched(self, name: ReleaseName, source: ReleaseSource) -> Release:
        key = (id(source), name)
        task = self._fetching.get(key)
        if task is None:
            task = asyncio.create_task(self._fetch(name, source), name=f"fetch {name}")
            self._fetching[key] = task
            task.add_done_callback(partial(self._landed, key))
        # One caller that is cancelled must not take the release away from the others.
        return await asyncio.shield(task)

    def _landed(self, key: tuple[int, ReleaseName], task: asyncio.Task[Release]) -> None:
        del self._fetching[key]
        if not task.cancelled():
            task.exception()  # every caller may be gone: then nobody else would take note of it

    async def _fetch(self, name: ReleaseName, source: ReleaseSource) -> Release:
        staging = await self._on_disk(self._stage)
        try:
            try:
                async with asyncio.timeout(self._deadline.total_seconds()):
                    await source.fetch(name, staging.path)
            except TimeoutError:
                seconds = self._deadline.total_seconds()
                raise SourceUnavailable(f"of {name}", f"no whole release after {seconds:.0f} s") from None
            return await self._on_disk(self._admit, name, staging)
        finally:
            await asyncio.to_thread(staging.remove)

    async def _on_disk(self, work: Callable[..., _T], *args: object) -> _T:
        try:
            return await asyncio.to_thread(self._after_sweep, work, *args)
        except OSError as error:
            raise StoreUnavailable(self._root, error) from error

    def _after_sweep(self, work: Callable[..., _T], *args: object) -> _T:
        with self._sweeping:
            if not self._swept:
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                sweep(self._root)
                self._swept = True
        return work(*args)

    def _stage(self) -> Staging:
        return Staging.create(self._root)

    def _admit(self, name: ReleaseName, staging: Staging) -> Release:
        contents = survey(name, staging.path)
        release = open_release(contents, self._charts)
        self._fresh.add(contents.digest)
        held = self._load(name, contents.digest)
        if held is None:
            target = self._place(contents.digest)
            try:
                staging.publish(target)
            except FileExistsError:
                log.debug("another process stored %s first", name)
            held = self._kept(release, replace(contents, root=target))
        return held

    def _load(self, name: ReleaseName, digest: str) -> Release | None:
        directory = self._place(digest)
        if not directory.exists():
            return None
        try:
            contents = survey(name, directory)
        except (ReleaseBroken, OSError):
            contents = None
        if contents is None or contents.digest != digest:
            log.warning("the stored copy of release %s is damaged; it is fetched again", name)
            discard(directory)
            return None
        return self._kept(open_release(contents, self._charts), contents)

    def _kept(self, release: Release, contents: Contents) -> Release:
        key = (contents.release, contents.digest)
        kept = replace(release, contents=contents, damaged=partial(self._forget, key))
        self._opened[key] = kept
        return kept

    def _forget(self, key: tuple[ReleaseName, str]) -> None:
        self._opened.pop(key, None)

    def _collect(self, keep: Collection[str]) -> list[str]:
        stored = {path.name.replace("-", ":"): path for path in self._root.iterdir() if _DIRECTORY.fullmatch(path.name)}
        removed = sorted(digest for digest in stored if digest not in keep)
        for digest in removed:
            discard(stored[digest])
        return removed

    def _place(self, digest: str) -> Path:
        # The digest comes out of an annotation that anybody with access to the object may have edited.
        if not _DIGEST.fullmatch(digest):
            raise SpecError("InvalidDigest", f"{shown(digest)} is no digest: write sha256: and 64 hex digits, or none")
        return self._root / digest.replace(":", "-")
