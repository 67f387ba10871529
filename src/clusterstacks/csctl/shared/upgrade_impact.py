"""Finds out what a plan changes: the nodes that are replaced, and the objects in the workload cluster."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.management_objects import ObjectQuery, read_all
from clusterstacks.csctl.shared.terminal import ResultMark
from clusterstacks.deliver.render.values_document import merge_values
from clusterstacks.model.documents import at, mapping, text
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_NAME_LABEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot, ContractKinds
    from clusterstacks.operator.controllers.workload_clients import Workloads
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.release.release import Release

    Document = dict[str, Any]

COMPARISON_SECONDS: Final = 60.0
"""Time limit of the comparison of objects (arbitrary: a person waits for it)."""

SHOWN: Final = 5
"""Refused objects that are printed (arbitrary); -o json has all."""

_SERVERS: Final = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
"""Metadata that differs between an object and the dry run of its apply without a change of its content."""


async def read_impact(
    client: Client, context: UpgradeContext, steps: Sequence[Document], releases: Path | None
) -> Document:
    """Return the impact of a plan as :meth:`ImpactReader.read`, with the releases of a directory."""
    async with impact_reader(client, releases) as reader:
        return await reader.read(context, steps)


async def rolling_nodes(client: Client, context: UpgradeContext, steps: Sequence[Document]) -> int:
    """Return how many nodes the steps of a plan replace, each counted once."""
    return sum(pool["nodes"] for pool in await _rolling_pools(client, context, steps))


async def _rolling_pools(client: Client, context: UpgradeContext, steps: Sequence[Document]) -> list[Document]:
    """Return the pools whose nodes are replaced: the control plane, and those of workers."""
    moves = {step["kind"] for step in steps} - {"addon"}
    if not moves:
        return []
    view = context.cluster.view
    labels = f"{CLUSTER_NAME_LABEL}={view.name}"
    kinds = ("MachineDeployment", "MachinePool")
    queries = [
        ObjectQuery(CLUSTER_API_GROUP, kind, view.namespace, labels, consequence="its nodes are not counted")
        for kind in kinds
    ]
    workers = await read_all(client, queries)
    wanted = at(view.raw, "spec", "topology", "controlPlane", "replicas")
    replicas = at(view.raw, "status", "controlPlane", "replicas") or wanted or 0
    control_plane = {"kind": "ControlPlane", "name": view.name, "nodes": replicas}
    return [control_plane] * (moves != {"workers"}) + [
        {"kind": kind, "name": text(pool, "metadata", "name"), "nodes": at(pool, "spec", "replicas") or 0}
        for kind, pools in zip(kinds, workers, strict=True)
        for pool in pools or ()
    ]


@asynccontextmanager
async def impact_reader(client: Client, releases: Path | None) -> AsyncIterator[ImpactReader]:
    """Yield a reader for Clusters of one management cluster; ``releases`` is a release or a directory of them."""
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds
    from clusterstacks.operator.controllers.workload_clients import Workloads

    async with AsyncExitStack() as resources:
        workloads = await resources.enter_async_context(Workloads(client))
        renderer = Renderer()
        resources.push_async_callback(renderer.close)
        directory = Path(resources.enter_context(TemporaryDirectory(prefix="csctl-")))
        yield ImpactReader(client, workloads, ContractKinds(client), renderer, releases, directory)


@dataclass(frozen=True, slots=True)
class ImpactReader:
    """Reads the impact of plans; its render workers and opened releases serve all Clusters of a management cluster.

    Args:
        client: The management cluster.
        workloads: Connections to the workload clusters.
        contracts: The kinds that may be read.
        renderer: Renders the addons.
        given: A release, or a directory of releases; None to download them.
        directory: Directory for downloads.
    """

    client: Client
    workloads: Workloads
    contracts: ContractKinds
    renderer: Renderer
    given: Path | None
    directory: Path
    _opened: dict[ReleaseName, asyncio.Task[Release]] = field(default_factory=dict)

    async def read(self, context: UpgradeContext, steps: Sequence[Document]) -> Document:
        """Return what all steps of a plan's document change together: ``nodes``, ``objects`` and ``unknown``.

        ``objects`` has the numbers of objects that are created, changed and removed, their names, and the messages of
        the API server about those that it refuses now; it is None where they are not known, and ``unknown`` says why.
        Nothing is changed.

        Raises:
            DependencyError: The management cluster does not answer.
        """
        nodes = await _rolling_pools(self.client, context, steps)
        impact: Document = {"nodes": nodes, "objects": None, "unknown": None}
        try:
            async with asyncio.timeout(COMPARISON_SECONDS):
                impact["objects"] = await self._changed_objects(context, steps)
        except TimeoutError:
            impact["unknown"] = f"the comparison took longer than {COMPARISON_SECONDS:g} s"
        except ClusterStacksError as error:
            impact["unknown"] = error.message
        return impact

    async def inputs(self, context: UpgradeContext, steps: Sequence[Document] = ()) -> AddonInputs:
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

    async def _changed_objects(self, context: UpgradeContext, steps: Sequence[Document]) -> Document:
        """Render the addons that the steps change, and compare their objects with the delivery records."""
        from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner
        from clusterstacks.deliver.apply.targets import resolve
        from clusterstacks.deliver.render.renderer import ADDON_NAMESPACE

        key = context.cluster.view.key
        workload = await self.workloads.connect(key)
        inputs = await self.inputs(context, steps)
        delivery = Delivery(workload, RecordOwner(key))
        records = await delivery.records()
        kept: set[ObjectId] = set()
        rendered: list[ApplyTarget] = []
        for addon in inputs.releases.addons():
            chart = inputs.chart(addon)
            values = await inputs.values(chart)
            if addon in records and records[addon].inputs == inputs.digest(chart, values):
                kept |= {known.id for known in records[addon].objects}
                continue
            manifests = await inputs.render(chart, values)
            rendered += await resolve(
                workload, manifests, default_namespace=ADDON_NAMESPACE, part_of=delivery.set_id(addon)
            )
        delivered = {known.id: known.digest for record in records.values() for known in record.objects}
        return await _difference(workload, delivered, kept, rendered)

    async def _release(self, context: UpgradeContext, name: ReleaseName) -> Release:
        """Open a release once; another Cluster that needs it waits for the same download."""
        if name not in self._opened:
            opening = _open(self.client, context, self.given, name, self.directory)
            self._opened[name] = asyncio.create_task(opening, name=f"opening of {name}")
        return await asyncio.shield(self._opened[name])


def _after(snapshot: ClusterSnapshot, step: Document) -> ClusterSnapshot:
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


async def _difference(
    workload: Client, delivered: dict[ObjectId, str], kept: set[ObjectId], rendered: Sequence[ApplyTarget]
) -> Document:
    from clusterstacks.runtime.concurrency import gather

    new = [target for target in rendered if target.id not in delivered]
    other = [target for target in rendered if target.id in delivered and delivered[target.id] != target.digest]

    async def dry_run(target: ApplyTarget) -> tuple[bool, str]:
        return await _dry_run(workload, target)

    answers = await gather(dry_run, other)
    names = {
        "created": sorted(str(target.id) for target in new),
        "changed": sorted(str(target.id) for target, (changed, _) in zip(other, answers, strict=True) if changed),
        "removed": sorted(map(str, delivered.keys() - kept - {target.id for target in rendered})),
    }
    refused = sorted(refusal for _, refusal in answers if refusal)
    return {**{change: len(names[change]) for change in names}, "names": names, "refused": refused}


async def _dry_run(workload: Client, target: ApplyTarget) -> tuple[bool, str]:
    """Return whether an apply would change an object, and why the API server refuses it; empty if it does not."""
    from clusterstacks.deliver.apply.messages import explain, raise_outage
    from clusterstacks.deliver.apply.ownership import FIELD_MANAGER

    if target.resource is None or target.new_kind:
        return True, target.refusal
    try:
        live = await workload.find(target.resource, target.id.name, target.id.namespace)
        applied = await workload.apply(
            target.resource, target.manifest, manager=FIELD_MANAGER, force=True, dry_run=True
        )
    except ClusterStacksError as error:
        await raise_outage(workload, error)
        return True, f"{target.id}: {explain(error, target, is_change=True)}"
    return live is None or _content(live) != _content(applied), ""


def _content(manifest: Manifest) -> Manifest:
    metadata = {key: value for key, value in manifest["metadata"].items() if key not in _SERVERS}
    return {**manifest, "metadata": metadata}


def print_refused(impact: Document) -> None:
    """Print the objects that the API server would refuse now."""
    for refusal in (impact["objects"] or {}).get("refused", ())[:SHOWN]:
        output.say_judged(ResultMark.BAD, f"refused now: {refusal}", indent=2)


def impact_summary(impact: Document) -> str:
    """Return the impact in one line: ``6 nodes roll, 31 objects change``."""
    parts, nodes, objects = [], sum(pool["nodes"] for pool in impact["nodes"]), impact["objects"]
    if impact["nodes"]:
        parts.append(f"{nodes} node{' rolls' if nodes == 1 else 's roll'}")
    if objects is None:
        parts.append(f"how many objects change is not known: {impact['unknown']}")
    else:
        count = objects["created"] + objects["changed"] + objects["removed"]
        parts.append(f"{count} object{' changes' if count == 1 else 's change'}")
    return ", ".join(parts)
