"""Reads the snapshot of a ClusterAddon's reconcile: the Cluster, what it refers to, and its releases."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mapping
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.addon_annotations import AddonReleaseRefused, RequestedReleases, read_requested_releases
from clusterstacks.model.kinds.cluster_conditions import ConditionView, condition_view
from clusterstacks.model.kinds.clusterapi import ClusterView, ObjectRef, cluster_view, reported_versions, root_objects
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    DIGEST_ANNOTATION,
    GROUP,
    Kind,
    Reason,
    ReleaseCondition,
)
from clusterstacks.model.names import ReleaseName, parse_release
from clusterstacks.model.versions import InvalidVersion, KubernetesMinor, KubernetesVersion
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.class_usage import release_of
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import UpgradeState
from clusterstacks.release.sources.verified_content import VerifiedContent, changed_pin
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from clusterstacks.model.kinds.clusterapi import ObjectRef
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.operator.controllers.object_reader import Reader

CONTRACT_LABELS: Final = (f"{CLUSTER_API_GROUP}/v1beta2", f"{CLUSTER_API_GROUP}/v1beta1")
"""On the CustomResourceDefinition of every kind that Cluster API accepts in a Cluster's references. Source:
https://cluster-api.sigs.k8s.io/developer/providers/contracts/overview.html#api-version-labels"""

REMEMBER = timedelta(minutes=10)
"""Cache time of a kind with a label. Arbitrary: no upgrade removes the label."""

REMEMBER_MISSING = timedelta(seconds=60)
"""Cache time of a kind without a label, as in discovery for a missing version."""


class ReferenceNotAllowed(SpecError):
    """A Cluster refers to an object that may not be read."""

    def __init__(self, message: str) -> None:
        super().__init__("ReferenceNotAllowed", message)


@dataclass(slots=True)
class ContractKinds:
    """Reads the labels of CustomResourceDefinitions, one request per kind every few minutes."""

    client: Client
    monotonic: Callable[[], float] = time.monotonic
    _known: dict[tuple[str, str], tuple[bool, float]] = field(default_factory=dict)
    _asked: dict[tuple[str, str], asyncio.Task[bool]] = field(default_factory=dict)

    async def check(self, resource: Resource, title: str) -> None:
        """Check that the definition of a kind has a contract label; ``title`` names the reference in the message.

        Raises ReferenceNotAllowed if the label is missing, or no CustomResourceDefinition defines the kind.
        """
        if not resource.group or not await self._follows(resource):
            raise ReferenceNotAllowed(
                f"{title} is not read: the CustomResourceDefinition of kind {resource} has no label "
                f"{' or '.join(CONTRACT_LABELS)}; name an object of a Cluster API provider, or have the provider "
                "label its CustomResourceDefinition"
            )

    async def _follows(self, resource: Resource) -> bool:
        kind = (resource.group, resource.kind)
        follows, until = self._known.get(kind, (False, float("-inf")))
        if self.monotonic() < until:
            return follows
        # Concurrent checks, which there are after a restart, share one request.
        asked = self._asked.get(kind) or self._asked.setdefault(kind, asyncio.create_task(self._is_labelled(resource)))
        try:
            follows = await asyncio.shield(asked)
        finally:
            if asked.done():
                self._asked.pop(kind, None)
        remembered = REMEMBER if follows else REMEMBER_MISSING
        self._known[kind] = (follows, self.monotonic() + remembered.total_seconds())
        return follows

    async def _is_labelled(self, resource: Resource) -> bool:
        definitions = await self.client.resource("apiextensions.k8s.io", "CustomResourceDefinition")
        definition = await self.client.find_metadata(definitions, f"{resource.plural}.{resource.group}")
        labels = (definition or {"metadata": {}})["metadata"].get("labels") or {}
        return any(label in labels for label in CONTRACT_LABELS)


def check_namespace(reference: ObjectRef, namespace: str, title: str) -> None:
    """Check that a Cluster refers to an object of its own namespace, as Cluster API's webhook does."""
    if reference.namespace != namespace:
        raise ReferenceNotAllowed(
            f"{title} is not read: it names namespace {reference.namespace}, but only objects of the Cluster's own "
            f"namespace {namespace} are read; remove the namespace"
        )


UPGRADE_DEFERRED: Final = {"MachineDeploymentsUpgradeDeferred", "MachinePoolsUpgradeDeferred"}
"""Reasons of TopologyReconciled while an annotation of the topology, for example ``defer-upgrade``, holds a pool back.
Source: sigs.k8s.io/cluster-api, ClusterTopologyReconciled...UpgradeDeferredReason."""

CONTROL_PLANE_REF: Final = "spec.controlPlaneRef"
INFRASTRUCTURE_REF: Final = "spec.infrastructureRef"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSnapshot:
    """The state of a Cluster at the beginning of a reconcile."""

    cluster: ClusterView
    release: ReleaseName
    """The release of its class."""
    release_object: Manifest | None
    """The ClusterStackRelease; None while it does not exist."""
    requested: RequestedReleases
    refusal: AddonReleaseRefused | None
    """Why the annotations are not valid; None when they are."""
    unread: ReferenceNotAllowed | None
    """Why the control plane or the infrastructure object may not be read; None when both may."""
    other_releases: Mapping[ReleaseName, Manifest | None]
    """Other ClusterStackReleases that addons come from; None for missing ones."""
    upgrade: UpgradeState
    data: dict[str, Manifest]

    @property
    def generation(self) -> int:
        """``metadata.generation`` of the Cluster; 0 without it."""
        return int(self.cluster.raw["metadata"].get("generation", 0))

    @property
    def digest(self) -> str:
        """The pinned digests of all releases that addons come from; that of the class is the first."""
        others = [f"{name}={_digest(self.other_releases[name])}" for name in sorted(self.other_releases)]
        return "+".join([_digest(self.release_object), *others])

    @property
    def objects(self) -> dict[ReleaseName, Manifest | None]:
        """The ClusterStackReleases of all releases that addons come from."""
        return {self.release: self.release_object, **self.other_releases}

    @property
    def release_missing(self) -> str:
        """Describe a release that was not downloaded, or whose pin was changed since; empty when all can be used."""
        missing = [
            (name, release) for name, release in self.objects.items() if not _digest(release) or _changed_pin(release)
        ]
        if not missing:
            return ""
        name, manifest = missing[0]
        title = f"ClusterStackRelease {self.cluster.class_namespace}/{name}"
        used = (
            f"class {self.cluster.class_name} comes"
            if name == self.release
            else "the Cluster's annotations take addons"
        )
        if manifest is None:
            return f"{title}, which {used} from, does not exist: check that a ClusterStack's source has the release"
        if changed := _changed_pin(manifest):
            return f"{title}, which {used} from: {changed}"
        why = condition_view(manifest, "Ready").message
        return f"{title}, which {used} from, has not been downloaded{why and f': {why}'}"

    @property
    def unproven(self) -> ConditionView | None:
        """The condition of a release that lacks a trusted signature or the evidence of a stage; None without one."""
        refusing = (Reason.SIGNATURE_REQUIRED, Reason.SIGNATURES_UNCLEAR, Reason.EVIDENCE_REQUIRED)
        for manifest in self.objects.values():
            for kind in (ReleaseCondition.SIGNATURE_VERIFIED, ReleaseCondition.STAGES_PASSED):
                condition = condition_view(manifest or {}, kind)
                if condition.false and condition.reason in refusing:
                    return condition
        return None

    @property
    def running(self) -> KubernetesVersion:
        """The oldest version the control plane reports; the wanted one while it reports none."""
        return min(self.upgrade.control_plane, default=self.upgrade.wanted)

    def reached(self, version: str) -> str:
        """Return the version of the Cluster's spec if ``version`` reaches it or is not valid, otherwise ``version``."""
        wanted = self.upgrade.wanted
        return version if any(not known.reaches(wanted) for known in _parsed([version])) else wanted.text

    @property
    def minor(self) -> KubernetesMinor:
        """The Kubernetes minor that addons are rendered for."""
        return self.running.series


async def read_snapshot(reader: Reader, key: ObjectKey, contracts: ContractKinds) -> ClusterSnapshot | None:
    """Read a Cluster and what its addons depend on; ``contracts`` says which kinds it may refer to.

    Returns None when the Cluster does not exist, has no topology, or its class is not a valid cluster stack's.
    """
    clusters = await reader.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    manifest = await reader.find(clusters, key.name, key.namespace)
    if manifest is None:
        return None
    cluster = cluster_view(manifest)
    release_key = release_of(cluster)
    if release_key is None:
        return None
    releases = await reader.resource(GROUP, Kind.CLUSTER_STACK_RELEASE)
    name = parse_release(release_key.name)
    requested, refusal = _requested(cluster, name)
    names = [name, *(release for release in requested.releases() if release != name)]
    referenced = _References(reader, contracts, cluster.namespace)
    control_plane, infrastructure, release_object, *other_releases = await gather(
        lambda read: read(),
        (
            partial(referenced.read, CONTROL_PLANE_REF, cluster.control_plane_ref),
            partial(referenced.read, INFRASTRUCTURE_REF, cluster.infrastructure_ref),
            *(partial(reader.find, releases, release.release, release_key.namespace) for release in names),
        ),
    )
    return ClusterSnapshot(
        cluster=cluster,
        release=name,
        release_object=release_object,
        requested=requested,
        refusal=refusal,
        unread=referenced.refused,
        other_releases=dict(zip(names[1:], other_releases, strict=True)),
        upgrade=upgrade_state(cluster, control_plane),
        data=root_objects(manifest, control_plane, infrastructure),
    )


def _requested(cluster: ClusterView, own: ReleaseName) -> tuple[RequestedReleases, AddonReleaseRefused | None]:
    """Read the annotations; invalid ones must not block the deletion of a ClusterAddon."""
    try:
        return read_requested_releases(cluster.annotations, own), None
    except AddonReleaseRefused as error:
        return RequestedReleases(own, {}), error


def _digest(release: Manifest | None) -> str:
    metadata = (release or {}).get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(DIGEST_ANNOTATION, ""))


def _changed_pin(release: Manifest | None) -> str:
    return changed_pin(_digest(release), VerifiedContent.of(mapping(release or {}, "status")))


@dataclass(slots=True)
class _References:
    """Reads the objects that a Cluster refers to; a refusal is only noted, because it must not block a deletion."""

    reader: Reader
    contracts: ContractKinds
    namespace: str
    _refusals: dict[str, ReferenceNotAllowed] = field(default_factory=dict)

    @property
    def refused(self) -> ReferenceNotAllowed | None:
        """The refusal; that of the control plane is first, so that the choice does not depend on timing."""
        return self._refusals.get(CONTROL_PLANE_REF) or self._refusals.get(INFRASTRUCTURE_REF)

    async def read(self, where: str, reference: ObjectRef | None) -> Manifest | None:
        if reference is None:
            return None
        title = f"{where} ({reference.kind} {reference.namespace}/{reference.name})"
        try:
            check_namespace(reference, self.namespace, title)
            resource = await self.reader.resource(reference.group, reference.kind, reference.version)
            await self.contracts.check(resource, title)
        except KindNotServed:
            return None
        except ReferenceNotAllowed as error:
            self._refusals[where] = error
            return None
        return await self.reader.find(resource, reference.name, reference.namespace)


async def read_control_plane(reader: Reader, cluster: ClusterView, contracts: ContractKinds) -> Manifest | None:
    """Read the control plane object of a Cluster; None if it does not exist, or may not be read."""
    return await _References(reader, contracts, cluster.namespace).read(CONTROL_PLANE_REF, cluster.control_plane_ref)


def upgrade_state(cluster: ClusterView, control_plane: Manifest | None) -> UpgradeState:
    """Read the state of a Cluster's upgrade; before Cluster API 1.14 only its control plane object has the version."""
    topology = cluster.topology_reconciled
    return UpgradeState(
        control_plane=_parsed(cluster.control_plane_versions or reported_versions(control_plane or {})),
        workers=_parsed(cluster.worker_versions),
        outdated=cluster.outdated_workers,
        wanted=KubernetesVersion.parse(cluster.version),
        # Right after a change of the class the condition still describes the previous class.
        topology_reconciled=topology.true and topology.current,
        deferred=topology.reason in UPGRADE_DEFERRED,
    )


def _parsed(versions: Iterable[str]) -> tuple[KubernetesVersion, ...]:
    parsed = []
    for version in versions:
        with contextlib.suppress(InvalidVersion):
            parsed.append(KubernetesVersion.parse(version))
    return tuple(parsed)
