"""Which Secrets are taken for a kubeconfig of Cluster API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.controllers.workload_clients import Workloads, is_cluster_apis
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.kube.resources import Resource
from clusterstacks.kube.transport import Pool
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)


def secret(kind: str = "Opaque", **metadata: Any) -> Manifest:
    return {"metadata": {"name": "one-kubeconfig", "namespace": "team", **metadata}, "type": kind}


def owned(api_version: str) -> Manifest:
    return secret(ownerReferences=[{"apiVersion": api_version, "kind": "Any", "name": "one", "uid": "1"}])


@pytest.mark.parametrize(
    ("manifest", "marked"),
    [
        (secret("cluster.x-k8s.io/secret"), True),
        (secret(labels={"cluster.x-k8s.io/cluster-name": "one"}), True),
        (owned("cluster.x-k8s.io/v1beta1"), True),
        (owned("controlplane.cluster.x-k8s.io/v1alpha1"), True),
        (secret(), False),
        (secret("kubernetes.io/service-account-token"), False),
        (secret(labels={"cluster.x-k8s.io/cluster-name": "other"}), False),
        (owned("v1"), False),
        (owned("apps/v1"), False),
        (owned("evilcluster.x-k8s.io/v1"), False),
    ],
)
def test_type_label_or_owner_marks_a_secret(manifest: Manifest, *, marked: bool) -> None:
    assert is_cluster_apis(manifest, "one") is marked


async def test_sec_15_a_secret_without_a_mark_is_not_used_and_the_command_is_named() -> None:
    api = FakeApi(SECRETS)
    await api.create(SECRETS, secret())
    async with Pool() as pool:
        with pytest.raises(SpecError, match=r"label secret one-kubeconfig cluster\.x-k8s\.io/cluster-name=one"):
            await Workloads(api, pool).connect(ObjectKey("team", "one"))
