"""Reads, writes and summarises the ClusterStackReleases of a ClusterStack."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Condition, from_documents
from clusterstacks.model.kinds.clusterapi import is_paused
from clusterstacks.model.kinds.clusterstack import ReleaseSummary
from clusterstacks.model.kinds.names import (
    API_VERSION,
    CLUSTER_API_GROUP,
    CLUSTER_CLASS_KIND,
    GROUP,
    READY_CONDITION,
    RELEASE_FINALIZER,
    WATCH_FILTER_LABEL,
    EventReason,
    Kind,
    ReleaseCondition,
    ReleasePhase,
)
from clusterstacks.model.names import release_named
from clusterstacks.model.objects import Manifest, ObjectKey, contains
from clusterstacks.net.kube.errors import AlreadyExists, NotFound
from clusterstacks.operator.controllers.clusterstack.retention import ExistingRelease
from clusterstacks.operator.controllers.clusterstackrelease.deletion import clusters_using
from clusterstacks.release.sources.owners import STACK_INDEX, is_stack, stacks_owning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.kinds.clusterstack import ClusterStack
    from clusterstacks.model.kinds.meta import ObjectReference
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusterstack.retention import Retained, Retention
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.informer import Informer

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedReleases:
    """ClusterStackReleases of a ClusterStack, read from the informer's cache and written with the client."""

    client: Client
    informer: Informer
    events: EventRecorder

    def of(self, stack: ClusterStack) -> list[Manifest]:
        """Return the ClusterStackReleases that have the stack as an owner."""
        return self.informer.cache.by_index(STACK_INDEX, str(stack.key))

    def existing(self, stack: ClusterStack) -> list[ExistingRelease]:
        """Return the releases of a stack as ``decide_retention`` needs them."""
        return [
            ExistingRelease(
                name=release["metadata"]["name"],
                ready=(release.get("status") or {}).get("ready") is True,
                deleting="deletionTimestamp" in release["metadata"],
            )
            for release in self.of(stack)
        ]

    def led_by_another(self, stack: ClusterStack, name: str) -> bool:
        """Return whether another stack is the first owner of the release, and therefore owns its provider object."""
        existing = self.informer.cache.get(ObjectKey(stack.key.namespace, name))
        owners = stacks_owning(existing) if existing else []
        return bool(owners) and owners[0] != str(stack.key)

    async def ensure(self, stack: Manifest, kept: Retained, provider: ObjectReference | None) -> None:
        """Create the release, or update its reference to its provider object (None without a provider)."""
        namespace = stack["metadata"]["namespace"]
        reference = provider.document() if provider else None
        existing = self.informer.cache.get(ObjectKey(namespace, kept.name))
        resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
        if existing is None:
            spec = {"providerRef": reference} if reference else {}
            try:
                created = await self.client.create(resource, _release(stack, kept.name, spec), namespace)
            except AlreadyExists:
                return  # the cache has not seen it yet
            self.informer.written(created)
            message = f"created ClusterStackRelease {namespace}/{kept.name}: {', '.join(kept.reasons)}"
            await self.events.record(stack, "Normal", EventReason.RELEASE_CREATED, message)
            return
        await self.join(stack, kept)
        if not contains((existing.get("spec") or {}).get("providerRef"), reference):
            await self.client.merge_patch(resource, kept.name, {"spec": {"providerRef": reference}}, namespace)

    async def join(self, stack: Manifest, kept: Retained) -> None:
        """Add the stack to the owners of an existing release, which another stack may need as well."""
        key = ObjectKey(stack["metadata"]["namespace"], stack["metadata"]["name"])
        existing = self.informer.cache.get(ObjectKey(key.namespace, kept.name))
        if existing is not None and str(key) not in stacks_owning(existing):
            await self._own(existing, [*(existing["metadata"].get("ownerReferences") or []), _owner(stack)])

    async def delete(self, stack: Manifest, spare: Retained) -> None:
        """Delete a release that this stack does not need; if another stack owns it, only remove this owner.

        It is kept while a Cluster names it, which is read live because the stores may lag or contain one namespace
        only, and while its class is paused: ``clusterctl move`` pauses it and creates the Clusters a moment later.
        """
        key = ObjectKey(stack["metadata"]["namespace"], stack["metadata"]["name"])
        namespace = key.namespace
        existing = self.informer.cache.get(ObjectKey(namespace, spare.name))
        if existing is None or spare.release is None:
            return
        if stacks_owning(existing) != [str(key)]:
            references = existing["metadata"]["ownerReferences"]
            await self._own(existing, [owner for owner in references if not is_stack(owner, key.name)])
            return
        if await self._is_held(spare.release, namespace):
            return
        resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
        try:
            await self.client.delete(resource, spare.name, namespace, uid=existing["metadata"]["uid"])
        except NotFound:
            return
        message = f"deleted ClusterStackRelease {namespace}/{spare.name}: {', '.join(spare.reasons)}"
        log.info("ClusterStack %s %s", key, message)
        await self.events.record(stack, "Normal", EventReason.RELEASE_DELETED, message)

    async def _is_held(self, release: ReleaseName, namespace: str) -> bool:
        classes = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_CLASS_KIND)
        cluster_class = await self.client.find(classes, release.class_name, namespace)
        if cluster_class is not None and is_paused(cluster_class):
            return True
        return bool(await clusters_using(self.client, release, namespace))

    async def _own(self, release: Manifest, owners: list[Manifest]) -> None:
        metadata = release["metadata"]
        resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "ownerReferences": owners}}
        await self.client.merge_patch(resource, metadata["name"], patch, metadata["namespace"])


def _owner(stack: Manifest) -> Manifest:
    metadata = stack["metadata"]
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_STACK.value,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _release(stack: Manifest, name: str, spec: Manifest) -> Manifest:
    metadata = stack["metadata"]
    labels = {key: value for key, value in (metadata.get("labels") or {}).items() if key == WATCH_FILTER_LABEL}
    return {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_STACK_RELEASE.value,
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "finalizers": [RELEASE_FINALIZER],
            "ownerReferences": [_owner(stack)],
            **({"labels": labels} if labels else {}),
        },
        "spec": spec,
    }


def summarise(patch: StatusPatch, releases: Sequence[Manifest], decision: Retention) -> None:
    """Set summary, latest release and usable versions in the status."""
    patch.status["summary"] = [
        _summary(release).document()
        for release in sorted(releases, key=lambda release: str(release["metadata"]["name"]))
    ]
    patch.status["usableVersions"] = ", ".join(version.dot for version in decision.usable)
    patch.status["latestRelease"] = _latest(releases, decision)


def _latest(releases: Sequence[Manifest], decision: Retention) -> str:
    """Return ``<class name> | <Kubernetes version>`` of the newest ready release; empty when there is none."""
    latest = decision.latest_ready
    if latest is None:
        return ""
    for release in releases:
        if release["metadata"]["name"] == latest.release:
            return f"{latest.class_name} | {(release.get('status') or {}).get('kubernetesVersion', '')}"
    return ""


def _summary(release: Manifest) -> ReleaseSummary:
    name = release["metadata"]["name"]
    parsed = release_named(name)
    shown = parsed.version.dot if parsed is not None else name  # as users write it in spec.versions
    status = release.get("status") or {}
    conditions = {condition.type: condition for condition in from_documents(status.get("conditions"))}
    ready = status.get("ready") is True
    message = "" if ready else _message(conditions)
    return ReleaseSummary(name=shown, ready=ready, phase=_phase(conditions, ready=ready), message=message)


def _phase(conditions: dict[str, Condition], *, ready: bool) -> ReleasePhase:
    def lacks(kind: ReleaseCondition) -> bool:
        return kind in conditions and conditions[kind].status != "True"

    if ready:
        return ReleasePhase.DONE
    if ReleaseCondition.DOWNLOADED not in conditions or lacks(ReleaseCondition.DOWNLOADED):
        return ReleasePhase.DOWNLOADING
    return ReleasePhase.PROVIDER_WORK if lacks(ReleaseCondition.PROVIDER_READY) else ReleasePhase.APPLYING


def _message(conditions: dict[str, Condition]) -> str:
    ready = conditions.get(READY_CONDITION)
    return ready.message if ready is not None else ""
