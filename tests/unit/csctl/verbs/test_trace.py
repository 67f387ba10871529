"""``csctl trace``: which record has an object, and what is known of its release."""

from __future__ import annotations

import pytest

from clusterstacks.csctl.verbs.trace import find_objects, release_origin
from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord, DeliveryState, RecordedObject
from clusterstacks.model.objects import ObjectId

DNS = ObjectId("apps", "Deployment", "kube-system", "dns")
COPY = ObjectId("apps", "Deployment", "team", "dns")
CLOUDS = ObjectId("", "Secret", "kube-system", "dns")


def record(*objects: ObjectId) -> DeliveryRecord:
    return DeliveryRecord("x", "", "", DeliveryState.PRUNED, tuple(RecordedObject(one, "v1") for one in objects))


RECORDS = {"addon dns": record(DNS), "addon copy": record(COPY), "sync clouds": record(CLOUDS)}


@pytest.mark.parametrize(
    ("kind", "name", "found"),
    [
        ("Deployment", "kube-system/dns", [(DNS, "addon dns")]),
        ("deployment.apps", "kube-system/dns", [(DNS, "addon dns")]),
        ("Deployment", "dns", [(DNS, "addon dns"), (COPY, "addon copy")]),
        ("secret", "dns", [(CLOUDS, "sync clouds")]),
        ("Deployment", "other/dns", []),
        ("Deployment.batch", "dns", []),
    ],
)
def test_objects_are_found_by_kind_and_name(kind: str, name: str, found: list[tuple[ObjectId, str]]) -> None:
    assert find_objects(RECORDS, kind, name) == found


OWNER = {"apiVersion": "clusterstack.x-k8s.io/v1alpha1", "kind": "ClusterStack", "name": "scs"}
RELEASE = {
    "metadata": {"name": "openstack-scs-1-36-v2", "ownerReferences": [OWNER]},
    "status": {
        "digest": "sha256:1",
        "signedBy": ["sha256:key"],
        "conditions": [{"type": "SignatureVerified", "status": "True"}],
    },
}
STACK = {
    "apiVersion": OWNER["apiVersion"],
    "kind": "ClusterStack",
    "metadata": {"name": "scs", "namespace": "kaas"},
    "spec": {
        "provider": "openstack",
        "name": "scs",
        "kubernetesVersion": "1.36",
        "source": {"oci": {"repository": "registry.example.org/kaas/stacks"}},
    },
}
ADDON = {"name": "dns", "version": "1.11.1", "release": "openstack-scs-1-36-v2"}


def test_an_addon_has_release_source_digest_and_signature() -> None:
    assert release_origin(ADDON, [RELEASE], [STACK]) == {
        "addon": "dns 1.11.1",
        "release": "openstack-scs-1-36-v2",
        "source": "oci://registry.example.org/kaas/stacks",
        "digest": "sha256:1",
        "signature": "verified by key sha256:key",
    }


@pytest.mark.parametrize(
    ("conditions", "signature"),
    [
        ([], "not checked: neither the operator nor the ClusterStack has trusted keys"),
        ([{"type": "SignatureVerified", "status": "False", "message": "no key signed it"}], "not verified: no key"),
    ],
)
def test_an_unverified_release_is_not_called_verified(conditions: list[dict[str, str]], signature: str) -> None:
    release = {**RELEASE, "status": {"conditions": conditions}}

    assert release_origin(ADDON, [release], [STACK])["signature"].startswith(signature)


@pytest.mark.regression("U-41")
def test_u_41_what_a_user_may_not_read_is_unknown() -> None:
    assert set(release_origin({"name": "dns"}, [], []).values()) == {"dns", "unknown"}
