"""Values of the operator's chart, and readers of the rendered chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.builders.signatures import ecdsa_key, public_pem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest

IMAGE = {"repository": "registry.example.org/kaas/cluster-stack-operator"}
PLAIN: Manifest = {"image": IMAGE}
BUNDLES = {"kind": "Bundle", "group": "example.org", "resource": "bundles"}


def everything(namespace: str = "team-a") -> Manifest:
    """Return values that set every option; ``namespace`` is watched."""
    return {
        "fullnameOverride": "stacks",
        "commonLabels": {"team": "kaas"},
        "commonAnnotations": {"example.org/owner": "kaas"},
        "image": {**IMAGE, "tag": "other", "digest": f"sha256:{'0' * 64}", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "login"}],
        "replicas": 3,
        "source": {
            "type": "oci",
            "location": "registry.example.org/kaas/stacks",
            "interval": "5m",
            "plainHTTP": True,
            "ca": "any text",
            "existingSecret": "login",
        },
        "verification": {"keys": public_pem(ecdsa_key()).decode(), "policy": "Warn"},
        "allowedSources": ["registry.example.org/kaas", "github.com/example-org"],
        "chartRepositories": ["charts.example.org"],
        "watchNamespace": namespace,
        "watchFilter": "ours",
        "logLevel": "debug",
        "logFormat": "text",
        "extraArgs": ["--clusteraddon-concurrency=128"],
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.org:3128"}],
        "envFrom": [{"configMapRef": {"name": "proxy"}}],
        "secrets": {"namespaces": [namespace]},
        "rbac": {
            "classKinds": [BUNDLES],
            "providerKinds": [BUNDLES],
            "extraRules": [{"apiGroups": ["example.org"], "resources": ["things"], "verbs": ["get"]}],
        },
        "serviceAccount": {"name": "somebody", "annotations": {"example.org/role": "one"}},
        "webhook": {"clusterFailurePolicy": "Fail"},
        "nodeImages": {"enabled": True, "certificateSecret": "images-tls"},
        "metrics": {
            "serviceMonitor": {"enabled": True, "interval": "10s", "labels": {"release": "prometheus"}},
            "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
            "dashboard": {"enabled": True, "labels": {"folder": "kaas"}},
        },
        "networkPolicy": {
            "enabled": True,
            "apiServers": ["192.0.2.11/32"],
            "metricsFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
            "nodeImagesFrom": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "orc-system"}}}],
        },
        "cache": {"sizeLimit": "1Gi"},
        "podDisruptionBudget": {"maxUnavailable": "50%"},
        "priorityClassName": "system-cluster-critical",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "topologySpreadConstraints": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "cluster-stack-operator"}},
            }
        ],
        "podLabels": {"example.org/pod": "yes"},
        "podAnnotations": {"example.org/pod": "yes"},
        "extraVolumes": [{"name": "releases", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "releases", "mountPath": "/releases"}],
        "terminationGracePeriodSeconds": 60,
    }


def of_kind(objects: Iterable[Manifest], kind: str, name: str = "") -> Manifest:
    """Return the only object of a kind, or of a kind and a name."""
    (found,) = [one for one in objects if one["kind"] == kind and name in {"", one["metadata"]["name"]}]
    return found


def container(objects: Iterable[Manifest]) -> dict[str, Any]:
    (found,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def granted(rules: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str, str]]:
    """Expand rules to group, resource, verb, and name of the object (empty for all)."""
    for rule in rules:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    for name in rule.get("resourceNames") or [""]:
                        yield group, resource, verb, name
