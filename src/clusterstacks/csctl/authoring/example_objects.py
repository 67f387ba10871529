"""Example objects for values templates, made for a class or read from a file: Cluster, control plane, infrastructure.

Objects made for a class contain the fields that Cluster API has set when addons are delivered: the endpoint, the
references and the defaults of the class variables. Control plane and infrastructure object have the kinds that the
class references and the spec of its templates. For fields that controllers of a provider add, authors use a file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model import yaml
from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import ObjectRef, cluster_view, root_objects, template_data
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, CLUSTER_KIND
from clusterstacks.model.objects import split_api_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesVersion

NAME = "sample"
NAMESPACE = "default"
ENDPOINT = {"host": "192.0.2.10", "port": 6443}
"""An address of the range for documentation (RFC 5737)."""

_UID = "00000000-0000-4000-8000-000000000000"
_HEADER = """\
# The objects that values templates (overwrite.yaml, cluster-addon-values.yaml) see as .Cluster, .ControlPlane and
# .InfraCluster. Change the fields that differ in your clusters, then use the file with csctl template --cluster and
# csctl lint --cluster.
"""


@dataclass(frozen=True, slots=True)
class ExampleObjects:
    """The objects that a values template sees."""

    cluster: Manifest
    control_plane: Manifest
    infrastructure: Manifest

    @property
    def data(self) -> dict[str, Manifest]:
        """The objects by their names in the template, as the operator passes them."""
        return template_data(root_objects(self.cluster, self.control_plane, self.infrastructure))

    def text(self) -> str:
        """Return the text of a file for :func:`read_example_objects`."""
        documents = (self.cluster, self.control_plane, self.infrastructure)
        return _HEADER + "---\n".join(yaml.dump(document) for document in documents if document)


def read_example_objects(content: bytes, file: str) -> ExampleObjects:
    """Read a file with one Cluster and the objects that it references.

    Raises:
        SpecError: The file is not valid YAML, or does not have exactly one Cluster.
    """
    documents = [document for document in yaml.load_all(content, name=file) if isinstance(document, dict)]
    clusters = [document for document in documents if _is_cluster(document)]
    if len(clusters) != 1:
        raise SpecError(
            "InvalidSample",
            f"{file} has {len(clusters)} objects of kind Cluster (expected one; see csctl template --sample)",
        )
    view = cluster_view(clusters[0])
    return ExampleObjects(
        clusters[0],
        _referenced(documents, view.control_plane_ref, "ControlPlane"),
        _referenced(documents, view.infrastructure_ref, "Cluster"),
    )


def make_example_objects(
    name: ReleaseName, kubernetes: KubernetesVersion, class_objects: Sequence[Manifest]
) -> ExampleObjects:
    """Make the objects of a cluster of a class, as Cluster API has completed them when addons are delivered."""
    cluster_class = next(
        (manifest for manifest in class_objects if _kind(manifest) == (CLUSTER_API_GROUP, CLUSTER_CLASS_KIND)), {}
    )
    control_plane = _made(cluster_class, "controlPlane", class_objects, "ControlPlane")
    infrastructure = _made(cluster_class, "infrastructure", class_objects, "Cluster")
    control_plane = {
        **control_plane,
        "spec": {**control_plane["spec"], "replicas": 3, "version": kubernetes.text},
        "status": {
            "initialization": {"controlPlaneInitialized": True},
            "replicas": 3,
            "readyReplicas": 3,
            "version": kubernetes.text,
        },
    }
    infrastructure = {
        **infrastructure,
        "spec": {**infrastructure["spec"], "controlPlaneEndpoint": ENDPOINT},
        "status": {"initialization": {"provisioned": True}, "ready": True},
    }
    return ExampleObjects(
        _cluster(name, kubernetes, cluster_class, (control_plane, infrastructure)), control_plane, infrastructure
    )


def _cluster(
    name: ReleaseName, kubernetes: KubernetesVersion, cluster_class: Manifest, made: tuple[Manifest, Manifest]
) -> Manifest:
    control_plane, infrastructure = made
    return {
        "apiVersion": f"{CLUSTER_API_GROUP}/v1beta2",
        "kind": CLUSTER_KIND,
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "uid": _UID,
            "labels": {"topology.cluster.x-k8s.io/owned": ""},
            "annotations": {},
        },
        "spec": {
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["10.244.0.0/16"]},
                "services": {"cidrBlocks": ["10.96.0.0/16"]},
                "serviceDomain": "cluster.local",
            },
            "controlPlaneEndpoint": ENDPOINT,
            "controlPlaneRef": _reference(control_plane),
            "infrastructureRef": _reference(infrastructure),
            "topology": {
                "classRef": {"name": name.class_name, "namespace": NAMESPACE},
                "version": kubernetes.text,
                "controlPlane": {"replicas": 3},
                "workers": _workers(cluster_class),
                "variables": _variables(cluster_class),
            },
        },
        "status": {"initialization": {"controlPlaneInitialized": True, "infrastructureProvisioned": True}},
    }


def _variables(cluster_class: Manifest) -> list[Manifest]:
    """Return the default values of the class variables, as Cluster API writes them into every Cluster."""
    variables = []
    for variable in mappings(cluster_class, "spec", "variables"):
        schema = mapping(variable, "schema", "openAPIV3Schema")
        default = default_of(schema)
        if default is not None:
            variables.append({"name": text(variable, "name"), "value": default})
    return variables


def default_of(schema: Manifest) -> object:
    """Return the default of a variable by its schema, with the defaults of its fields; None without a default."""
    if "default" not in schema:
        return None
    default = schema["default"]
    if not isinstance(default, dict):
        return default
    inner = {
        key: default_of(property_schema)
        for key, property_schema in mapping(schema, "properties").items()
        if isinstance(property_schema, dict)
    }
    return {**{key: value for key, value in inner.items() if value is not None}, **default}


def _workers(cluster_class: Manifest) -> Manifest:
    classes = mappings(cluster_class, "spec", "workers", "machineDeployments")
    return {
        "machineDeployments": [
            {"class": text(worker_class, "class"), "name": "workers", "replicas": 3} for worker_class in classes[:1]
        ]
    }


def _made(cluster_class: Manifest, role: str, objects: Sequence[Manifest], suffix: str) -> Manifest:
    """Return the object that Cluster API makes of a template that the class references."""
    spec = mapping(cluster_class, "spec", role)
    reference = mapping(spec, "templateRef") or mapping(spec, "ref")
    kind, name = text(reference, "kind"), text(reference, "name")
    template = next(
        (manifest for manifest in objects if (at(manifest, "kind"), at(manifest, "metadata", "name")) == (kind, name)),
        {},
    )
    return {
        "apiVersion": text(reference, "apiVersion") or "infrastructure.cluster.x-k8s.io/v1beta2",
        "kind": kind.removesuffix("Template") or f"Sample{suffix}",
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "uid": _UID,
            "labels": {"cluster.x-k8s.io/cluster-name": NAME},
        },
        "spec": mapping(template, "spec", "template", "spec"),
    }


def _reference(made: Manifest) -> Manifest:
    group, _ = split_api_version(made["apiVersion"])
    return {"apiGroup": group, "kind": made["kind"], "name": NAME}


def _referenced(documents: Sequence[Manifest], reference: ObjectRef | None, suffix: str) -> Manifest:
    others = [document for document in documents if not _is_cluster(document)]
    if reference is None:
        return next((document for document in others if text(document, "kind").endswith(suffix)), {})
    return next((document for document in others if text(document, "kind") == reference.kind), {})


def _is_cluster(manifest: Manifest) -> bool:
    return _kind(manifest) == (CLUSTER_API_GROUP, CLUSTER_KIND)


def _kind(manifest: Manifest) -> tuple[str, str]:
    return split_api_version(text(manifest, "apiVersion"))[0], text(manifest, "kind")
