"""Finds out what a plan changes: the nodes that are replaced, and the objects in the workload cluster, step by step."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.management_objects import ObjectQuery, read_all
from clusterstacks.csctl.shared.terminal import ResultMark, counting
from clusterstacks.deliver.render.values_document import merge_values
from clusterstacks.model.documents import and_more, at, mapping, text
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_NAME_LABEL

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from clusterstacks.deliver.apply.delivery import Delivery
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.release.release import Release

    Document = dict[str, Any]

COMPARISON_SECONDS: Final = 60.0
"""Time limit of the comparison of objects (arbitrary: a person waits for it)."""

SHOWN: Final = 5
"""Pools, and refused objects of a step, that are printed (arbitrary); -o json has all."""

_SERVERS: Final = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")
"""Metadata that differs between an object and the dry run of its apply without a change of its content."""


async def add_impact(client: Client, context: UpgradeContext, steps: Sequence[Document], releases: Path | None) -> None:
    """Add ``impact`` to each step of a plan's document: ``nodes``, ``objects`` and ``unknown``.

    ``objects`` has the numbers of objects that are created, changed and removed, and the messages of the API server
    about those that it refuses now; it is None where they are not known, and ``unknown`` says why. Nothing is changed.

    Raises:
        DependencyError: The management cluster does not answer.
    """
    nodes = await _nodes(client, context)
    for step in steps:
        rolls = [pool for pool in nodes if step["kind"] != "addon" and (step["kind"] != "workers" or not pool["main"])]
        shown = [{key: value for key, value in pool.items() if key != "main"} for pool in rolls]
        step["impact"] = {"nodes": shown, "objects": None, "unknown": None}
    changing = [step for step in steps if step["patch"] is not None]
    found, why = 0, ""
    report = output.progress()
    try:
        with counting(report, shows=not output.SETTINGS.quiet):
            async with asyncio.timeout(COMPARISON_SECONDS):
                async for objects in _changes(client, context, changing, releases):
                    changing[found]["impact"]["objects"] = objects
                    found += 1
    except TimeoutError:
        why = f"the comparison took longer than {COMPARISON_SECONDS:g} s"
    except ClusterStacksError as error:
        why = error.message
    for step in changing[found:]:
        step["impact"]["unknown"] = why


async def rolling_nodes(client: Client, context: UpgradeContext, steps: Sequence[Document]) -> int:
    """Return how many nodes the steps of a plan replace, each counted once."""
    rolls = any(step["kind"] != "addon" for step in steps)
    return sum(pool["nodes"] for pool in await _nodes(client, context)) if rolls else 0


async def _nodes(client: Client, context: UpgradeContext) -> list[Document]:
    """Return the control plane and the pools of workers, with the number of their nodes."""
    view = context.cluster.view
    labels = f"{CLUSTER_NAME_LABEL}={view.name}"
    kinds = ("MachineDeployment", "MachinePool")
    queries = [
        ObjectQuery(CLUSTER_API_GROUP, kind, view.namespace, labels, consequence="its nodes are not counted")
        for kind in kinds
    ]
    workers = await read_all(client, queries)
    wanted = at(view.raw, "spec", "topology", "controlPlane", "replicas")
    main = at(view.raw, "status", "controlPlane", "replicas") or wanted or 0
    found = [{"kind": "ControlPlane", "name": view.name, "nodes": main, "main": True}]
    return found + [
        {
            "kind": kind,
            "name": text(pool, "metadata", "name"),
            "nodes": at(pool, "spec", "replicas") or 0,
            "main": False,
        }
        for kind, pools in zip(kinds, workers, strict=True)
        for pool in pools or ()
    ]


@dataclass(slots=True)
class _Objects:
    """The objects of an addon: the digest of the inputs they are rendered from, and their own digests."""

    inputs: str = ""
    digests: Mapping[ObjectId, str] = field(default_factory=dict)


async def _changes(
    client: Client, context: UpgradeContext, steps: Sequence[Document], releases: Path | None
) -> AsyncIterator[Document]:
    """Yield the change of the objects for each step, compared with the step before, at first with the records."""
    from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner
    from clusterstacks.deliver.render.renderer import ADDON_NAMESPACE, Renderer
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds, read_snapshot
    from clusterstacks.operator.controllers.workload_clients import Workloads

    key = context.cluster.view.key
    async with AsyncExitStack() as resources:
        workload = await (await resources.enter_async_context(Workloads(client))).connect(key)
        snapshot = await read_snapshot(client, key, ContractKinds(client))
        if snapshot is None:
            raise SpecError("ClusterNotFound", f"Cluster {key} does not exist any more")
        delivery = Delivery(workload, RecordOwner(key))
        records = await delivery.records()
        here = {
            addon: _Objects(record.inputs, {known.id: known.digest for known in record.objects})
            for addon, record in records.items()
        }
        renderer = Renderer()
        resources.push_async_callback(renderer.close)
        directory = Path(resources.enter_context(TemporaryDirectory(prefix="csctl-")))
        opened = _Releases(client, context, releases, directory)
        for step in steps:
            snapshot = _after(snapshot, step)
            inputs = await opened.inputs(snapshot, renderer)
            there, targets = await _rendered(inputs, here, workload, delivery, ADDON_NAMESPACE)
            yield await _difference(workload, _digests(here), _digests(there), targets)
            here = there


def _after(snapshot: ClusterSnapshot, step: Document) -> ClusterSnapshot:
    """Return the snapshot of a Cluster after a step.

    The control plane object has the version of the step; what else Cluster API writes to it is not known.
    """
    from clusterstacks.model.kinds.addon_annotations import read_requested_releases
    from clusterstacks.model.kinds.clusterapi import cluster_view, root_objects
    from clusterstacks.model.names import parse_class
    from clusterstacks.model.versions import KubernetesVersion

    patched: Manifest = merge_values(snapshot.cluster.raw, step["patch"])
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


@dataclass(frozen=True, slots=True)
class _Releases:
    """Opens releases: from ``given``, or downloaded to ``directory`` with the rights of the user."""

    client: Client
    context: UpgradeContext
    given: Path | None
    directory: Path
    known: dict[ReleaseName, Release] = field(default_factory=dict)

    async def inputs(self, snapshot: ClusterSnapshot, renderer: Renderer) -> AddonInputs:
        """Return the inputs of a Cluster's addons."""
        from clusterstacks.operator.controllers.clusteraddon.addon_inputs import AddonInputs, combine_releases

        own = await self._open(snapshot.release)
        named = [release for release in snapshot.requested.releases() if release != snapshot.release]
        others = {release: await self._open(release) for release in named}
        return AddonInputs(snapshot, combine_releases(own, others, snapshot.requested), renderer)

    async def _open(self, name: ReleaseName) -> Release:
        if name not in self.known:
            self.known[name] = await self._read(name)
        return self.known[name]

    async def _read(self, name: ReleaseName) -> Release:
        from clusterstacks.plan.clusters.candidates import opened_source
        from clusterstacks.release.open import open_directory
        from clusterstacks.release.sources.download_release import pull
        from clusterstacks.release.sources.source_opener import SecretReader, SourceOpener
        from clusterstacks.release.sources.stack_source import named_settings

        if self.given is not None and (self.given / name.release).is_dir():
            return await asyncio.to_thread(open_directory, self.given / name.release, name)
        settings = next(filter(None, map(named_settings, self.context.offered.of_series(name.kubernetes))), None)
        if settings is None or not settings.address.kind.is_remote:
            problem = f"only the operator can read release {name}, from its own source"
            raise SpecError("ReleaseUnknown", f"{problem}: give it with --releases DIR")
        opener = SourceOpener(secrets=SecretReader(self.client), release_dir=Path(os.devnull), environ=os.environ)
        async with opened_source(opener, settings) as source:
            return (await pull(source, name, self.directory)).release


async def _rendered(
    inputs: AddonInputs,
    here: Mapping[str, _Objects],
    workload: Client,
    delivery: Delivery,
    namespace: str,
) -> tuple[dict[str, _Objects], list[ApplyTarget]]:
    """Render the addons whose inputs changed; return all of them, and the objects that were rendered."""
    from clusterstacks.deliver.apply.targets import resolve

    config = inputs.releases.config
    there: dict[str, _Objects] = {}
    rendered: list[ApplyTarget] = []
    for addon in config.addons() if config is not None else inputs.releases.class_release.addons():
        if addon not in inputs.releases.release_of(addon).addons():  # only stages that delete it name it
            continue
        chart = inputs.chart(addon)
        values = await inputs.values(chart)
        digest = inputs.digest(chart, values)
        if addon in here and here[addon].inputs == digest:
            there[addon] = here[addon]
            continue
        manifests = await inputs.render(chart, values)
        targets = await resolve(workload, manifests, default_namespace=namespace, part_of=delivery.set_id(addon))
        there[addon] = _Objects(digest, {target.id: target.digest for target in targets})
        rendered += targets
    return there, rendered


def _digests(addons: Mapping[str, _Objects]) -> dict[ObjectId, str]:
    return {identity: digest for addon in addons.values() for identity, digest in addon.digests.items()}


async def _difference(
    workload: Client, here: Mapping[ObjectId, str], there: Mapping[ObjectId, str], targets: Sequence[ApplyTarget]
) -> Document:
    from clusterstacks.runtime.concurrency import gather

    new = [target for target in targets if target.id not in here]
    other = [target for target in targets if target.id in here and here[target.id] != target.digest]

    async def dry_run(target: ApplyTarget) -> tuple[bool, str]:
        return await _dry_run(workload, target)

    answers = await gather(dry_run, other)
    return {
        "created": len(new),
        "changed": sum(changed for changed, _ in answers),
        "removed": len(here.keys() - there.keys()),
        "refused": sorted(refusal for _, refusal in answers if refusal),
    }


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


def print_impact(step: Document) -> None:
    """Print the impact of a step below it."""
    impact, lines = step["impact"], []
    if impact["nodes"]:
        pools = [
            f"{pool['kind']} {pool['name']}{' ({nodes})'.format(**pool) if pool['nodes'] else ''}"
            for pool in impact["nodes"]
        ]
        lines.append(f"nodes: {sum(pool['nodes'] for pool in impact['nodes'])} roll: {and_more(pools, SHOWN)}")
    objects = impact["objects"]
    if objects is not None:
        parts = [f"{objects[change]} {change}" for change in ("created", "changed", "removed") if objects[change]]
        lines.append(f"objects: {', '.join(parts) or 'none changes'}")
    elif impact["unknown"]:
        lines.append(f"objects: not known: {impact['unknown']}")
    for line in lines:
        output.say(f"     {line}", wraps=True)
    for refusal in (objects or {}).get("refused", ())[:SHOWN]:
        output.say_judged(ResultMark.BAD, f"refused now: {refusal}", indent=5)


def impact_summary(steps: Sequence[Document]) -> str:
    """Return the impact of all steps in one line: ``6 nodes roll, 31 objects change``; empty for nothing known."""
    pools = {(pool["kind"], pool["name"]): pool["nodes"] for step in steps for pool in step["impact"]["nodes"]}
    counted = [step["impact"]["objects"] for step in steps if step["impact"]["objects"] is not None]
    unknown = any(step["impact"]["unknown"] for step in steps)
    objects = sum(found[change] for found in counted for change in ("created", "changed", "removed"))
    nodes = sum(pools.values())
    parts = [f"{nodes} node{' rolls' if nodes == 1 else 's roll'}"] if pools else []
    if counted or not unknown:
        least = "at least " if unknown else ""
        parts.append(f"{least}{objects} object{' changes' if objects == 1 else 's change'}")
    else:
        parts.append("how many objects change is not known")
    return ", ".join(parts)
