"""A SIGKILL at every request of a delivery, an upgrade and a prune; the next run converges."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.delivery_plan import AbandonedRevision, DeliveryState
from clusterstacks.deliver.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.deliver.apply.policy import RECREATE_ANNOTATION
from clusterstacks.model.objects import split_api_version
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.kube.resources import Resource
from clusterstacks.runtime.concurrency import gather
from tests.support.builders.manifests import config_map, crd, deployment, named, with_annotation
from tests.support.observing.client_requests import Killed, Recorder

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.integration.apply.conftest import Cluster

MOST_REQUESTS = 60
"""More than any run here makes; a run that is not killed ends the loop."""
AT_ONCE = 16


def chart(prefix: str, version: str) -> list[Manifest]:
    """Two revisions: objects that stay, change, come and go, a CRD with its resource, a once-only take-over."""
    group = f"{prefix}.example.org"
    manifests = [
        named("v1", "Namespace", prefix),
        crd("Widget", group),
        named(f"{group}/v1", "Widget", "first", prefix, spec={"version": version}),
        config_map("same", prefix, key="value"),
        config_map("changing", prefix, key=version),
        config_map("inherited", prefix, key=version),
        deployment("app", prefix, replicas=1 if version == "old" else 2),
        config_map(f"only-in-{version}", prefix),
        with_annotation(
            {**config_map("recreated", prefix, key=version), "immutable": True}, RECREATE_ANNOTATION, "allowed"
        ),
    ]
    if version == "old":
        manifests.append(named(f"{group}/v1", "Widget", "second", prefix))
    return manifests


async def prepare(client: Client, prefix: str) -> None:
    """Leave what the Go operator would have left."""
    await client.create(await client.resource("", "Namespace"), named("v1", "Namespace", prefix))
    inherited = config_map("inherited", prefix, key="go", gone="go")
    inherited["metadata"]["labels"] = {OWNED_LABEL: "owned"}
    await client.apply(await client.resource("", "ConfigMap"), inherited, manager="kubectl", force=True)


async def run(client: Client, prefix: str, versions: tuple[str, ...]) -> None:
    for version in versions:
        delivery = Delivery(client)
        report = await delivery.install(prefix, Revision.of(chart(prefix, version), version))
        assert report.synced, [one.error for one in report.objects if not one.synced]
        assert (await delivery.prune_addon(prefix)).complete


async def end_state(cluster: Cluster, prefix: str) -> dict[str, Any]:
    """Everything in the namespace, without what differs between any two runs."""
    found: dict[str, Any] = {}
    for place in (
        Resource("", "v1", "ConfigMap", "configmaps", namespaced=True),
        Resource("apps", "v1", "Deployment", "deployments", namespaced=True),
        Resource(f"{prefix}.example.org", "v1", "Widget", "widgets", namespaced=True),
    ):
        for item in (await cluster.user.list(place, prefix)).items:
            metadata = item["metadata"]
            labels = {key: value for key, value in metadata.get("labels", {}).items() if key != PART_OF_LABEL}
            managers = sorted(entry["manager"] for entry in metadata["managedFields"])
            found[f"{place.kind} {metadata['name']}"] = (item.get("data"), item.get("spec"), labels, managers)
    return found


async def at_each_request(attempt: Callable[[int], Awaitable[bool]]) -> None:
    """Kill a run at each of its requests; ``attempt`` returns whether the run was killed at its request of a number.

    Several at a time, as the end of a Namespace takes five seconds.
    """
    for first in range(1, MOST_REQUESTS, AT_ONCE):
        if not all(await gather(attempt, range(first, first + AT_ONCE))):
            return
    pytest.fail("a run made more requests than expected")


@pytest.mark.parametrize("after", [False, True], ids=["lost", "answered"])
@pytest.mark.parametrize("versions", [("old",), ("old", "new")], ids=["install", "upgrade"])
@pytest.mark.timeout(900)
async def test_delivery_killed_at_any_request_converges_to_the_same_state(
    cluster: Cluster, unique: str, versions: tuple[str, ...], *, after: bool
) -> None:
    await prepare(cluster.user, unique)
    await run(cluster.client, unique, versions)
    expected = await end_state(cluster, unique)

    async def attempt(number: int) -> bool:
        prefix = f"{unique}-{number}"
        await prepare(cluster.user, prefix)
        await run(cluster.user, prefix, versions[:-1])
        victim = cluster.new_client()
        requests = Recorder.on(victim, kill_at=number, kill_after=after)
        killed = False
        try:
            await run(victim, prefix, versions[-1:])
            assert len(requests.calls) < number
        except Killed:
            killed = True
            await settles(cluster, prefix, versions[-1])
        finally:
            await victim.close()
        assert await end_state(cluster, prefix) == expected, number
        await Delivery(cluster.user).remove(prefix)
        return killed

    await at_each_request(attempt)


async def roll_back(client: Client, prefix: str) -> None:
    """Return to the healthy revision; continue like the operator where the record says that this has begun."""
    delivery = Delivery(client)
    record = (await delivery.records())[prefix]
    if record.abandoned is None:
        healthy = await delivery.healthy(prefix)
        assert healthy is not None
        manifests = await healthy.manifests()
    else:
        assert record.abandoned == ABANDONED
        found = await delivery.manifests(prefix)
        assert found is not None
        manifests = found
    report = await delivery.install(prefix, Revision.of(manifests, "old"), abandoned=ABANDONED)
    assert report.synced, [one.error for one in report.objects if not one.synced]
    assert (await delivery.prune_addon(prefix)).complete


ABANDONED = AbandonedRevision("new", "demo-a-1-34-v2", "demo-a-1-34-v1", "0 of 2 replicas are available")


@pytest.mark.parametrize("after", [False, True], ids=["lost", "answered"])
@pytest.mark.timeout(900)
async def test_rollback_killed_at_any_request_converges_to_the_healthy_revision(
    cluster: Cluster, unique: str, *, after: bool
) -> None:
    async def attempt(number: int) -> bool:
        prefix = f"{unique}-{number}"
        await prepare(cluster.user, prefix)
        await run(cluster.user, prefix, ("old",))
        assert await Delivery(cluster.user).keep_healthy(prefix, "demo-a-1-34-v1")
        expected = await end_state(cluster, prefix)
        # The prune is what a rollout does after its last stage, which a stage that failed never reaches.
        assert (await Delivery(cluster.user).install(prefix, Revision.of(chart(prefix, "new"), "new"))).synced
        victim, heir = cluster.new_client(), cluster.new_client()
        requests = Recorder.on(victim, kill_at=number, kill_after=after)
        killed = False
        try:
            await roll_back(victim, prefix)
            assert len(requests.calls) < number
        except Killed:
            killed = True
            await roll_back(heir, prefix)
        assert await end_state(cluster, prefix) == expected, number
        record = (await Delivery(heir).records())[prefix]
        assert (record.state, record.abandoned) == (DeliveryState.PRUNED, ABANDONED)
        again = Recorder.on(heir)
        await roll_back(heir, prefix)
        assert again.writes == []
        await victim.close()
        await heir.close()
        await Delivery(cluster.user).remove(prefix)
        return killed

    await at_each_request(attempt)


def large_chart(prefix: str, version: str) -> list[Manifest]:
    """160 objects of the kinds that charts have; every second one differs between the versions."""
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}
    manifests: list[Manifest] = []
    for number in range(40):
        name, word = f"{prefix}-{number}", version if number % 2 else "same"
        app = deployment(name, "kube-system", image=f"example.org/app:{word}")
        container = app["spec"]["template"]["spec"]["containers"][0]
        container["ports"] = [{"containerPort": 80, "name": "web"}, {"containerPort": 81}]
        container["env"] = [{"name": "A", "value": word}, {"name": "B", "value": ""}]
        container["resources"] = {"requests": {"cpu": "100m", "memory": "64Mi"}}
        container["volumeMounts"] = [{"name": "scratch", "mountPath": "/tmp"}]
        app["spec"]["template"]["spec"]["volumes"] = [{"name": "scratch", "emptyDir": {}}]
        ports = [{"name": "web", "port": 80, "targetPort": "web"}]
        service = {"selector": {"app": name}, "ports": ports, "sessionAffinity": "None" if number % 2 else "ClientIP"}
        manifests += [
            app,
            config_map(name, "kube-system", key=word, **({} if version == "new" else {"old": "value"})),
            named("v1", "Service", name, "kube-system", spec=service),
            named(
                "rbac.authorization.k8s.io/v1", "Role", name, "kube-system", rules=[{**rule, "resourceNames": [word]}]
            ),
        ]
    return manifests


@pytest.mark.parametrize(("versions", "kill_at"), [(("old",), 158), (("old", "new"), 86)], ids=["install", "upgrade"])
async def test_kill_in_the_middle_of_a_large_delivery_sends_at_most_ten_objects_again(
    cluster: Cluster, unique: str, versions: tuple[str, ...], kill_at: int
) -> None:
    before: dict[str, str] = {}
    for version in versions[:-1]:
        await Delivery(cluster.user).install(unique, Revision.of(large_chart(unique, version), version))
        before = await sent_objects(cluster.user, unique)
    revision = Revision.of(large_chart(unique, versions[-1]), versions[-1])
    victim, heir = cluster.new_client(), cluster.new_client()
    Recorder.on(victim, kill_at=kill_at)
    with pytest.raises(Killed):
        await Delivery(victim).install(unique, revision)
    await victim.close()
    applied = {name for name, state in (await sent_objects(cluster.user, unique)).items() if before.get(name) != state}
    assert len(applied) > 20
    requests = Recorder.on(heir)

    report = await Delivery(heir).install(unique, revision)

    assert report.synced, [one.error for one in report.objects if not one.synced]
    again = [call for call in requests.calls if call.startswith("apply") and call.removeprefix("apply ") in applied]
    assert len(again) <= 10, again
    await settles_as(heir, requests, unique, revision)


async def settles_as(client: Client, requests: Recorder, addon: str, revision: Revision) -> None:
    """Deliver once more, which writes nothing: the record has the state that the server returned."""
    requests.calls.clear()
    await Delivery(client).install(addon, revision)
    assert requests.writes == []


async def sent_objects(client: Client, prefix: str) -> dict[str, str]:
    """Return the resourceVersions of the objects of ``large_chart``, by kind and name as in the calls of a Recorder."""
    found: dict[str, str] = {}
    for group, kind in (
        ("apps", "Deployment"),
        ("", "ConfigMap"),
        ("", "Service"),
        ("rbac.authorization.k8s.io", "Role"),
    ):
        for item in (await client.list_metadata(await client.resource(group, kind), "kube-system")).items:
            metadata = item["metadata"]
            if metadata["name"].startswith(f"{prefix}-"):
                found[f"{kind}{group and '.'}{group} kube-system/{metadata['name']}"] = metadata["resourceVersion"]
    return found


async def settles(cluster: Cluster, prefix: str, version: str) -> None:
    """Run again; then nothing is left to write, and the record lists the live objects."""
    heir = cluster.new_client()
    await run(heir, prefix, (version,))
    requests = Recorder.on(heir)
    await run(heir, prefix, (version,))
    assert requests.writes == []
    record = (await Delivery(heir).records())[prefix]
    assert record.state is DeliveryState.PRUNED
    assert {known.id.name for known in record.members} == {one["metadata"]["name"] for one in chart(prefix, version)}
    await heir.close()


def selecting(name: str, **selector: str) -> Manifest:
    return named("v1", "Service", name, spec={"ports": [{"port": 80}], "selector": selector})


def reading(name: str, **rule: list[str]) -> Manifest:
    rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], **rule}]
    return named("rbac.authorization.k8s.io/v1", "Role", name, rules=rules)


def admitting(name: str, **peer: Any) -> Manifest:
    spec = {"podSelector": {}, "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "a"}}, **peer}]}]}
    return named("networking.k8s.io/v1", "NetworkPolicy", name, spec=spec)


def with_pod(name: str, **fields: Any) -> Manifest:
    manifest = deployment(name)
    manifest["spec"]["template"]["spec"].update(fields)
    return manifest


def with_container(name: str, **fields: Any) -> Manifest:
    manifest = deployment(name)
    manifest["spec"]["template"]["spec"]["containers"][0].update(fields)
    return manifest


def account(name: str, **fields: Any) -> Manifest:
    return named("v1", "ServiceAccount", name, **fields)


PORT = {"containerPort": 53, "protocol": "UDP"}
CHANGES: list[tuple[Manifest, Manifest]] = [
    (selecting("selector", app="a", track="b"), selecting("selector", app="a")),
    (reading("resource-names", resourceNames=["a"]), reading("resource-names")),
    (admitting("peer", namespaceSelector={}), admitting("peer")),
    (
        with_pod("toleration", tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule"}]),
        with_pod("toleration", tolerations=[{"key": "a", "operator": "Exists"}]),
    ),
    (with_pod("node-selector", nodeSelector={"a": "b", "c": "d"}), with_pod("node-selector", nodeSelector={"a": "b"})),
    (with_container("port", ports=[{"containerPort": 53}, PORT]), with_container("port", ports=[PORT])),
    (with_container("args", args=["a", "b"]), with_container("args", args=["b"])),
    (with_container("privileged"), with_container("privileged", securityContext={"allowPrivilegeEscalation": False})),
    (with_container("read-only"), with_container("read-only", securityContext={})),
    (deployment("replicas"), deployment("replicas", replicas=0)),
    (account("token"), account("token", automountServiceAccountToken=False)),
    (config_map("data", a="1"), config_map("data", a="1", feature="")),
    (config_map("no-data", a="1"), named("v1", "ConfigMap", "no-data", data={})),
]
"""Objects before and after a change of which the server keeps little or nothing in the managed fields."""


async def test_a_change_that_never_reached_the_server_is_sent_by_the_next_delivery(
    cluster: Cluster, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object, **__: object) -> None:
        raise Unreachable("connection reset")

    broken = cluster.new_client()
    monkeypatch.setattr(broken, "apply", unreachable)
    states = {}
    for prefix, first in ((f"{unique}-direct", cluster.client), (f"{unique}-broken", broken)):
        namespace = named("v1", "Namespace", prefix)
        old, new = (
            Revision.of([namespace, *(in_namespace(pair[version], prefix) for pair in CHANGES)], str(version))
            for version in (0, 1)
        )
        assert (await Delivery(cluster.client).install(prefix, old)).synced
        with suppress(Unreachable):
            await Delivery(first).install(prefix, new)
        assert (await Delivery(cluster.client).install(prefix, new)).synced
        states[prefix] = [await content(cluster, manifest, prefix) for _, manifest in CHANGES]

    direct, broken_first = states.values()
    assert broken_first == direct


def in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


async def content(cluster: Cluster, manifest: Manifest, namespace: str) -> Manifest:
    group, _ = split_api_version(manifest["apiVersion"])
    live = await cluster.live(manifest["kind"], manifest["metadata"]["name"], namespace, group)
    assert live is not None
    for field in ("clusterIP", "clusterIPs"):
        live.get("spec", {}).pop(field, None)
    return {key: value for key, value in live.items() if key not in {"metadata", "status"}}
