"""The webhook configuration: match conditions evaluated as CEL, and its owner."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.render.cel import holds
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.tls import server_context
from clusterstacks.operator.settings import parse_settings
from clusterstacks.operator.webhooks.certificates import CertificateRotator
from clusterstacks.operator.webhooks.configuration import NAME, Endpoint, WebhookScope, configuration
from clusterstacks.runtime.clock import SYSTEM_CLOCK
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

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
def test_cluster_is_reviewed_when_its_class_or_version_changes(cluster: Any) -> None:
    assert asked("clusters", cluster())
    assert asked("clusters", cluster("openstack-scs-1-35-v0-sha.abc"))
    assert asked("clusters", cluster(version="v1.35.2"), cluster())
    assert asked("clusters", cluster("openstack-scs-1-35-v2"), cluster())
    assert asked("clusters", cluster("openstack-hosted-control-plane-1-35-v2"), cluster())
    assert asked("clusters", cluster(), {"metadata": {}, "spec": {}})
    assert asked("clusters", cluster(), {"metadata": {}})
    assert not asked("clusters", cluster(), cluster())


def test_same_class_name_in_another_namespace_is_a_change() -> None:
    assert asked("clusters", v1beta1(classNamespace="stacks"), v1beta1())
    assert asked("clusters", v1beta2(namespace="stacks"), v1beta2())


@pytest.mark.parametrize("name", ["quick-start", "openstack-scs-1-35-v0-sha-abc", "", "a-b-1-2-v1.0", "x--b-1-2-v1"])
def test_clusters_of_foreign_classes_are_not_reviewed(name: str) -> None:
    assert not asked("clusters", v1beta1(name))
    assert not asked("clusters", v1beta2(name))


@pytest.mark.parametrize("topology", [{}, {"classRef": {}}, {"version": "v1.35.1"}])
def test_topology_without_a_class_is_not_an_error(topology: dict[str, Any]) -> None:
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
def test_changed_addon_annotations_are_reviewed(new: dict[str, Any], old: dict[str, Any], *, asks: bool) -> None:
    assert asked("clusters", new, old) is asks


def varied(*variables: dict[str, Any]) -> dict[str, Any]:
    return v1beta2() | {"spec": {"topology": {**v1beta2()["spec"]["topology"], "variables": list(variables)}}}


def labelled(**labels: str) -> dict[str, Any]:
    return v1beta2() | {"metadata": {"labels": labels}}


PROD = {"name": "env", "value": {"tier": ["prod"]}}


@pytest.mark.regression("SEC-13")
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
def test_changed_labels_and_variables_are_reviewed(new: dict[str, Any], old: dict[str, Any], *, asks: bool) -> None:
    assert asked("clusters", new, old) is asks


def cluster_addon(name: str, /, **reference: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"clusterRef": {"kind": "Cluster", "name": "one", **reference}}}


@pytest.mark.regression("SEC-24")
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
def test_cluster_addon_created_by_the_operator_is_not_reviewed(addon: dict[str, Any], *, asks: bool) -> None:
    assert asked("clusteraddons", addon) is asks


def test_own_kinds_are_reviewed_when_validated_fields_change() -> None:
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


@pytest.mark.regression("SEC-24")
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
def test_release_with_an_allowed_provider_kind_is_not_reviewed(changes: dict[str, Any], *, needed: bool) -> None:
    reference = {key: value for key, value in {**OBJECT, **changes}.items() if value is not None}
    release = {"metadata": {"name": "r", "namespace": "team"}, "spec": {"providerRef": reference}}
    assert asked("clusterstackreleases", release) is needed


@pytest.mark.regression("SEC-4")
def test_release_with_another_provider_object_is_reviewed() -> None:
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


@pytest.mark.parametrize("kind", ["clusterstacks", "clusteraddons", "compatibilityrules", "clusterupgrades"])
def test_match_conditions_accept_objects_without_a_spec(kind: str) -> None:
    bare: dict[str, Any] = {"metadata": {"name": "bare"}}

    assert asked(kind, bare, bare)
    assert asked(kind, bare, {**bare, "spec": {}})
    assert asked(kind, {**bare, "spec": {}}, bare)


def test_operator_with_a_filter_reviews_only_its_objects() -> None:
    found = configuration(Endpoint(url="https://127.0.0.1:9"), WebhookScope("team", "ours"), b"CA")

    assert found["metadata"]["name"] == "cluster-stack-operator-team"
    for webhook in found["webhooks"]:
        assert webhook["clientConfig"] == {"url": "https://127.0.0.1:9/validate", "caBundle": "Q0E="}
        assert webhook["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "team"}}
        assert webhook["objectSelector"] == {"matchLabels": {"cluster.x-k8s.io/watch-filter": "ours"}}


def test_failure_policy_is_ignore_for_clusters_and_fail_for_own_kinds() -> None:
    policies = {name: (one["failurePolicy"], one["timeoutSeconds"]) for name, one in WEBHOOKS.items()}

    assert policies.pop("clusters") == ("Ignore", 5)
    assert set(policies.values()) == {("Fail", 10)}
    assert WEBHOOKS["clusters"]["clientConfig"]["service"] == {
        "namespace": "stacks",
        "name": "webhooks",
        "path": "/validate",
        "port": 443,
    }


@pytest.mark.regression("SEC-25")
@pytest.mark.parametrize("policy", ["Ignore", "Fail"])
def test_failure_policy_of_clusters_is_that_of_the_flag_and_own_kinds_always_fail(policy: str) -> None:
    flags = [f"--webhook-cluster-failure-policy={policy}"]
    scope = WebhookScope(cluster_failure_policy=parse_settings(flags).webhook_cluster_failure_policy)

    found = configuration(Endpoint(url="https://127.0.0.1:9"), scope, b"CA")["webhooks"]

    assert [webhook["failurePolicy"] for webhook in found] == ["Fail"] * 5 + [policy]


SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", namespaced=False)
WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)


class Server(FakeApi):
    """Stores applied objects unchanged; ``forbidden`` verbs are denied."""

    def __init__(self, *, forbidden: str = "") -> None:
        super().__init__(SECRETS, ROLES, WEBHOOK_CONFIGURATIONS)
        self.applied: list[Manifest] = []
        if forbidden:
            self.fail(forbidden, Forbidden(f"{forbidden}: 403 Forbidden: not you", status=403, reason="Forbidden"))

    async def apply(self, resource: Resource, manifest: Manifest, **how: Any) -> Manifest:
        await self._meet("apply", resource=resource, **how)
        self.applied.append(manifest)
        return manifest


async def registered(api: Server) -> Manifest:
    """Look once, and give the configuration."""
    listening = asyncio.Event()
    listening.set()
    keeper = CertificateRotator(
        client=api,
        secret=ObjectKey("home", "webhook"),
        endpoint=Endpoint(url="https://127.0.0.1:9443"),
        scope=WebhookScope(),
        context=server_context(),
        listening=listening,
        clock=SYSTEM_CLOCK,
    )
    await keeper.look()
    assert keeper.registered.is_set()
    (applied,) = api.applied
    return applied


async def with_role(api: Server) -> str:
    """Create the ClusterRole, and give its uid."""
    manifest: Manifest = {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "metadata": {"name": NAME}}
    uid: str = (await api.create(ROLES, manifest))["metadata"]["uid"]
    return uid


async def test_webhook_configuration_is_owned_by_the_cluster_role() -> None:
    api = Server()
    owner = {"apiVersion": ROLES.api_version, "kind": ROLES.kind, "name": NAME, "uid": await with_role(api)}
    assert (await registered(api))["metadata"]["ownerReferences"] == [owner]


async def test_webhook_configuration_without_a_cluster_role_has_no_owner() -> None:
    assert "ownerReferences" not in (await registered(Server()))["metadata"]


@pytest.mark.parametrize("verb", ["find_metadata", "apply"])
async def test_webhooks_are_registered_even_if_the_owner_reference_is_forbidden(verb: str) -> None:
    api = Server(forbidden=verb)
    await with_role(api)
    assert "ownerReferences" not in (await registered(api))["metadata"]
