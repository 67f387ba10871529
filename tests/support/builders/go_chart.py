"""A stand-in for the Helm chart of the Go operator: its names, labels, rights and CRDs, with any program."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import yaml

from clusterstacks.model.kinds.crd_manifests import all_crds
from tests.support.builders.manifests import named

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from clusterstacks.model.objects import Manifest


def _fields(*names: str) -> dict[str, Any]:
    """Yield fields with everything below them."""
    return {name: {} for name in names}


CONDITION = _fields("lastTransitionTime", "message", "reason", "severity", "status", "type")
REFERENCE = _fields("apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid")
RESOURCE = _fields("error", "group", "kind", "name", "namespace", "status", "version")
GO_FIELDS: dict[str, dict[str, Any]] = {
    "ClusterStack": {
        "spec": {
            **_fields("autoSubscribe", "channel", "kubernetesVersion", "name", "noProvider", "provider"),
            "providerRef": REFERENCE,
            "versions": {},
        },
        "status": {
            "conditions": CONDITION,
            "latestRelease": {},
            "summary": _fields("message", "name", "phase", "ready"),
            "usableVersions": {},
        },
    },
    "ClusterStackRelease": {
        "spec": {"providerRef": REFERENCE},
        "status": {"conditions": CONDITION, "kubernetesVersion": {}, "ready": {}, "resources": RESOURCE},
    },
    "ClusterAddon": {
        "spec": {"clusterRef": REFERENCE, "clusterStack": {}, "hook": {}, "version": {}},
        "status": {
            "conditions": CONDITION,
            "ready": {},
            "resources": RESOURCE,
            "stages": _fields("action", "name", "phase"),
        },
    },
}
"""Fields of the definitions in the chart of the Go operator, version 0.4.1; an empty mapping keeps what is below."""

PROVIDER = {"cluster.x-k8s.io/provider": "cluster-stack-operator"}
HELM = {"app.kubernetes.io/name": "cso", "app.kubernetes.io/instance": "cso"}
SELECTOR = {**PROVIDER, "control-plane": "cso-controller-manager", **HELM}
NAMESPACE = "cso-system"
IMAGE = "ghcr.io/sovereigncloudstack/cso:v0.2.0-alpha.1"
ARGS = ("--leader-elect=true", "--log-level=info")
CERTIFICATES = ("cso-webhook-server-cert", "cso-hook-server-server-cert")
"""Secrets that cert-manager would create, and that the pod needs."""
ALL = ["create", "delete", "get", "list", "patch", "update", "watch"]
RULES = [
    {"apiGroups": ["clusterstack.x-k8s.io"], "resources": ["*"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ALL},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "update", "watch"]},
    {
        "apiGroups": [
            "bootstrap.cluster.x-k8s.io",
            "cluster.x-k8s.io",
            "controlplane.cluster.x-k8s.io",
            "infrastructure.cluster.x-k8s.io",
            "infrastructure.clusterstack.x-k8s.io",
        ],
        "resources": ["*"],
        "verbs": ALL,
    },
]
LEASE_RULES = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ALL}]


def go_definitions() -> list[Manifest]:
    """Return the CRDs of the Go operator: ours, reduced to its fields."""
    found = [copy.deepcopy(one) for one in all_crds() if one["spec"]["names"]["kind"] in GO_FIELDS]
    for definition in found:
        definition["metadata"]["labels"] = {**PROVIDER, "cluster.x-k8s.io/v1beta1": "v1beta1", **HELM}
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        _keep(schema, {"apiVersion": {}, "kind": {}, "metadata": {}, **GO_FIELDS[definition["spec"]["names"]["kind"]]})
    return found


def _keep(schema: dict[str, Any], fields: dict[str, Any]) -> None:
    """Drop all other properties and the validation rules that may need them."""
    schema.pop("x-kubernetes-validations", None)
    properties = schema.get("items", schema).get("properties", {})
    schema.get("items", schema).pop("x-kubernetes-validations", None)
    for name in [*properties]:
        if name not in fields:
            del properties[name]
        elif fields[name]:
            _keep(properties[name], fields[name])


def write_go_chart(
    directory: Path,
    *,
    image: str = IMAGE,
    args: Sequence[str] = ARGS,
    repository: str = "",
    further_rules: Sequence[Manifest] = (),
) -> Path:
    """Write the chart, and return its directory.

    Args:
        directory: Where the chart is written.
        image: Image of the Deployment, with the program ``/manager``.
        args: Arguments after ``-source oci``.
        repository: OCI repository of the releases.
        further_rules: Rights beyond those of the Go operator's chart.
    """
    chart = directory / "go-chart"
    (chart / "templates").mkdir(parents=True)
    (chart / "Chart.yaml").write_text('{apiVersion: v2, name: cso, version: 0.4.1, appVersion: "0.1.0"}')
    variables = {"ociRegistry": repository.partition("/")[0], "ociRepository": repository}
    manager = {"replicas": 1, "manager": {"args": [*args]}, "rbac": {"additionalRules": [*further_rules]}}
    (chart / "values.yaml").write_text(
        yaml.safe_dump({"clusterStackVariables": variables, "controllerManager": manager})
    )
    objects = (*go_definitions(), *_rights([*RULES, *further_rules]), *_objects(repository))
    deployment = _labelled(
        named("apps/v1", "Deployment", "cso-controller-manager", NAMESPACE, spec=_deployment(image, args))
    )
    for number, one in enumerate((*objects, deployment)):
        (chart / "templates" / f"{number:02}.yaml").write_text(json.dumps(one))
    return chart


def _rights(rules: Sequence[Manifest]) -> Iterator[Manifest]:
    group = "rbac.authorization.k8s.io"
    account = {"kind": "ServiceAccount", "name": "cso-controller-manager", "namespace": NAMESPACE}
    yield _labelled(named("v1", "ServiceAccount", "cso-controller-manager", NAMESPACE))
    for prefix, name, namespace, granted in (
        ("Cluster", "cso-manager-role", "", rules),
        ("", "cso-leader-election-role", NAMESPACE, LEASE_RULES),
    ):
        role = {"apiGroup": group, "kind": f"{prefix}Role", "name": name}
        binding = f"{name}binding"
        yield _labelled(named(f"{group}/v1", f"{prefix}Role", name, namespace, rules=granted))
        yield _labelled(
            named(f"{group}/v1", f"{prefix}RoleBinding", binding, namespace, roleRef=role, subjects=[account])
        )


def _objects(repository: str) -> Iterator[Manifest]:
    variables = {"oci-registry": repository.partition("/")[0] or "example.org", "oci-repository": repository}
    yield _labelled(named("v1", "Secret", "cso-cluster-stack-variables", NAMESPACE, stringData=variables))
    for name, port in (("cso-webhook-service", 9443), ("cso-hook-server-svc", 9442)):
        spec = {"selector": SELECTOR, "ports": [{"port": 443, "targetPort": port}]}
        yield _labelled(named("v1", "Service", name, NAMESPACE, spec=spec))
    yield _labelled(named("cert-manager.io/v1", "Certificate", "cso-serving-cert", NAMESPACE, spec={}))
    service = {"name": "cso-hook-server-svc", "namespace": NAMESPACE, "port": 443}
    extension = {"clientConfig": {"service": service}, "namespaceSelector": {}}
    group = "runtime.cluster.x-k8s.io/v1alpha1"
    yield _labelled(named(group, "ExtensionConfig", "cso-hook-server-extensionconfig", spec=extension))
    yield _labelled(_webhooks())


def _labelled(manifest: Manifest) -> Manifest:
    manifest["metadata"]["labels"] = {**PROVIDER, **HELM}
    return manifest


def _webhooks() -> Manifest:
    path = "/validate-clusterstack-x-k8s-io-v1alpha1-clusterstack"
    service = {"name": "cso-webhook-service", "namespace": NAMESPACE, "path": path}
    operations = {"apiGroups": ["clusterstack.x-k8s.io"], "apiVersions": ["v1alpha1"], "resources": ["clusterstacks"]}
    webhook = {
        "name": "validation.clusterstack.clusterstack.x-k8s.io",
        "clientConfig": {"service": service},
        "rules": [{**operations, "operations": ["DELETE"]}],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    name = "cso-validating-webhook-configuration"
    return named("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", name, webhooks=[webhook])


def _deployment(image: str, args: Sequence[str]) -> dict[str, Any]:
    secret = {"name": "cso-cluster-stack-variables"}
    container = {
        "name": "manager",
        "image": image,
        "command": ["/manager", "-source", "oci"],
        "args": [*args],
        "env": [
            {"name": key.upper().replace("-", "_"), "valueFrom": {"secretKeyRef": {**secret, "key": key}}}
            for key in ("oci-registry", "oci-repository")
        ],
        "ports": [
            {"containerPort": 9443, "name": "webhook-server", "protocol": "TCP"},
            {"containerPort": 9442, "name": "hook-server-svc", "protocol": "TCP"},
            {"containerPort": 9440, "name": "healthz", "protocol": "TCP"},
        ],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": "healthz"}},
        "readinessProbe": {"httpGet": {"path": "/readyz", "port": "healthz"}},
        "resources": {"limits": {"cpu": "250m", "memory": "250Mi"}},
        "volumeMounts": [{"mountPath": "/tmp/k8s-webhook-server/serving-certs", "name": "cert", "readOnly": True}],
    }
    pod = {
        "containers": [container],
        "serviceAccountName": "cso-controller-manager",
        "terminationGracePeriodSeconds": 10,
        "tolerations": [{"effect": "NoSchedule", "key": "node-role.kubernetes.io/control-plane"}],
        "volumes": [{"name": "cert", "secret": {"defaultMode": 420, "secretName": "cso-webhook-server-cert"}}],
    }
    template = {"metadata": {"labels": SELECTOR}, "spec": pod}
    return {"replicas": 1, "selector": {"matchLabels": SELECTOR}, "template": template}
