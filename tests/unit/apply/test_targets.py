from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.apply.targets import defined_kinds, resolve
from clusterstacks.kube.client import Client
from clusterstacks.kube.errors import KindNotServed
from clusterstacks.kube.resources import Resource
from tests.support.builders.manifests import config_map, crd, named

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

SERVED = {
    ("", "ConfigMap"): Resource("", "v1", "ConfigMap", "configmaps", namespaced=True),
    ("storage.k8s.io", "StorageClass"): Resource("storage.k8s.io", "v1", "StorageClass", "storageclasses", False),
    ("policy", "PodDisruptionBudget"): Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): Resource(
        "apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False
    ),
}


class Discovery(Client):
    """Answers for kinds only, and counts the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def resource(self, group: str, kind: str, version: str = "") -> Resource:
        self.asked.append(f"{kind}.{group}/{version}")
        if (group, kind) not in SERVED:
            raise KindNotServed(f"the server does not serve {kind}")
        return SERVED[group, kind]


async def test_namespaces_are_honoured_given_by_default_and_dropped_where_there_are_none() -> None:
    manifests = [
        config_map("a"),
        config_map("b", "theirs"),
        named("storage.k8s.io/v1", "StorageClass", "c", "written"),
    ]

    targets = await resolve(Discovery(), manifests, default_namespace="kube-system")

    assert [target.id.namespace for target in targets] == ["kube-system", "theirs", ""]
    assert [target.manifest["metadata"].get("namespace") for target in targets] == ["kube-system", "theirs", None]


async def test_kinds_of_crds_in_the_same_delivery_need_no_discovery() -> None:
    client = Discovery()
    group = "example.org"
    manifests = [
        named(f"{group}/v1", "Widget", "a"),
        named(f"{group}/v1", "Globe", "b", "written"),
        crd("Widget", group),
        crd("Globe", group, scope="Cluster"),
    ]

    targets = await resolve(client, manifests, default_namespace="n")

    assert [target.id.namespace for target in targets[:2]] == ["n", ""]
    assert all(target.new_kind for target in targets[:2])
    assert client.asked == ["CustomResourceDefinition.apiextensions.k8s.io/v1"]


@pytest.mark.parametrize(
    ("manifest", "refusal"),
    [
        (named("policy/v1beta1", "PodDisruptionBudget", "a"), "does not serve policy/v1beta1 (served: v1"),
        (named("example.org/v1", "Gadget", "a"), "does not serve Gadget"),
        (named("example.org/v9", "Widget", "a"), "does not serve example.org/v9 (served: v1"),
        (config_map("a", key=object()), "cannot be written as JSON"),  # type: ignore[arg-type]  # what YAML may give
    ],
)
async def test_what_cannot_be_sent_says_why(manifest: Manifest, refusal: str) -> None:
    targets = await resolve(Discovery(), [manifest, crd("Widget", "example.org")], default_namespace="n")

    assert refusal in targets[0].refusal
    assert targets[0].resource is None


async def test_the_later_of_two_documents_for_one_object_wins() -> None:
    manifests = [config_map("a", key="first"), config_map("b"), config_map("a", "n", key="second")]

    targets = await resolve(Discovery(), manifests, default_namespace="n")

    assert [target.id.name for target in targets] == ["b", "a"]
    assert targets[1].manifest["data"] == {"key": "second"}


@pytest.mark.parametrize(
    "spec",
    [
        None,
        {},
        {"group": "example.org", "names": [], "scope": "Namespaced", "versions": []},
        {"group": "a/b", "names": {"kind": "A", "plural": "as"}, "scope": "Namespaced", "versions": [{"name": "v1"}]},
        {
            "group": "example.org",
            "names": {"kind": "A", "plural": "../as"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True}],
        },
    ],
)
def test_a_crd_that_is_written_wrongly_defines_nothing(spec: Any) -> None:
    manifest = named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "a", spec=spec)

    assert defined_kinds([manifest]) == {}


def test_versions_that_are_not_served_are_no_kinds() -> None:
    manifest = crd("Widget", "example.org", versions=("v1", "v2"))
    manifest["spec"]["versions"][0]["served"] = False

    assert list(defined_kinds([manifest])["example.org", "Widget"]) == ["v2"]
