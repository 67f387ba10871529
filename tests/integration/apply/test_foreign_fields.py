"""Fields that belong to other writers keep their values in upgrades, rollbacks and corrections on a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.policy import RECREATE_ANNOTATION
from clusterstacks.deliver.apply.targets import digest_of
from clusterstacks.model.drift_settings import DriftSettings, IgnoredDifference, parse_pointer
from tests.integration.apply.test_sweep import SPACE, Sweeps, User, injected, webhooks
from tests.support.builders.every_kind import stateful_set
from tests.support.builders.manifests import config_map, crd, deployment, named, with_annotation
from tests.support.running.world import install

if TYPE_CHECKING:
    from clusterstacks.deliver.apply.results import ObjectResult
    from clusterstacks.model.objects import Manifest
    from tests.integration.apply.conftest import Cluster

RBAC = "rbac.authorization.k8s.io/v1"
RULE: Manifest = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}


async def deliver(
    cluster: Cluster, unique: str, *manifests: Manifest, settings: DriftSettings | None = None
) -> dict[str, ObjectResult]:
    ignored = (settings or DriftSettings()).ignored_fields
    revision = Revision.of(manifests, digest_of(list(manifests)))
    report = await Delivery(cluster.client, ignored=ignored).install(unique, revision)
    assert report.synced, [one.error for one in report.objects]
    return {one.id.kind: one for one in report.objects}


async def live_of(user: User) -> Manifest:
    live = await user.live()
    assert live is not None
    return live


def autoscaler(target: Manifest) -> Manifest:
    name = target["metadata"]["name"]
    reference = {key: target[key] for key in ("apiVersion", "kind")} | {"name": name}
    spec = {"scaleTargetRef": reference, "minReplicas": 1, "maxReplicas": 9}
    return named("autoscaling/v2", "HorizontalPodAutoscaler", name, SPACE, spec=spec)


def labelled(manifest: Manifest, value: str) -> Manifest:
    """Return a manifest that differs from that of another version."""
    return {**manifest, "metadata": {**manifest["metadata"], "labels": {"version": value}}}


@pytest.mark.regression("CASE-07", "LIVE-LV-2")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "Gadget"])
async def test_replicas_of_an_autoscaler_survive(cluster: Cluster, unique: str, kind: str) -> None:
    group = f"{unique}.example.org"
    objects = {
        "Deployment": deployment(unique, SPACE, replicas=2),
        "StatefulSet": stateful_set(unique, SPACE),
        "Gadget": named(f"{group}/v1", "Gadget", unique, SPACE, spec={"replicas": 2}),
    }
    await install(cluster.user, [crd("Gadget", group)])
    scaled = objects[kind]
    scaler, user = autoscaler(scaled), User(cluster, scaled)
    await deliver(cluster, unique, scaled, scaler)
    assert (await live_of(user))["spec"]["replicas"] == 2
    scale = {} if kind == "Gadget" else {"subresource": "scale"}
    await user.patch({"spec": {"replicas": 6}}, manager="kube-controller-manager", **scale)
    sweeps = Sweeps(cluster, unique)
    assert await sweeps.find() == []

    for version in ("upgrade", "rollback"):
        results = await deliver(cluster, unique, labelled(scaled, version), scaler)

        assert (await live_of(user))["spec"]["replicas"] == 6
        assert results[kind].changed
        assert results[kind].conflicts == ()

    await user.patch({"metadata": {"labels": {"version": "edited"}}})
    (corrected,) = await Sweeps(cluster, unique).restore()

    assert [field.path for field in corrected.fields] == [".metadata.labels.version"]
    live = await live_of(user)
    assert (live["spec"]["replicas"], live["metadata"]["labels"]["version"]) == (6, "rollback")
    assert await Sweeps(cluster, unique).find() == []

    # Without its autoscaler, the replicas are those of the chart again.
    await User(cluster, scaler).delete()
    results = await deliver(cluster, unique, labelled(scaled, "unscaled"))
    assert (await live_of(user))["spec"]["replicas"] == 2
    assert [one.field for one in results[kind].conflicts] == [".spec.replicas"]


@pytest.mark.regression("CASE-07")
async def test_an_autoscaled_object_that_is_created_again_keeps_its_replicas(cluster: Cluster, unique: str) -> None:
    scaled = with_annotation(deployment(unique, SPACE, replicas=2), RECREATE_ANNOTATION, "allowed")
    user, scaler = User(cluster, scaled), autoscaler(scaled)
    before = await deliver(cluster, unique, scaled, scaler)
    await user.patch({"spec": {"replicas": 6}}, subresource="scale", manager="kube-controller-manager")
    other = with_annotation(deployment(unique, SPACE, replicas=2), RECREATE_ANNOTATION, "allowed")
    other["spec"]["selector"]["matchLabels"]["other"] = "1"
    other["spec"]["template"]["metadata"]["labels"]["other"] = "1"

    after = await deliver(cluster, unique, other, scaler)

    assert after["Deployment"].uid != before["Deployment"].uid
    assert (await live_of(user))["spec"]["replicas"] == 6


def certificates(unique: str) -> dict[str, tuple[Manifest, tuple[str | int, ...]]]:
    """Return objects with a certificate that another controller injects, and the path of the value around it."""
    hook: tuple[str | int, ...] = ("webhooks", 0, "clientConfig")
    placeholder = webhooks("MutatingWebhookConfiguration", unique, caBundle="Cg==")
    converted = crd("Converted", f"{unique}.example.org", versions=("v1", "v2"))
    client = {"url": "https://127.0.0.1:1/", "caBundle": ""}
    converted["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]},
    }
    served = {"group": f"served.{unique}.example.org", "version": "v1", "groupPriorityMinimum": 100}
    service = {"name": "none", "namespace": SPACE}
    name = f"v1.served.{unique}.example.org"
    api = {**served, "versionPriority": 100, "service": service, "caBundle": ""}
    return {
        "empty": (webhooks("ValidatingWebhookConfiguration", unique, caBundle=""), hook),
        "placeholder": (with_annotation(placeholder, "cert-manager.io/inject-ca-from", "a/b"), hook),
        "conversion": (converted, ("spec", "conversion", "webhook", "clientConfig")),
        "api": (named("apiregistration.k8s.io/v1", "APIService", name, spec=api), ("spec",)),
    }


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


@pytest.mark.regression("LIVE-LV-2")
@pytest.mark.parametrize("case", ["empty", "placeholder", "conversion", "api"])
async def test_injected_certificates_survive_also_in_objects_that_did_not_change(
    cluster: Cluster, unique: str, case: str
) -> None:
    manifest, path = certificates(unique)[case]
    user, kind = User(cluster, manifest), manifest["kind"]
    await deliver(cluster, unique, manifest)
    assert (at(await live_of(user), path).get("caBundle") or "") == at(manifest, path)["caBundle"]
    if path[0] == "webhooks":
        await injected(cluster.authority)(user)
    else:
        value: Any = {"caBundle": cluster.authority}
        for step in reversed(path):
            value = {step: value}
        await user.patch(value, manager="cainjector")

    for version, sent in (("unchanged", manifest), ("changed", labelled(manifest, "2")), ("rollback", manifest)):
        results = await deliver(cluster, unique, sent, config_map(unique, SPACE, version=version))

        assert at(await live_of(user), path)["caBundle"] == cluster.authority
        assert results[kind].conflicts == ()

    await user.patch({"metadata": {"labels": {"clusterstack.x-k8s.io/instance": "edited"}}})
    assert [one.error for one in await Sweeps(cluster, unique).restore()] == [""]
    live = await live_of(user)
    assert at(live, path)["caBundle"] == cluster.authority
    assert live["metadata"]["labels"]["clusterstack.x-k8s.io/instance"] == "owned"
    await user.delete()


@pytest.mark.regression("CASE-05")
@pytest.mark.parametrize("rules", [[], None, [{**RULE, "verbs": ["list"]}]])
async def test_rules_of_an_aggregated_role_belong_to_the_control_plane(
    cluster: Cluster, unique: str, rules: list[Manifest] | None
) -> None:
    selected = {"clusterRoleSelectors": [{"matchLabels": {f"{unique}.example.org/aggregate": "true"}}]}
    role = named(RBAC, "ClusterRole", unique, aggregationRule=selected)
    user = User(cluster, role)
    sent = role if rules is None else {**role, "rules": rules}
    await deliver(cluster, unique, sent)
    aggregated = [RULE]
    await user.apply("clusterrole-aggregation-controller", rules=aggregated)
    sweeps = Sweeps(cluster, unique)
    assert await sweeps.find() == []

    await deliver(cluster, unique, labelled(sent, "2"))
    assert (await live_of(user))["rules"] == aggregated

    await user.patch({"metadata": {"labels": {"version": "edited"}}})
    (corrected,) = await Sweeps(cluster, unique).restore()

    assert [field.path for field in corrected.fields] == [".metadata.labels.version"]
    assert (await live_of(user))["rules"] == aggregated
    assert await Sweeps(cluster, unique).find() == []


@pytest.mark.regression("CASE-07")
async def test_fields_of_ignore_differences_keep_their_values_in_an_upgrade(cluster: Cluster, unique: str) -> None:
    def settings(*pointers: str) -> DriftSettings:
        return DriftSettings(ignored=(IgnoredDifference("ConfigMap", "", tuple(map(parse_pointer, pointers))),))

    some = settings("/data/free", "/data/removed", "/metadata/annotations/example.org~1owner")
    first = with_annotation(config_map(unique, SPACE, free="1", removed="1", bound="1"), "example.org/owner", "chart")
    user = User(cluster, first)
    await deliver(cluster, unique, first, settings=some)
    assert (await live_of(user))["data"] == first["data"]
    annotated = {"annotations": {"example.org/owner": "team"}}
    await user.patch({"metadata": annotated, "data": {"free": "2", "removed": None, "bound": "2", "more": "2"}})
    second = with_annotation(config_map(unique, SPACE, free="3", removed="3", bound="3"), "example.org/owner", "chart")

    results = await deliver(cluster, unique, second, settings=some)

    live = await live_of(user)
    assert live["data"] == {"free": "2", "bound": "3", "more": "2"}
    assert live["metadata"]["annotations"] == annotated["annotations"]
    assert [one.field for one in results["ConfigMap"].conflicts] == [".data.bound"]
    assert await Sweeps(cluster, unique, some).find() == []

    # A setting that is withdrawn counts at the next comparison.
    (corrected,) = await Sweeps(cluster, unique).restore()
    assert {field.path for field in corrected.fields} == {
        ".data.free",
        ".data.removed",
        '.metadata.annotations["example.org/owner"]',
    }
    assert (await live_of(user))["data"] == {**second["data"], "more": "2"}
