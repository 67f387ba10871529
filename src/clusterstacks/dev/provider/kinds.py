"""The provider's kinds and their CustomResourceDefinitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

GROUP = "local.clusterstack.x-k8s.io"
VERSION = "v1alpha1"
CONTRACT_LABEL = "cluster.x-k8s.io/v1beta2"
"""Cluster API rejects references to kinds without this label; its value is our version that follows the contract."""
CLUSTER_NAME_LABEL = "cluster.x-k8s.io/cluster-name"
FINALIZER = f"cluster.{GROUP}"

CLUSTER = "LocalCluster"
CONTROL_PLANE = "LocalControlPlane"
MACHINE = "LocalMachine"
BOOTSTRAP_CONFIG = "LocalBootstrapConfig"
TEMPLATES = tuple(f"{kind}Template" for kind in (CLUSTER, CONTROL_PLANE, MACHINE, BOOTSTRAP_CONFIG))
"""The kinds that cluster classes contain."""


def definitions() -> list[Manifest]:
    """Return the CustomResourceDefinitions of all kinds and their templates."""
    return [
        _definition(CLUSTER, _CLUSTER_COLUMNS, template=False),
        _definition(CONTROL_PLANE, _CONTROL_PLANE_COLUMNS, template=False),
        _definition(MACHINE, _MACHINE_COLUMNS, template=False),
        _definition(BOOTSTRAP_CONFIG, [], template=False),
        *(_definition(kind, [], template=True) for kind in TEMPLATES),
    ]


def _definition(kind: str, columns: list[Manifest], *, template: bool) -> Manifest:
    plural = f"{kind.lower()}s"
    version: Manifest = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema(kind)},
        "additionalPrinterColumns": columns,
    }
    if not template:
        version["subresources"] = {"status": {}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "labels": {CONTRACT_LABEL: VERSION}},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "categories": ["cluster-api"],
            },
            "versions": [version],
        },
    }


def _schema(kind: str) -> Manifest:
    # Cluster API writes further fields of its contract, so unknown fields are preserved.
    open_object: Manifest = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "type": "object",
        "description": f"{kind} of the local environment; see 'csctl dev --help'.",
        "properties": {"spec": open_object, "status": open_object},
    }


def _column(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "type": "string", "jsonPath": path}


_CLUSTER_COLUMNS = [
    _column("Provisioned", ".status.initialization.provisioned"),
    _column("Port", ".spec.controlPlaneEndpoint.port"),
]
_CONTROL_PLANE_COLUMNS = [
    _column("Initialized", ".status.initialization.controlPlaneInitialized"),
    _column("Version", ".spec.version"),
    _column("Running", ".status.versions[0].version"),
]
_MACHINE_COLUMNS = [
    _column("Provisioned", ".status.initialization.provisioned"),
    _column("Node", ".status.addresses[0].address"),
]
