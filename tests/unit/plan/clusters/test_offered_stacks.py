"""What csctl reports before a Cluster can use a release."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.names import API_VERSION
from clusterstacks.model.names import parse_release
from clusterstacks.plan.clusters.offered_stacks import Offered

V1, V2 = parse_release("openstack-scs-1-35-v1"), parse_release("openstack-scs-1-35-v2")
CUSTOM = parse_release("openstack-scs-1-35-v0-sha-abc")


def stack(**spec: Any) -> ClusterStack:
    series = {"provider": "openstack", "name": "scs", "kubernetesVersion": "1.35", "noProvider": True}
    metadata = {"name": "scs", "namespace": "stacks"}
    return ClusterStack.parse(
        {"apiVersion": API_VERSION, "kind": "ClusterStack", "metadata": metadata, "spec": {**series, **spec}}
    )


@pytest.mark.parametrize(
    ("spec", "release", "words"),
    [
        ({"autoSubscribe": False, "versions": ["v2", "v0-sha.abc"]}, V2, ""),
        ({"autoSubscribe": False, "versions": ["v2", "v0-sha.abc"]}, CUSTOM, ""),
        ({"autoSubscribe": True}, V2, ""),
        ({"autoSubscribe": False}, V1, ""),
        ({"autoSubscribe": False}, V2, "is not offered: first add v2 to spec.versions of ClusterStack stacks/scs"),
        ({"kubernetesVersion": "1.36"}, V2, "first create one there for Kubernetes 1.35"),
    ],
)
def test_release_of_addons_must_be_offered(spec: dict[str, Any], release: Any, words: str) -> None:
    offered = Offered("stacks", (stack(**spec),), ready={V1: "scs"})

    missing = offered.missing(release, its_class=False)

    assert words in missing
    assert bool(missing) is bool(words)


def test_class_must_exist() -> None:
    missing = Offered("stacks", (stack(),), ready={V1: "scs"}).missing(V2, its_class=True)

    assert missing.startswith("class openstack-scs-1-35-v2 does not exist yet: add v2 to spec.versions")
