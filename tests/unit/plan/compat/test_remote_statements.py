"""Compatibility statements of listed releases are read once in the background."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.plan.compat.remote_statements import RemoteStatements
from clusterstacks.release.release import METADATA
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.periodic_listing import SourceListings
from clusterstacks.release.sources.source_cache import SourceCache
from clusterstacks.release.sources.source_opener import SecretReader, SourceOpener
from clusterstacks.release.sources.spec import SourceAddress, SourceSettings
from clusterstacks.release.sources.stack_source import SourcePolicy
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from tests.support.fakes.api_server import FakeApi
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

TERMS = SourceSettings(address=SourceAddress(source_kinds.DIRECTORY, ""))


def stack(minor: str = "1.35") -> ClusterStack:
    spec = {"provider": "p", "name": "s", "kubernetesVersion": minor, "noProvider": True}
    metadata = {"name": f"s-{minor}", "namespace": "stacks"}
    return ClusterStack.parse({"kind": "ClusterStack", "metadata": metadata, "spec": spec})


def release(root: Path, name: str, kubernetes: str = "v1.35.1") -> Path:
    directory = root / name
    directory.mkdir()
    versions = {"clusterStack": "v1", "kubernetes": kubernetes, "components": {"clusterAddon": "v1"}}
    (directory / METADATA).write_text(json.dumps({"versions": versions}))
    return directory


async def test_statements_of_available_releases_are_read_once_listed(tmp_path: Path) -> None:
    for name in ("p-s-1-35-v1", "p-s-1-35-v2", "p-s-1-36-v1", "p-other-1-35-v1", "foreign"):
        release(tmp_path, name, "v1.36.1" if "1-36" in name else "v1.35.1")
    release(tmp_path, "p-s-1-35-v3", "v1.34.0")  # says what its name does not
    opener = SourceOpener(secrets=SecretReader(FakeApi()), release_dir=tmp_path, environ={})
    sources, clock = SourceCache(opener, SYSTEM_CLOCK), SYSTEM_CLOCK
    listings = SourceListings(sources, clock, lambda _: None)
    statements = RemoteStatements(sources, listings, SourcePolicy(default=TERMS), clock)
    try:
        assert statements.known([stack()]) == {}  # follows nothing
        listing = listings.follow(stack().key, TERMS)

        async def listed() -> bool:
            return listing.is_read

        await eventually(listed, about="the list")

        async def names() -> bool:
            return {one.release for one in statements.known([stack()])} == {"p-s-1-35-v1", "p-s-1-35-v2"}

        await eventually(names, about="what releases state")
        assert statements.known([stack("1.36")]) == {}  # does not follow it
        (tmp_path / "p-s-1-35-v1" / METADATA).unlink()
        assert await names()
    finally:
        await statements.close()
        await listings.close()
        await sources.close()
