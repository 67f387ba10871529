"""Which Clusters the API server asks about, in both versions of Cluster API: its conditions, evaluated as CEL."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.domain.objects import ObjectKey
from clusterstacks.render.cel import holds
from clusterstacks.webhooks.configuration import Endpoint, WebhookScope, configuration

SERVICE = Endpoint(ObjectKey("stacks", "webhooks"))
WEBHOOKS = {one["name"].partition(".")[0]: one for one in configuration(SERVICE, WebhookScope(), b"CA")["webhooks"]}


def asked(kind: str, new: dict[str, Any] | None, old: dict[str, Any] | None = None) -> bool:
    operation = "UPDATE" if new and old else "CREATE" if new else "DELETE"
    variables = {"object": new, "oldObject": old, "request": {"operation": operation, "namespace": "team"}}
    return all(holds(one["expression"], variables) for one in WEBHOOKS[kind].get("matchConditions", []))


def v1beta1(name: str = "openstack-scs-1-35-v1", version: str = "v1.35.1", **more: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"topology": {"class": name, "version": version, **more}}}


def v1beta2(name: str = "openstack-scs-1-35-v1", version: str = "v1.35.1", **ref: str) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"topology": {"classRef": {"name": name, **ref}, "version": version}}}


def annotated(**annotations: str) -> dict[str, Any]:
    named = {f"clusterstack.x-k8s.io/{key.replace('__', '.')}": value for key, value in annotations.items()}
    return {**v1beta2(), "metadata": {"annotations": {"other": "x", **named}}}


@pytest.mark.parametrize("cluster", [v1beta1, v1beta2])
def test_clusters_of_our_classes_are_asked_about_when_class_or_version_change(cluster: Any) -> None:
    assert asked("clusters", cluster())
    assert asked("clusters", cluster("openstack-scs-1-35-v0-sha.abc"))
    assert asked("clusters", cluster(version="v1.35.2"), cluster())
    assert asked("clusters", cluster("openstack-scs-1-35-v2"), cluster())
    assert asked("clusters", cluster(), {"metadata": {}, "spec": {}})
    assert asked("clusters", cluster(), {"metadata": {}})
    assert not asked("clusters", cluster(), cluster())


def test_a_class_of_another_namespace_is_another_class() -> None:
    assert asked("clusters", v1beta1(classNamespace="stacks"), v1beta1())
    assert asked("clusters", v1beta2(namespace="stacks"), v1beta2())


@pytest.mark.parametrize("name", ["quick-start", "openstack-scs-1-35-v0-sha-abc", "", "a-b-1-2-v1.0", "x-a-b-1-2-v1"])
def test_foreign_classes_are_nobodys_business(name: str) -> None:
    assert not asked("clusters", v1beta1(name))
    assert not asked("clusters", v1beta2(name))


@pytest.mark.parametrize("topology", [{}, {"classRef": {}}, {"version": "v1.35.1"}])
def test_topologies_without_a_class_are_no_error(topology: dict[str, Any]) -> None:
    assert not asked("clusters", {"metadata": {}, "spec": {"topology": topology}})


@pytest.mark.parametrize(
    ("new", "old", "asks"),
    [
        (annotated(), annotated(), False),
        (annotated(addon__cni="a"), annotated(addon__cni="a"), False),
        (annotated(addon__cni="a"), annotated(), True),
        (annotated(addon__cni="a"), v1beta2(), True),
        (annotated(), annotated(addon__cni="a"), True),
        (v1beta2(), annotated(addon__cni="a"), True),
        (annotated(addon__cni="b"), annotated(addon__cni="a"), True),
        (annotated(**{"addon-release": "b"}), annotated(**{"addon-release": "a"}), True),
        (annotated(**{"allow-incompatible": "why"}), annotated(), False),
    ],
)
def test_annotations_about_addons_are_asked_about(new: dict[str, Any], old: dict[str, Any], *, asks: bool) -> None:
    assert asked("clusters", new, old) is asks


def varied(*variables: dict[str, Any]) -> dict[str, Any]:
    return v1beta2() | {"spec": {"topology": {**v1beta2()["spec"]["topology"], "variables": list(variables)}}}


def labelled(**labels: str) -> dict[str, Any]:
    return v1beta2() | {"metadata": {"labels": labels}}


PROD = {"name": "env", "value": {"tier": ["prod"]}}


@pytest.mark.parametrize(
    ("new", "old", "asks"),
    [
        (labelled(env="prod"), labelled(env="prod"), False),
        (labelled(env="prod"), labelled(env="dev"), True),
        (labelled(env="prod"), v1beta2(), True),
        (v1beta2(), labelled(env="prod"), True),
        (varied(PROD), varied(PROD), False),
        (varied(PROD), varied({**PROD, "value": 1}), True),
        (varied(PROD), v1beta2(), True),
        (v1beta2(), varied(PROD), True),
    ],
)
def test_sec_13_labels_and_variables_are_asked_about(new: dict[str, Any], old: dict[str, Any], *, asks: bool) -> None:
    assert asked("clusters", new, old) is asks


def cluster_addon(name: str, /, **reference: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"clusterRef": {"kind": "Cluster", "name": "one", **reference}}}


@pytest.mark.parametrize(
    ("addon", "asks"),
    [
        (cluster_addon("cluster-addon-one"), False),
        (cluster_addon("cluster-addon-two"), True),
        (cluster_addon("cluster-addon-", name=""), True),
        (cluster_addon("cluster-addon-one", kind="Secret"), True),
        ({"metadata": {"name": "cluster-addon-one"}}, True),
        ({"metadata": {"name": "cluster-addon-one"}, "spec": {}}, True),
        ({"metadata": {"name": "cluster-addon-one"}, "spec": {"clusterRef": {"kind": "Cluster"}}}, True),
        ({"metadata": {}, "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}}}, True),
    ],
)
def test_sec_24_a_cluster_addon_as_the_operator_creates_it_is_not_asked_about(
    addon: dict[str, Any], *, asks: bool
) -> None:
    assert asked("clusteraddons", addon) is asks


def test_our_kinds_are_asked_about_when_what_is_looked_at_changes() -> None:
    one, other = (
        {"spec": {"clusterRef": {"name": "a"}, "hook": ""}},
        {"spec": {"clusterRef": {"name": "a"}, "hook": "x"}},
    )

    assert asked("clusterstacks", one, other)
    assert not asked("clusterstacks", one, one)
    assert not asked("clusteraddons", one, other)
    assert asked("clusteraddons", one, {"spec": {"clusterRef": {"name": "b"}}})
    assert asked("clusteraddons", one)
    assert asked("clusterstacks", None, one)


OBJECT = {
    "apiVersion": "infrastructure.clusterstack.x-k8s.io/v1",
    "kind": "OpenStackClusterStackRelease",
    "name": "one",
}


@pytest.mark.parametrize(
    ("changes", "needed"),
    [
        ({}, False),
        ({"namespace": "team"}, False),
        ({"namespace": "other"}, True),
        ({"kind": "Secret"}, True),
        ({"kind": "OpenStackClusterStackReleaseTemplate"}, True),
        ({"apiVersion": "v1"}, True),
        ({"apiVersion": "example.org/v1"}, True),
        ({"kind": None}, True),
    ],
)
def test_sec_24_a_release_whose_provider_object_everybody_may_name_needs_no_webhook(
    changes: dict[str, Any], *, needed: bool
) -> None:
    reference = {key: value for key, value in {**OBJECT, **changes}.items() if value is not None}
    release = {"metadata": {"name": "r", "namespace": "team"}, "spec": {"providerRef": reference}}
    assert asked("clusterstackreleases", release) is needed


def test_sec_4_releases_are_asked_about_when_they_name_another_object_of_a_provider() -> None:
    bare: dict[str, Any] = {"metadata": {"name": "bare"}, "spec": {}}
    one, other = ({"spec": {"providerRef": {"kind": "A", "name": name}}} for name in ("one", "other"))

    assert asked("clusterstackreleases", None, one)
    assert asked("clusterstackreleases", one)
    assert asked("clusterstackreleases", other, one)
    nothing: dict[str, Any] = {"metadata": {}}
    for old in (bare, nothing):
        assert asked("clusterstackreleases", one, old)
        assert not asked("clusterstackreleases", old, one)
        assert not asked("clusterstackreleases", old)
        assert not asked("clusterstackreleases", old, old)
    assert not asked("clusterstackreleases", one, one)


@pytest.mark.parametrize("kind", ["clusterstacks", "clusteraddons", "compatibilityrules"])
def test_no_condition_fails_on_an_object_that_says_nothing(kind: str) -> None:
    bare: dict[str, Any] = {"metadata": {"name": "bare"}}

    assert asked(kind, bare, bare)
    assert asked(kind, bare, {**bare, "spec": {}})
    assert asked(kind, {**bare, "spec": {}}, bare)


def test_an_operator_for_some_objects_is_asked_about_those() -> None:
    found = configuration(Endpoint(url="https://127.0.0.1:9"), WebhookScope("team", "ours"), b"CA")

    assert found["metadata"]["name"] == "cluster-stack-operator-team"
    for webhook in found["webhooks"]:
        assert webhook["clientConfig"] == {"url": "https://127.0.0.1:9/validate", "caBundle": "Q0E="}
        assert webhook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
        assert webhook["objectSelector"] == {"matchLabels": {"cluster.x-k8s.io/watch-filter": "ours"}}


def test_clusters_are_let_through_when_nobody_answers_and_our_kinds_are_not() -> None:
    policies = {name: (one["failurePolicy"], one["timeoutSeconds"]) for name, one in WEBHOOKS.items()}

    assert policies.pop("clusters") == ("Ignore", 5)
    assert set(policies.values()) == {("Fail", 10)}
    assert WEBHOOKS["clusters"]["clientConfig"]["service"] == {
        "namespace": "stacks",
        "name": "webhooks",
        "path": "/validate",
        "port": 443,
    }
