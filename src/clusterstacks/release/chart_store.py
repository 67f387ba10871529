"""Resolved chart dependencies in the store: directories beside those of the releases.

``sha256-<digest of the release>.<fingerprint of the resolution>`` holds the charts of one resolution. A release may
have several: resolved at different times, it is pinned to different charts.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

from clusterstacks.model.digests import sha256_digest
from clusterstacks.release.charts.lockfile import VendoredCharts, fingerprint, pin_of, read_vendored, write_vendored
from clusterstacks.release.staging import Staging, discard

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from pathlib import Path

    from clusterstacks.release.charts.dependencies import ChartRequirement
    from clusterstacks.release.charts.lockfile import ResolvedChart

log = logging.getLogger(__name__)

_DIRECTORY = re.compile(r"sha256-[0-9a-f]{64}\.[0-9a-f]{64}")


def find_charts(
    release: Path, lacking: Mapping[str, Iterable[ChartRequirement]], pinned: Collection[ResolvedChart]
) -> VendoredCharts | None:
    """Return stored charts that complete a release; None without a complete, undamaged set.

    ``release`` is its directory in the store, ``lacking`` has the missing dependencies by chart. Each of them must be
    pinned: the versions that another namespace has pinned decide nothing here.
    """
    wanted = [pin_of(label, requirement, pinned) for label, needs in lacking.items() for requirement in needs]
    if None in wanted:
        return None
    for directory in sorted(_directories(release.parent, f"{release.name}.")):
        vendored = read_vendored(directory, directory.name.partition(".")[2])
        if vendored is None:
            log.warning("the stored charts in %s are damaged; they are downloaded again", directory.name)
            discard(directory)
            continue
        if set(wanted) <= set(vendored.resolved):
            return vendored
    return None


def store_charts(release: Path, resolved: Collection[ResolvedChart], archives: Iterable[bytes]) -> VendoredCharts:
    """Store resolved charts and their archives, in any order, beside the directory of a release in the store."""
    target = release.with_name(f"{release.name}.{fingerprint(resolved)}")
    staging = Staging.create(release.parent)
    try:
        by_digest = {sha256_digest(content): content for content in archives}
        write_vendored(staging.path, resolved, by_digest)
        staging.publish(target)
    except FileExistsError:
        log.debug("another process stored %s first", target.name)
    finally:
        staging.remove()
    return VendoredCharts(target, tuple(sorted(resolved)))


def remove_charts(root: Path, releases: Collection[str]) -> None:
    """Remove the charts of all releases except those with the given digests."""
    for directory in list(_directories(root, "")):
        if directory.name.partition(".")[0].replace("-", ":") not in releases:
            discard(directory)


def _directories(root: Path, prefix: str) -> Iterator[Path]:
    return (path for path in root.iterdir() if path.name.startswith(prefix) and _DIRECTORY.fullmatch(path.name))
