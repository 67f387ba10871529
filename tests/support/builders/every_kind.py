"""An object of every kind of the demo stack, and how a user edits it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from tests.support.builders.manifests import addon, deployment, named, pod_template

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

SECRETS_RULE = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
EVERYBODY = {"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"}
EDITS: dict[str, tuple[str, Manifest]] = {
    "Widget": (".spec.size", {"spec": {"size": 7}}),
    "Deployment": (".spec.replicas", {"spec": {"replicas": 4}}),
    "CronJob": (".spec.schedule", {"spec": {"schedule": "1 1 * * *"}}),
    "Service": (".spec.selector.more", {"spec": {"selector": {"more": "x"}}}),
    "ConfigMap": (".data.key", {"data": {"key": "other"}}),
    "Secret": (".data.password", {"data": {"password": base64.b64encode(b"hacked").decode()}}),
    "ServiceAccount": ('.metadata.labels["clusterstack.x-k8s.io/instance"]', {}),
    "ClusterRole": (".rules", {"rules": [SECRETS_RULE]}),
    "ClusterRoleBinding": ('.subjects[name="system:authenticated"]', {}),
    "CSIDriver": (".spec.requiresRepublish", {"spec": {"requiresRepublish": True}}),
    "Role": (".rules", {"rules": [SECRETS_RULE]}),
    "RoleBinding": ('.subjects[name="system:authenticated"]', {}),
    "Namespace": ('.metadata.labels["clusterstack.x-k8s.io/instance"]', {}),
    "CustomResourceDefinition": (".spec.scope", {}),
    "DaemonSet": ('.spec.template.spec.containers[name="app"].image', {}),
    "PodDisruptionBudget": (".spec.maxUnavailable", {"spec": {"maxUnavailable": 3}}),
    "StatefulSet": (".spec.replicas", {"spec": {"replicas": 4}}),
    "StorageClass": (".allowVolumeExpansion", {"allowVolumeExpansion": True}),
    "APIService": (".spec.versionPriority", {"spec": {"versionPriority": 7}}),
}
SCALED = ("Deployment", "StatefulSet")
LABEL = "clusterstack.x-k8s.io/instance"
KEEPS_FINALIZER = "Namespace"
"""A namespace ends only with a controller manager."""


def stateful_set(name: str, namespace: str) -> Manifest:
    manifest = deployment(name, namespace, replicas=2)
    manifest["spec"] |= {"serviceName": name}
    return {**manifest, "kind": "StatefulSet"}


def every_kind(unique: str) -> list[Manifest]:
    """Return an object of every kind of the demo stack, and others."""
    daemons = named(
        "apps/v1",
        "DaemonSet",
        unique,
        unique,
        spec={"selector": {"matchLabels": {"app": unique}}, "template": pod_template(unique)},
    )
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": {"a": "b"}}}
    group = f"local.{unique}.example.org"
    served = {"group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100}
    rbac = "rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": unique}
    subjects = [{"kind": "ServiceAccount", "name": unique, "namespace": unique}]
    return [
        *addon(unique, unique),
        daemons,
        named("policy/v1", "PodDisruptionBudget", unique, unique, spec=budget),
        named(rbac, "Role", unique, unique, rules=[rule]),
        named(rbac, "RoleBinding", unique, unique, roleRef=reference, subjects=subjects),
        stateful_set(unique, unique),
        named("storage.k8s.io/v1", "StorageClass", unique, provisioner="example.org/none", allowVolumeExpansion=False),
        named("apiregistration.k8s.io/v1", "APIService", f"v1.{group}", spec=served),
        named("storage.k8s.io/v1", "CSIDriver", f"{unique}.example.org", spec={"requiresRepublish": False}),
    ]


def edit_of(manifest: Manifest) -> tuple[str, Manifest]:
    """Return a field of the manifest, and a patch that changes it."""
    field, patch = EDITS[manifest["kind"]]
    if field.startswith(".metadata") or manifest["kind"] == "CustomResourceDefinition":
        return f'.metadata.labels["{LABEL}"]', {"metadata": {"labels": {LABEL: "other"}}}
    if manifest["kind"] == "DaemonSet":
        return field, {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "evil"}]}}}}
    if manifest["kind"].endswith("Binding"):
        return field, {"subjects": [*manifest["subjects"], EVERYBODY]}
    return field, patch


def placed(manifest: Manifest) -> Manifest:
    """Return an object with the namespace in which it is delivered."""
    if not manifest["metadata"]["name"].endswith("-unplaced"):
        return manifest
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": "kube-system"}}
