"""``csctl generate cluster``: a Cluster with the variables of its class."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.csctl.verbs.generate import choose_release, cluster_text
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectKey

STACK = ObjectKey("kaas", "scs")


def variable(name: str, *, required: bool = False, **schema: Any) -> dict[str, Any]:
    return {"name": name, "required": required, "schema": {"openAPIV3Schema": schema}}


CLASS = {
    "metadata": {"name": "openstack-scs-1-36-v2", "namespace": "kaas"},
    "spec": {
        "workers": {"machineDeployments": [{"class": "default"}], "machinePools": [{"class": "spot"}]},
        "variables": [
            variable("flavor", type="string", default="small", description="Flavor of the nodes.\n# not: a comment"),
            variable("zone", required=True, type="string", enum=["a", "b"]),
            variable("proxy", type="string"),
            variable(
                "network",
                type="object",
                default={},
                properties={"mtu": {"type": "integer", "default": 1450, "description": "MTU of the pods."}},
            ),
        ],
    },
}


def test_the_cluster_has_each_variable_with_default_description_and_type() -> None:
    text = cluster_text(ObjectKey("kaas", "prod"), CLASS, "v1.36.1", "cluster.x-k8s.io/v1beta2")

    assert text.partition("    variables:\n")[2] == (
        "    # Flavor of the nodes. # not: a comment (string)\n"
        "    - name: flavor\n"
        "      value: small\n"
        "    # (one of a, b)\n"
        "    # Required: fill it in.\n"
        "    - name: zone\n"
        "      value: null\n"
        "    # (string)\n"
        "    # - name: proxy\n"
        "    #   value: null\n"
        "    # (object)\n"
        "    #   mtu: MTU of the pods. (integer)\n"
        "    - name: network\n"
        "      value:\n"
        "        mtu: 1450\n"
    )
    topology = yaml.load(text, name="cluster")["spec"]["topology"]
    assert (topology["classRef"], topology["version"]) == ({"name": "openstack-scs-1-36-v2"}, "v1.36.1")
    assert topology["workers"]["machinePools"] == [{"class": "spot", "name": "spot", "replicas": 1}]
    assert [one["name"] for one in topology["variables"]] == ["flavor", "zone", "network"]


@pytest.mark.parametrize(
    ("namespace", "version", "reference"),
    [
        ("team", "v1beta2", {"classRef": {"name": "openstack-scs-1-36-v2", "namespace": "kaas"}}),
        ("kaas", "v1beta1", {"class": "openstack-scs-1-36-v2"}),
        ("team", "v1beta1", {"class": "openstack-scs-1-36-v2", "classNamespace": "kaas"}),
    ],
)
def test_the_class_may_be_in_another_namespace(namespace: str, version: str, reference: dict[str, Any]) -> None:
    text = cluster_text(ObjectKey(namespace, "prod"), CLASS, "v1.36.1", f"cluster.x-k8s.io/{version}")

    assert reference.items() <= yaml.load(text, name="cluster")["spec"]["topology"].items()


def release(name: str, *, ready: bool = True, stack: str = "scs") -> dict[str, Any]:
    owner = {"apiVersion": "clusterstack.x-k8s.io/v1alpha1", "kind": "ClusterStack", "name": stack}
    return {"metadata": {"name": name, "ownerReferences": [owner]}, "status": {"ready": ready}}


RELEASES = [
    release("openstack-scs-1-36-v9"),
    release("openstack-scs-1-36-v10"),
    release("openstack-scs-1-36-v11", ready=False),
    release("openstack-other-1-36-v12", stack="other"),
]


@pytest.mark.parametrize(
    ("wanted", "chosen"), [("", "openstack-scs-1-36-v10"), ("openstack-scs-1-36-v9", "openstack-scs-1-36-v9")]
)
def test_the_newest_ready_release_of_the_stack_is_the_default(wanted: str, chosen: str) -> None:
    assert choose_release(RELEASES, STACK, wanted)["metadata"]["name"] == chosen


@pytest.mark.parametrize(
    ("releases", "wanted", "words"),
    [
        ([], "", "ClusterStack kaas/scs has no ready release, or does not exist: 'kubectl get clusterstacks -n kaas'"),
        (RELEASES, "openstack-scs-1-36-v11", "use openstack-scs-1-36-v9, openstack-scs-1-36-v10"),
    ],
)
def test_an_unknown_release_is_answered_with_those_that_are_ready(
    releases: list[dict[str, Any]], wanted: str, words: str
) -> None:
    with pytest.raises(SpecError, match=words):
        choose_release(releases, STACK, wanted)
