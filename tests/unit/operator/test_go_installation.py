"""Objects of the Go operator's installation are recognized, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.domain.objects import ObjectKey
from clusterstacks.operator.go_operator import leads_to, leftover

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

OWN = "/validate-clusterstack-x-k8s-io-v1alpha1-clusterstack"
CLUSTERS = "/validate-cluster-x-k8s-io-v1beta1-cluster"


def webhooks(
    *paths: str, namespace: str = "cso-system", name: str = "cso-validating-webhook-configuration"
) -> Manifest:
    services = [{"name": "cso-webhook-service", "namespace": namespace, "path": path} for path in paths]
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name, "uid": "u"},
        "webhooks": [{"clientConfig": {"service": service}} for service in services],
    }


def extension(name: str) -> Manifest:
    service = {"name": "cso-hook-server-svc", "namespace": "cso-system"}
    return {
        "apiVersion": "runtime.cluster.x-k8s.io/v1beta2",
        "kind": "ExtensionConfig",
        "metadata": {"name": name, "uid": "u"},
        "spec": {"clientConfig": {"service": service}},
    }


@pytest.mark.parametrize(
    ("manifest", "recognized"),
    [
        (webhooks(OWN, CLUSTERS), True),
        (webhooks(OWN, name="stacks-validating-webhook-configuration"), True),
        (webhooks(OWN, "/validate"), False),
        (webhooks("/validate"), False),
        (webhooks(), False),
        ({**webhooks(), "webhooks": [{"clientConfig": {"url": "https://example.org"}}]}, False),
        ({**webhooks(), "webhooks": "none"}, False),
        (extension("cso-hook-server-extensionconfig"), True),
        (extension("upgrade-hooks"), False),
        ({**extension("cso-hook-server-extensionconfig"), "spec": {}}, False),
    ],
)
def test_drop_h2_only_what_the_go_operator_left_is_recognized(manifest: Manifest, *, recognized: bool) -> None:
    assert (leftover(manifest) is not None) is recognized


@pytest.mark.parametrize(
    ("namespace", "own", "belongs"),
    [("cso-system", "cso-system", True), ("elsewhere", "cso-system", False), ("cso-system", "", False)],
)
def test_drop_h2_only_what_calls_the_own_namespace_is_removed(namespace: str, own: str, *, belongs: bool) -> None:
    found = leftover(webhooks(OWN, CLUSTERS, namespace=namespace))

    assert found is not None
    assert found.services == {ObjectKey(namespace, "cso-webhook-service")}
    assert found.belongs_to(own) is belongs
    assert found.command() == "kubectl delete validatingwebhookconfiguration cso-validating-webhook-configuration"


POD = {
    "metadata": {"labels": {"control-plane": "cso-controller-manager", "pod-template-hash": "x"}},
    "spec": {"containers": [{"ports": [{"name": "webhook-server", "containerPort": 9443}]}]},
}


def service(port: int, target: object, **selector: str) -> dict[str, Any]:
    return {"spec": {"selector": selector, "ports": [{"port": port, "targetPort": target}]}}


@pytest.mark.parametrize(
    ("manifest", "leads"),
    [
        (service(443, 9443, **{"control-plane": "cso-controller-manager"}), True),
        (service(443, "webhook-server", **{"control-plane": "cso-controller-manager"}), True),
        (service(443, 9442, **{"control-plane": "cso-controller-manager"}), False),
        (service(443, "hook-server", **{"control-plane": "cso-controller-manager"}), False),
        (service(8443, 9443, **{"control-plane": "cso-controller-manager"}), False),
        (service(443, 9443, app="other"), False),
        (service(443, 9443), False),
        ({}, False),
    ],
)
def test_drop_h3_the_service_of_the_webhooks_selects_the_pod_and_its_port(manifest: Manifest, *, leads: bool) -> None:
    assert leads_to(manifest, POD, 9443) is leads
