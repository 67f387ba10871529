"""Renders the manifests of delivered addons again, for the sweep of addons whose manifests do not fit into a record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs, combine_releases
from clusterstacks.operator.controllers.clusteraddon.snapshot import read_snapshot

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonReleases
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot, ContractKinds
    from clusterstacks.operator.controllers.object_reader import Reader
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import ReleaseFetcher


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveredManifests:
    """Renders addons from the current release and Cluster; ``fetcher`` enqueues the sweep after a download."""

    reads: Reader
    contracts: ContractKinds
    fetcher: ReleaseFetcher
    renderer: Renderer

    async def render(self, addon: ObjectKey, cluster: ObjectKey, record: DeliveryRecord) -> list[Manifest] | None:
        """Render the addon of a delivery record; return None if its inputs are not the recorded ones.

        A SpecError says that the release, the chart or the values are not valid.
        """
        snapshot = await read_snapshot(self.reads, cluster, self.contracts)
        if snapshot is None or snapshot.refusal or snapshot.unread or snapshot.release_missing:
            return None
        releases = await self._open_releases(addon, snapshot)
        if releases is None:
            return None
        inputs = AddonInputs(snapshot, releases, self.renderer.for_object(addon))
        chart = inputs.chart(record.addon)
        values = await inputs.values(chart)
        return await inputs.render(chart, values) if inputs.digest(chart, values) == record.inputs else None

    async def _open_releases(self, addon: ObjectKey, snapshot: ClusterSnapshot) -> AddonReleases | None:
        opened: dict[ReleaseName, Release] = {}
        for name, manifest in snapshot.objects.items():
            fetched = await self.fetcher.fetch(addon, manifest or {}, name)
            if fetched is None:
                return None
            opened[name] = fetched.release
        return combine_releases(opened.pop(snapshot.release), opened, snapshot.requested)
