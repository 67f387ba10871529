"""Management clusters for the page of csctl ui: a healthy, an upgrading, a drifted and a refused Cluster, or many."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.model.files.compatibility import API_VERSION, parse_compatibility
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_NAME_LABEL,
    DIGEST_ANNOTATION,
    GROUP,
    SYNC_GROUP,
    Kind,
    addon_name,
)
from clusterstacks.model.names import parse_release
from clusterstacks.model.versions import KubernetesVersion, StackVersion
from clusterstacks.net.kube.resources import Resource
from clusterstacks.plan.clusters.cluster_tree import POOL_LABEL
from clusterstacks.plan.compat.release_facts import ReleaseFacts
from tests.support.fakes.api_server import FakeApi
from tests.support.fakes.management_cluster import KINDS

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

PROVIDER = "kaas"
OLD = "openstack-scs-1-35-v1"
NEW = "openstack-scs-1-36-v1"
VERSIONS = {OLD: "v1.35.4", NEW: "v1.36.1"}
ADDONS = {"cni": "1.17.0", "ccm": "1.35.0", "csi": "1.35.0"}

MORE_KINDS = (
    Resource(CLUSTER_API_GROUP, "v1beta2", "MachineDeployment", "machinedeployments", namespaced=True),
    Resource("", "v1", "Event", "events", namespaced=True),
    *(
        Resource(SYNC_GROUP, "v1alpha1", kind.value, f"{kind.lower()}s", namespaced=True)
        for kind in (Kind.CLUSTER_RESOURCE_SYNC, Kind.CLUSTER_RESOURCE_SYNC_BINDING)
    ),
)

OBJECT_DIFFERS = (
    "1 of 29 objects differs from what was delivered: Deployment kube-system/coredns: "
    "spec.replicas (changed by kubectl-edit); it is restored at the next sweep"
)


def management_cluster() -> FakeApi:
    """Return an empty management cluster with all kinds."""
    return FakeApi(*KINDS.values(), *MORE_KINDS)


class Fleet:
    """Writes objects into a management cluster as the operator and Cluster API leave them."""

    def __init__(self, api: FakeApi) -> None:
        self.api = api
        self.events = 0

    async def create(self, group: str, kind: str, name: str, namespace: str, **fields: Any) -> Manifest:
        resource = await self.api.resource(group, kind)
        metadata = {"name": name, "namespace": namespace, **fields.pop("metadata", {})}
        manifest = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata, **fields}
        return await self.api.create(resource, manifest, namespace)

    async def releases(self) -> None:
        """Create two stacks, each with a ready release; the cni of the first does not work with the next minor."""
        for release, version in VERSIONS.items():
            name = parse_release(release)
            minor = str(name.kubernetes)
            stack = f"scs-{minor.replace('.', '-')}"
            source = {"oci": {"repository": "registry.example.org/kaas/stacks"}}
            spec = {"provider": "openstack", "name": "scs", "kubernetesVersion": minor, "versions": ["v1"]}
            status = {"usableVersions": "v1", "conditions": [condition("Ready")]}
            await self.create(
                GROUP,
                Kind.CLUSTER_STACK,
                stack,
                PROVIDER,
                spec={**spec, "noProvider": True, "source": source},
                status=status,
            )
            await self.create(
                GROUP,
                Kind.CLUSTER_STACK_RELEASE,
                release,
                PROVIDER,
                metadata={
                    "annotations": {DIGEST_ANNOTATION: "sha256:1"},
                    "ownerReferences": [
                        {"apiVersion": f"{GROUP}/v1alpha1", "kind": "ClusterStack", "name": stack, "uid": "1"}
                    ],
                },
                status={
                    "ready": True,
                    "kubernetesVersion": version,
                    "digest": "sha256:1",
                    "facts": release_facts(release),
                    "conditions": [condition("Ready")],
                },
            )

    async def cluster(
        self,
        name: str,
        *,
        wanted: str = OLD,
        running: str = "v1.35.4",
        labels: dict[str, str] | None = None,
        **addon: Any,
    ) -> None:
        """Create a Cluster with its ClusterAddon, a pool and two Machines.

        Args:
            name: Namespace and name.
            wanted: The release of its class.
            running: The Kubernetes version of its nodes.
            labels: Of the Cluster.
            addon: Fields of the status of the ClusterAddon.
        """
        namespace, own = name.split("/")
        class_name = parse_release(wanted).class_name
        version = VERSIONS[wanted]
        available = [{"type": "Available", "status": "True", "reason": "Available", "lastTransitionTime": ago(hours=3)}]
        await self.create(
            CLUSTER_API_GROUP,
            "Cluster",
            own,
            namespace,
            metadata={"labels": labels or {}},
            spec={"topology": {"classRef": {"name": class_name, "namespace": PROVIDER}, "version": version}},
            status={
                "initialization": {"controlPlaneInitialized": True},
                "controlPlane": {"versions": [{"version": running}]},
                "workers": {"versions": [{"version": running}]},
                "conditions": available,
            },
        )
        delivered = [{"name": one, "release": OLD, "version": version, "objects": 9} for one, version in ADDONS.items()]
        status = {"ready": True, "addons": delivered, "conditions": conditions(), **addon}
        await self.create(
            GROUP,
            Kind.CLUSTER_ADDON,
            addon_name(own),
            namespace,
            spec={"clusterRef": {"name": own}, "clusterStack": parse_release(OLD).class_name},
            status=status,
        )
        await self._workers(namespace, own, running, version)

    async def plain_cluster(self, name: str) -> None:
        """Create a Cluster without a topology, and so without a cluster stack, with one MachineDeployment."""
        namespace, own = name.split("/")
        status = {
            "initialization": {"controlPlaneInitialized": True},
            "controlPlane": {"versions": [{"version": "v1.35.4"}]},
            "conditions": [condition("Available")],
        }
        await self.create(CLUSTER_API_GROUP, "Cluster", own, namespace, spec={}, status=status)
        labels = {CLUSTER_NAME_LABEL: own}
        spec = {"clusterName": own, "replicas": 1, "template": {"spec": {"version": "v1.35.4"}}}
        fields = {"spec": spec, "status": {"availableReplicas": 1, "upToDateReplicas": 1}}
        await self.create(
            CLUSTER_API_GROUP, "MachineDeployment", "md", namespace, metadata={"labels": labels}, **fields
        )
        machine = {"spec": {"clusterName": own, "version": "v1.35.4"}, "status": {"phase": "Running"}}
        of_pool = {**labels, "cluster.x-k8s.io/deployment-name": "md"}
        await self.create(CLUSTER_API_GROUP, "Machine", "md-1", namespace, metadata={"labels": of_pool}, **machine)
        await self.create(CLUSTER_API_GROUP, "Machine", "cp-1", namespace, metadata={"labels": labels}, **machine)

    async def sync(self, name: str, ready: Manifest) -> None:
        """Create a ClusterResourceSync with its condition Ready."""
        namespace, own = name.split("/")
        spec = {"resources": [{"kind": "Secret", "name": own}]}
        await self.create(
            SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC, own, namespace, spec=spec, status={"conditions": [ready]}
        )

    async def binding(
        self,
        cluster: str,
        sync: str,
        *changed: Manifest,
        owner: str = Kind.CLUSTER_RESOURCE_SYNC,
        **status: Any,
    ) -> None:
        """Create the binding of a sync and a Cluster, with one object.

        Args:
            cluster: Namespace and name of the Cluster.
            sync: Name of the sync.
            changed: The conditions that are not True.
            owner: The kind of the object that the binding is of.
            status: Fields of the status.
        """
        namespace, own = cluster.split("/")
        known = {one["type"]: one for one in (condition("Ready"), condition("InSync"), *changed)}
        resources = [{"kind": "Secret", "namespace": "kube-system", "name": sync, "status": "synced"}]
        metadata = {
            "labels": {CLUSTER_NAME_LABEL: own},
            "ownerReferences": [{"kind": "Cluster", "name": own}, {"kind": owner, "name": sync}],
        }
        await self.create(
            SYNC_GROUP,
            Kind.CLUSTER_RESOURCE_SYNC_BINDING,
            f"{sync}.{own}",
            namespace,
            metadata=metadata,
            spec={"syncName": sync, "clusterName": own},
            status={"ready": True, "resources": resources, "conditions": [*known.values()], **status},
        )

    async def _workers(self, namespace: str, name: str, running: str, version: str) -> None:
        labels = {CLUSTER_NAME_LABEL: name, POOL_LABEL: "pool"}
        spec = {"clusterName": name, "replicas": 2, "template": {"spec": {"version": version}}}
        status = {"availableReplicas": 2, "upToDateReplicas": 2 if running == version else 0}
        fields = {"metadata": {"labels": labels}, "spec": spec, "status": status}
        await self.create(CLUSTER_API_GROUP, "MachineDeployment", f"{name}-pool", namespace, **fields)
        for number in (1, 2):
            await self.create(
                CLUSTER_API_GROUP,
                "Machine",
                f"{name}-pool-{number}",
                namespace,
                metadata={"labels": labels},
                spec={"clusterName": name, "version": running},
                status={"phase": "Running"},
            )

    async def set_condition(self, name: str, changed: Manifest) -> None:
        """Replace a condition of the ClusterAddon of a Cluster."""
        namespace, own = name.split("/")
        resource = await self.api.resource(GROUP, Kind.CLUSTER_ADDON)
        addon = await self.api.get(resource, addon_name(own), namespace)
        others = [one for one in addon["status"]["conditions"] if one["type"] != changed["type"]]
        await self.api.merge_patch(resource, addon_name(own), {"status": {"conditions": [*others, changed]}}, namespace)

    async def event(self, namespace: str, subject: str, **fields: Any) -> None:
        """Create an event.

        Args:
            namespace: Its namespace, and that of the object.
            subject: Kind and name of the object.
            fields: Other fields of the event.
        """
        kind, name = subject.split("/")
        self.events += 1
        about = {"kind": kind, "name": name, "namespace": namespace}
        fields = {"type": "Normal", "lastTimestamp": ago(), **fields, "involvedObject": about}
        await self.create("", "Event", f"{name}.{self.events:x}", namespace, **fields)

    async def examples(self) -> None:
        """Create the releases, and a healthy, an upgrading and a drifted Cluster, and one that may not be upgraded."""
        await self.releases()
        await self.cluster("team-a/healthy", history=[delivery()])
        await self.cluster("team-a/upgrading", wanted=NEW, **upgrading(), history=[running_upgrade(), delivery()])
        message = "upgrade from openstack-scs-1-35-v1 to openstack-scs-1-36-v1 began: stage 1 of 3"
        failing = "Deployment kube-system/cilium-operator is not available: 1 of 2 replicas"
        stage, version = {"reason": "StageStarted", "message": message}, {"reason": "TopologyVersion"}
        await self.event("team-a", "Cluster/upgrading", lastTimestamp=ago(minutes=5), **version, message="v1.36.1")
        await self.event("team-a", "ClusterAddon/cluster-addon-upgrading", lastTimestamp=ago(minutes=4), **stage)
        unhealthy = {"type": "Warning", "reason": "ObjectsInProgress", "message": failing}
        await self.event("team-a", "Cluster/upgrading", lastTimestamp=ago(minutes=2), **unhealthy)
        await self.event(PROVIDER, f"ClusterStackRelease/{NEW}", lastTimestamp=ago(minutes=9), reason="ReleaseReady")
        await self.cluster("team-b/drifted", conditions=conditions(InSync=drifted()))
        await self.cluster("team-b/refused")


def release_facts(release: str) -> str:
    """Return the facts in the status of a release."""
    first = release == OLD
    newest = "1.35.0" if first else "1.36.0"
    cilium = ("1.17.0", ">=1.33 <1.36") if first else ("1.18.0", ">=1.34 <1.37")
    components = [
        {"name": "cilium", "addon": "cni", "version": cilium[0], "kubernetes": cilium[1]},
        {"name": "openstack-cloud-controller-manager", "addon": "ccm", "version": newest},
        {"name": "cinder-csi", "addon": "csi", "version": newest},
    ]
    stated = {"apiVersion": API_VERSION, "kubernetes": ">=1.34 <1.37", "components": components}
    metadata = Metadata(StackVersion(1), KubernetesVersion.parse(VERSIONS[release]), StackVersion(1))
    return ReleaseFacts(metadata, parse_compatibility(stated, file="compatibility.yaml")).write()


def conditions(**changed: Manifest) -> list[Manifest]:
    """Return the conditions of a ClusterAddon, all True but for the given ones."""
    healthy = {
        "Ready": condition("Ready", ago(minutes=42)),
        "Healthy": condition("Healthy", ago(minutes=41)),
        "InSync": condition("InSync", ago(minutes=40)),
        "WithinRanges": condition("WithinRanges", ago(hours=5)),
    }
    return list({**healthy, **changed}.values())


def condition(kind: str, since: str = "", status: str = "True", **fields: str) -> Manifest:
    """Return a condition."""
    return {"type": kind, "status": status, "lastTransitionTime": since or ago(hours=5), **fields}


def drifted(message: str = OBJECT_DIFFERS) -> Manifest:
    """Return the condition of a Cluster with changed objects."""
    return condition("InSync", ago(minutes=12), "False", severity="Warning", reason="DriftFound", message=message)


def upgrading() -> Manifest:
    """Return the status of a ClusterAddon that holds an upgrade for its second stage."""
    message = "apply cni: Deployment kube-system/cilium-operator is not available: 1 of 2 replicas"
    waiting = condition("Ready", ago(minutes=4), "False", severity="Info", reason="ObjectsInProgress", message=message)
    hook = "BeforeClusterUpgrade"
    stages = [
        {"name": "ccm", "action": "apply", "phase": "done", "hook": hook},
        {"name": "cni", "action": "apply", "phase": "waiting for its health", "hook": hook},
        {"name": "csi", "action": "apply", "phase": "", "hook": "AfterClusterUpgrade"},
    ]
    hold = {"state": "Held", "version": VERSIONS[NEW], "since": ago(minutes=4)}
    return {"ready": False, "stages": stages, "upgradeHold": hold, "conditions": conditions(Ready=waiting)}


def delivery(**changed: Any) -> Manifest:
    """Return an entry of the history: the installation of the first release, but for the given fields."""
    objects = ["DaemonSet.apps kube-system/cilium", "Deployment.apps kube-system/cilium-operator"]
    return {
        "began": ago(hours=3),
        "ended": ago(hours=3, seconds=-48),
        "occasion": "Install",
        "release": OLD,
        "kubernetesVersion": VERSIONS[OLD],
        "stages": "3/3",
        "created": 27,
        "addons": [{"name": "cni", "created": 2, "createdObjects": objects}, {"name": "ccm", "created": 25}],
        "result": "Delivered",
        **changed,
    }


def running_upgrade() -> Manifest:
    """Return the entry of an upgrade that is not complete."""
    versions = {"fromKubernetesVersion": VERSIONS[OLD], "kubernetesVersion": VERSIONS[NEW]}
    upgrade = {"occasion": "Upgrade", "fromRelease": OLD, "release": NEW, "stages": "1/3", "result": "Running"}
    changes = {"created": 0, "changed": 4, "unchanged": 5, "addons": [{"name": "ccm", "changed": 4}]}
    return delivery(began=ago(minutes=5), ended="", **versions, **upgrade, **changes)


def ago(**parts: float) -> str:
    """Return a time in the past (RFC 3339)."""
    return (datetime.now(UTC) - timedelta(**parts)).strftime("%Y-%m-%dT%H:%M:%SZ")
