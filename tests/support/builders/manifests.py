"""Small objects of many kinds, as a chart renders them."""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]


def named(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Manifest:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def lost(after: Any, before: Any, path: str = "") -> list[str]:
    """The fields of ``before`` that ``after`` does not have, or with another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        return [one for key, value in before.items() for one in lost(after.get(key), value, f"{path}.{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(after, before, strict=True))
        return [one for number, pair in pairs for one in lost(*pair, f"{path}[{number}]")]
    return [] if after == before else [f"{path}: {before!r}, now {after!r}"]


def config_map(name: str, namespace: str = "", **data: str) -> Manifest:
    return named("v1", "ConfigMap", name, namespace, data=data)


def with_annotation(manifest: Manifest, key: str, value: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": {key: value}}}


def pod_template(name: str, image: str = "example.org/app:1") -> Manifest:
    return {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "app", "image": image}]},
    }


def deployment(name: str, namespace: str = "", *, replicas: int = 1, image: str = "example.org/app:1") -> Manifest:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": name}},
        "template": pod_template(name, image),
    }
    return named("apps/v1", "Deployment", name, namespace, spec=spec)


def cron_job(name: str, namespace: str = "") -> Manifest:
    template = pod_template(name)
    template["spec"]["restartPolicy"] = "Never"
    spec = {"schedule": "0 0 * * *", "jobTemplate": {"spec": {"template": template}}}
    return named("batch/v1", "CronJob", name, namespace, spec=spec)


def crd(
    kind: str, group: str, *, scope: str = "Namespaced", versions: tuple[str, ...] = ("v1",), plural: str = ""
) -> Manifest:
    plural = plural or f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    spec = {
        "group": group,
        "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
        "scope": scope,
        "versions": [
            {"name": version, "served": True, "storage": number == 0, "schema": schema}
            for number, version in enumerate(versions)
        ],
    }
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


def addon(prefix: str, namespace: str) -> list[Manifest]:
    """Objects of a complete chart: namespace, CRD with a resource, roles, configuration, workloads and a webhook."""
    group = f"{prefix}.example.org"
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    account = {"kind": "ServiceAccount", "name": prefix, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": prefix}
    return [
        named(f"{group}/v1", "Widget", "first", namespace, spec={"size": 1}),
        deployment(prefix, namespace),
        cron_job(prefix, namespace),
        named("v1", "Service", prefix, namespace, spec={"selector": {"app": prefix}, "ports": [{"port": 80}]}),
        config_map(prefix, namespace, key="value"),
        named("v1", "Secret", prefix, namespace, stringData={"password": "none"}),
        named("v1", "ServiceAccount", prefix, namespace),
        named("rbac.authorization.k8s.io/v1", "ClusterRole", prefix, rules=[rule]),
        named("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", prefix, roleRef=reference, subjects=[account]),
        named("v1", "Namespace", namespace),
        crd("Widget", group),
        config_map(f"{prefix}-unplaced", key="value"),
    ]
