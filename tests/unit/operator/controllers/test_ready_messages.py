from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.kinds.names import Kind
from clusterstacks.operator.controllers.ready_messages import ready_message

ADDONS = [{"name": "cni", "objects": 20}, {"name": "csi", "objects": 8}, {"name": "ccm", "objects": 1}]


@pytest.mark.parametrize(
    ("kind", "status", "message"),
    [
        (Kind.CLUSTER_STACK, {"usableVersions": "v1, v2"}, "usable: v1, v2"),
        (Kind.CLUSTER_STACK, {}, "no release is wanted"),
        (
            Kind.CLUSTER_STACK_RELEASE,
            {"kubernetesVersion": "v1.35.4", "resources": [{}, {}]},
            "2 objects for Kubernetes v1.35.4",
        ),
        (Kind.CLUSTER_ADDON, {"addons": ADDONS}, "3 addons, 29 objects"),
        (Kind.CLUSTER_ADDON, {"addons": ADDONS[2:]}, "1 addon, 1 object"),
        (Kind.CLUSTER_ADDON, {}, "0 addons, 0 objects"),
        (Kind.CLUSTER_ADDON, {"addons": [{"objects": "many"}, None]}, "1 addon, 0 objects"),
        (Kind.COMPATIBILITY_RULE, {}, ""),
    ],
)
def test_a_ready_object_says_what_it_has(kind: Kind, status: dict[str, Any], message: str) -> None:
    assert ready_message(kind, status) == message
