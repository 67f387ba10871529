"""Read-only views of Cluster API's Cluster and ClusterClass: one view for v1beta2 and v1beta1.

Sources: CLUSTER-API sections 1.2 to 1.4.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.kinds.cluster_conditions import ConditionView, condition_view
from clusterstacks.model.kinds.names import DELETE_FOR_MOVE_ANNOTATION, PAUSED_ANNOTATION, WATCH_FILTER_LABEL
from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey, split_api_version
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_REFERENCES = 64
"""Templates of one ClusterClass that are looked for. Arbitrary: a class has about five."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """An object that a Cluster refers to; the version is empty if the reference contains none (v1beta2)."""

    group: str
    kind: str
    namespace: str
    name: str
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """The fields read from a Cluster."""

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    class_name: str
    """Empty for a Cluster without topology."""
    class_namespace: str
    """The Cluster's own namespace if it names none for the class."""
    version: str
    """Kubernetes version of the topology, with the leading ``v``."""
    paused: bool
    """By the spec or by the annotation."""
    moving: bool
    """True if ``clusterctl move`` is about to delete it here, because it was copied elsewhere."""
    deleting: bool
    host: str
    port: int
    """0 while there is no endpoint; then ``host`` is empty."""
    control_plane_initialized: bool
    """True once the workload API server answered; never becomes false again."""
    infrastructure_provisioned: bool
    topology_reconciled: ConditionView
    control_plane_versions: tuple[str, ...]
    """Kubernetes versions that the control plane reports, several in a rollout; empty before Cluster API 1.14."""
    worker_versions: tuple[str, ...]
    """Kubernetes versions that the workers report; empty before Cluster API 1.14."""
    outdated_workers: int
    """Workers without the template of their pool; 0 before Cluster API 1.9 and with MachinePools, which may not count
    them."""
    rolling: bool
    """Cluster API replaces Machines, or is about to: some still have an earlier class or version."""
    control_plane_ref: ObjectRef | None
    infrastructure_ref: ObjectRef | None
    raw: Manifest = field(repr=False, compare=False)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name of the Cluster."""
        return ObjectKey(self.namespace, self.name)

    @property
    def class_key(self) -> ObjectKey:
        """Namespace and name of the class; meaningless if ``class_name`` is empty."""
        return ObjectKey(self.class_namespace, self.class_name)

    def owner_reference(self) -> Manifest:
        """Return the reference that makes the Cluster the owner of an object, in the version it is served in."""
        return {"apiVersion": self.raw["apiVersion"], "kind": self.raw["kind"], "name": self.name, "uid": self.uid}


@dataclass(frozen=True, slots=True)
class ClusterClassView:
    """A ClusterClass; ``cause`` says why it cannot be used, ``refused`` that waiting does not help."""

    name: str
    namespace: str
    cause: str
    refused: bool = False

    @property
    def ready(self) -> bool:
        """True if Clusters can use the class."""
        return not self.cause


def cluster_view(manifest: Manifest) -> ClusterView:
    """Read a Cluster in either API version; missing fields are empty, never an error."""
    namespace = text(manifest, "metadata", "namespace")
    class_name, class_namespace = class_of(manifest)
    return ClusterView(
        name=text(manifest, "metadata", "name"),
        namespace=namespace,
        uid=text(manifest, "metadata", "uid"),
        labels=mapping(manifest, "metadata", "labels"),
        annotations=mapping(manifest, "metadata", "annotations"),
        class_name=class_name,
        class_namespace=class_namespace,
        version=text(manifest, "spec", "topology", "version"),
        paused=is_paused(manifest),
        moving=is_moving(manifest),
        deleting=bool(at(manifest, "metadata", "deletionTimestamp")),
        host=text(manifest, "spec", "controlPlaneEndpoint", "host"),
        port=_port(at(manifest, "spec", "controlPlaneEndpoint", "port")),
        control_plane_initialized=_control_plane_initialized(manifest),
        infrastructure_provisioned=bool(
            at(manifest, "status", "initialization", "infrastructureProvisioned")
            or at(manifest, "status", "infrastructureReady")
        ),
        topology_reconciled=condition_view(manifest, "TopologyReconciled"),
        control_plane_versions=_versions(mappings(manifest, "status", "controlPlane", "versions"))
        or _versions(mappings(manifest, "status", "v1beta2", "controlPlane", "versions")),
        worker_versions=_versions(mappings(manifest, "status", "workers", "versions")),
        outdated_workers=_outdated_workers(manifest),
        rolling=_is_rolling(manifest),
        control_plane_ref=_reference(mapping(manifest, "spec", "controlPlaneRef"), namespace),
        infrastructure_ref=_reference(mapping(manifest, "spec", "infrastructureRef"), namespace),
        raw=manifest,
    )


def topology_variables(manifest: Manifest) -> dict[str, object]:
    """Return the values of the variables in a Cluster's topology, by name."""
    variables = mappings(manifest, "spec", "topology", "variables")
    return {text(variable, "name"): variable.get("value") for variable in variables}


def cluster_class_view(manifest: Manifest) -> ClusterClassView:
    """Read a ClusterClass: it is ready once its controller saw this generation and its variables are not refused."""
    name, namespace = text(manifest, "metadata", "name"), text(manifest, "metadata", "namespace")
    variables = condition_view(manifest, "VariablesReady", old_type="VariablesReconciled")
    cause = ""
    if at(manifest, "metadata", "generation") != at(manifest, "status", "observedGeneration"):
        cause = f"Cluster API has not processed ClusterClass {namespace}/{name} yet"
    elif variables.false:
        cause = f"the variables of ClusterClass {namespace}/{name} are refused: {variables.message or variables.reason}"
    return ClusterClassView(name, namespace, cause, refused=variables.false)


def class_versions(cluster_class: Manifest) -> tuple[KubernetesVersion, ...]:
    """Return the versions in ``spec.kubernetesVersions`` of a ClusterClass, oldest first; others are left out."""
    listed, versions = at(cluster_class, "spec", "kubernetesVersions"), []
    for version in listed if isinstance(listed, list) else ():
        with suppress(InvalidVersion):
            versions.append(KubernetesVersion.parse(version))
    return tuple(sorted(versions))


def template_references(cluster_class: Manifest) -> list[ObjectId]:
    """Return the templates that a ClusterClass refers to, each once, in order; at most ``MAX_REFERENCES``."""
    namespace = text(cluster_class, "metadata", "namespace")
    references: dict[ObjectId, None] = {}
    pending: list[object] = [at(cluster_class, "spec", part) for part in ("workers", "controlPlane", "infrastructure")]
    while pending and len(references) < MAX_REFERENCES:
        value = pending.pop()
        if isinstance(value, list):
            pending += reversed(value)
        elif isinstance(value, dict):
            for field in ("templateRef", "ref"):
                reference = _reference(mapping(value, field), namespace)
                if reference is not None and reference.kind and reference.name:
                    references[ObjectId(reference.group, reference.kind, reference.namespace, reference.name)] = None
            pending += reversed(value.values())
    return list(references)


def class_of(cluster: Manifest) -> tuple[str, str]:
    """Return name and namespace of a Cluster's class; the name is empty for a Cluster without topology."""
    topology = mapping(cluster, "spec", "topology")
    name = text(topology, "classRef", "name") or text(topology, "class")
    named = text(topology, "classRef", "namespace") or text(topology, "classNamespace")
    return name, named or text(cluster, "metadata", "namespace")


def reported_versions(control_plane: Manifest) -> tuple[str, ...]:
    """Return the Kubernetes versions in a control plane's status (either contract); empty until it reports one."""
    single = text(control_plane, "status", "version")
    return _versions(mappings(control_plane, "status", "versions")) or ((single,) if single else ())


def root_objects(
    cluster: Manifest, control_plane: Manifest | None, infrastructure: Manifest | None
) -> dict[str, Manifest]:
    """Return the objects that decide the values of addons, by their names in templates.

    The Cluster has ``spec.topology.class`` and ``classNamespace`` in every API version. An object that does not exist
    is empty, so that what a template reads of it is missing.
    """
    topology = mapping(cluster, "spec", "topology")
    if topology:
        name, namespace = class_of(cluster)
        topology = {**topology, "class": name, "classNamespace": namespace}
        cluster = {**cluster, "spec": {**cluster["spec"], "topology": topology}}
    return {"Cluster": cluster, "ControlPlane": control_plane or {}, "InfraCluster": infrastructure or {}}


def template_data(objects: Mapping[str, Manifest]) -> dict[str, Manifest]:
    """Return the root objects as templates see them: the Cluster has the fields of v1beta1 beside its own.

    Most templates were written for v1beta1. The added fields are constants, or come from others of these objects; so
    they are not in the digest of the inputs, and an update of the operator changes no digest.
    """
    cluster = mapping(objects["Cluster"])
    return {**objects, "Cluster": _completed(_v1beta1_fields({**objects, "Cluster": cluster}), cluster)}


def _v1beta1_fields(objects: Mapping[str, Manifest]) -> Manifest:
    """Return the fields that a Cluster of v1beta1 always has, and those with other names than in v1beta2."""
    cluster = objects["Cluster"]
    spec: Manifest = {"controlPlaneEndpoint": {"host": "", "port": 0}}
    for reference, kind in (("controlPlaneRef", "ControlPlane"), ("infrastructureRef", "InfraCluster")):
        if mapping(cluster, "spec", reference):
            version = {"apiVersion": objects[kind]["apiVersion"]} if "apiVersion" in objects[kind] else {}
            spec[reference] = {**version, "namespace": text(cluster, "metadata", "namespace")}
    if mapping(cluster, "spec", "topology"):
        spec["topology"] = {"controlPlane": {"metadata": {}}}
    status = {
        "infrastructureReady": at(cluster, "status", "initialization", "infrastructureProvisioned") is True,
        "controlPlaneReady": at(cluster, "status", "initialization", "controlPlaneInitialized") is True,
    }
    return {"spec": spec, "status": status}


def _completed(defaults: Manifest, manifest: Manifest) -> Manifest:
    """Return an object with the fields that it lacks; its own values stay."""
    return {
        **defaults,
        **manifest,
        **{
            key: _completed(default, manifest[key])
            for key, default in defaults.items()
            if isinstance(default, dict) and isinstance(manifest.get(key), dict)
        },
    }


def is_paused(manifest: Manifest) -> bool:
    """Return whether an object, a Cluster or one of ours, is paused."""
    return at(manifest, "spec", "paused") is True or PAUSED_ANNOTATION in mapping(manifest, "metadata", "annotations")


def unpause_hint(cluster: ObjectKey) -> str:
    """Say that a Cluster is paused, and how to change that."""
    return f"Cluster {cluster} is paused: unpause it by spec.paused or the annotation {PAUSED_ANNOTATION}"


def is_moving(manifest: Manifest) -> bool:
    """Return whether ``clusterctl move`` deletes this object; then what belongs to it must not be cleaned up."""
    return DELETE_FOR_MOVE_ANNOTATION in mapping(manifest, "metadata", "annotations")


def is_watched(manifest: Manifest, watch_filter: str) -> bool:
    """Return whether an object is for the operator with this ``--watch-filter``; without a filter every object is."""
    return not watch_filter or mapping(manifest, "metadata", "labels").get(WATCH_FILTER_LABEL) == watch_filter


def _control_plane_initialized(cluster: Manifest) -> bool:
    if at(cluster, "status", "initialization", "controlPlaneInitialized") is True:
        return True
    return condition_view(cluster, "ControlPlaneInitialized").true


def _outdated_workers(cluster: Manifest) -> int:
    return 0 if mappings(cluster, "spec", "topology", "workers", "machinePools") else _outdated(cluster, "workers")


def _is_rolling(cluster: Manifest) -> bool:
    reconciled = condition_view(cluster, "TopologyReconciled")
    if not (reconciled.true and reconciled.current):
        return True
    return bool(_outdated(cluster, "controlPlane") or _outdated_workers(cluster))


def _outdated(cluster: Manifest, part: str) -> int:
    machines = mapping(cluster, "status", part) or mapping(cluster, "status", "v1beta2", part)
    present, current = machines.get("replicas"), machines.get("upToDateReplicas")
    if not isinstance(present, int) or not isinstance(current, int):
        return 0
    return max(present - current, 0)


def _port(value: Any) -> int:  # noqa: ANN401 - JSON
    return value if isinstance(value, int) else 0


def _versions(reported: list[dict[str, Any]]) -> tuple[str, ...]:
    return tuple(version for entry in reported if (version := text(entry, "version")))


def _reference(reference: Manifest, namespace: str) -> ObjectRef | None:
    if not reference:
        return None
    group, version = split_api_version(text(reference, "apiVersion"))
    return ObjectRef(
        group=text(reference, "apiGroup") or group,
        kind=text(reference, "kind"),
        namespace=text(reference, "namespace") or namespace,
        name=text(reference, "name"),
        version=version,
    )
