"""Opens the releases of a live Cluster with the rights of the user, and the inputs of its addons."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from clusterstacks.deliver.render.values_document import merge_values
from clusterstacks.model.documents import mapping
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot, ContractKinds
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.release.release import Release


@asynccontextmanager
async def live_inputs(client: Client, releases: Path | None) -> AsyncIterator[LiveInputs]:
    """Yield the inputs of the Clusters of one management cluster; ``releases`` is a release or a directory of them."""
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds

    async with AsyncExitStack() as resources:
        renderer = Renderer()
        resources.push_async_callback(renderer.close)
        directory = Path(resources.enter_context(TemporaryDirectory(prefix="csctl-")))
        yield LiveInputs(client, ContractKinds(client), renderer, releases, directory)


@dataclass(frozen=True, slots=True)
class LiveInputs:
    """Reads the inputs of addons; its render workers and opened releases serve all Clusters of a management cluster.

    Args:
        client: The management cluster.
        contracts: The kinds that may be read.
        renderer: Renders the addons.
        given: A release, or a directory of releases; others are downloaded from the sources of the ClusterStacks.
        directory: Directory for downloads.
    """

    client: Client
    contracts: ContractKinds
    renderer: Renderer
    given: Path | None
    directory: Path
    _opened: dict[ReleaseName, asyncio.Task[Release]] = field(default_factory=dict)

    async def of(self, context: UpgradeContext, steps: Sequence[dict[str, Any]] = ()) -> AddonInputs:
        """Return the inputs of the addons of a Cluster, after the steps of a plan's document.

        Raises:
            SpecError: Only the operator can read a release.
            DependencyError: The management cluster or a source does not answer.
        """
        from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs, combine_releases
        from clusterstacks.operator.controllers.clusteraddon.snapshot import read_snapshot

        key = context.cluster.view.key
        snapshot = await read_snapshot(self.client, key, self.contracts)
        if snapshot is None:
            raise SpecError("ClusterNotFound", f"Cluster {key} does not exist any more")
        for step in steps:
            snapshot = _after(snapshot, step)
        opened = {
            name: await self._release(context, name) for name in {snapshot.release, *snapshot.requested.releases()}
        }
        own = opened.pop(snapshot.release)
        return AddonInputs(snapshot, combine_releases(own, opened, snapshot.requested), self.renderer)

    async def _release(self, context: UpgradeContext, name: ReleaseName) -> Release:
        """Open a release once; another Cluster that needs it waits for the same download."""
        if name not in self._opened:
            opening = _open(self.client, context, self.given, name, self.directory)
            self._opened[name] = asyncio.create_task(opening, name=f"opening of {name}")
        return await asyncio.shield(self._opened[name])


def _after(snapshot: ClusterSnapshot, step: dict[str, Any]) -> ClusterSnapshot:
    """Return the snapshot of a Cluster after a step.

    The control plane object has the version of the step; what else Cluster API writes to it is not known.
    """
    from clusterstacks.model.kinds.addon_annotations import read_requested_releases
    from clusterstacks.model.kinds.clusterapi import cluster_view, root_objects
    from clusterstacks.model.names import parse_class
    from clusterstacks.model.versions import KubernetesVersion

    patched: Manifest = merge_values(snapshot.cluster.raw, step["patch"] or {})
    annotations = mapping(patched, "metadata", "annotations").items()
    kept = {key: value for key, value in annotations if value is not None}
    patched["metadata"] = {**mapping(patched, "metadata"), "annotations": kept}
    view, version = cluster_view(patched), KubernetesVersion.parse(step["kubernetes"])
    release = parse_class(view.class_name)
    main = snapshot.data["ControlPlane"]
    main = merge_values(main, {"spec": {"version": version.text}, "status": {"version": version.text}}) if main else {}
    return replace(
        snapshot,
        cluster=view,
        release=release,
        requested=read_requested_releases(view.annotations, release),
        upgrade=replace(snapshot.upgrade, control_plane=(version,), wanted=version),
        data=root_objects(patched, main, snapshot.data["InfraCluster"]),
    )


async def _open(
    client: Client, context: UpgradeContext, given: Path | None, name: ReleaseName, directory: Path
) -> Release:
    """Open a release that is given, or download it to a directory with the rights of the user."""
    from clusterstacks.plan.clusters.candidates import opened_source
    from clusterstacks.release.open import open_directory
    from clusterstacks.release.sources.download_release import pull
    from clusterstacks.release.sources.source_opener import SecretReader, SourceOpener
    from clusterstacks.release.sources.stack_source import named_settings

    if given is not None:
        place = given if given.name == name.release else given / name.release
        if place.is_dir():
            return await asyncio.to_thread(open_directory, place, name)
    settings = next(filter(None, map(named_settings, context.offered.of_series(name.kubernetes))), None)
    if settings is None or not settings.address.kind.is_remote:
        problem = f"only the operator can read release {name}, from its own source"
        raise SpecError("ReleaseUnknown", f"{problem}: give it with --releases DIR")
    opener = SourceOpener(secrets=SecretReader(client), release_dir=Path(os.devnull), environ=os.environ)
    async with opened_source(opener, settings) as source:
        return (await pull(source, name, directory)).release
