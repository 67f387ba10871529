"""Invalid charts, conditions and clusters: each is a condition with object, cause and remedy.

Other objects are not affected, and a corrected object becomes ready.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.render.renderer import RenderLimits
from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from clusterstacks.net.kube.errors import ApiError
from clusterstacks.operator import app
from clusterstacks.runtime import controller
from tests.support.builders.stacks import INFRASTRUCTURE, config_map, stage, templates
from tests.support.running.world import condition_of, is_ready, is_unready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from tests.support.running.world import World

ADDON = "cluster-addon-one"
ENDLESS = "{{ range $i := until 100000 }}{{ range $j := until 100000 }}{{ end }}{{ end }}"
GREEDY = '{{ $text := "aaaaaaaaaaaaaaaa" }}{{ range until 40 }}{{ $text = cat $text $text }}{{ end }}'
LIMITS = RenderLimits(deadline=timedelta(minutes=2), memory_bytes=400 * 1024**2)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """Limit a render to little memory, and one that never ends to five seconds."""
    limits = replace(LIMITS, deadline=timedelta(seconds=5)) if "never ends" in case else LIMITS
    monkeypatch.setattr(app, "RenderLimits", lambda **_: limits)
    monkeypatch.setattr(controller, "STOP_DEADLINE", timedelta(seconds=0.1))


@dataclass(kw_only=True)
class Trouble:
    """One fault of an addon or its cluster.

    Args:
        condition: Of the ClusterAddon, False then.
        words: In its message; WORD is replaced by the test's own word.
        chart: Files laid over the addon's chart.
        stage: Fields of its stage.
        before: Done before the cluster exists; returns the correction.
        after: Done once the cluster exists; returns the correction.
    """

    condition: str
    reason: str
    words: tuple[str, ...]
    chart: Mapping[str, str] = field(default_factory=dict)
    stage: Mapping[str, Any] = field(default_factory=dict)
    before: Callable[[World], Awaitable[Callable[[], Awaitable[object]]]] | None = None
    after: Callable[[World], Awaitable[Callable[[], Awaitable[object]]]] | None = None


def check(expression: str, **watched: str) -> Manifest:
    """A pre-condition about one object of the workload cluster."""
    thing = {"apiVersion": "v1", "kind": "Namespace", "name": "kube-system", "key": "thing", **watched}
    return {"waitForPreCondition": {"objects": [thing], "conditions": expression}}


async def no_secret(world: World) -> Callable[[], Awaitable[object]]:
    secrets = await world.client.resource("", "Secret")
    await world.client.delete(secrets, "one-kubeconfig", world.namespace)
    return lambda: world.connect("one")


async def no_key(world: World) -> Callable[[], Awaitable[object]]:
    secret = await world.connect("one")
    await world.patch(secret, {"data": {"value": None}})
    return lambda: world.connect("one")


def kubeconfig(change: Callable[[Manifest], object]) -> Callable[[World], Awaitable[Callable[[], Awaitable[object]]]]:
    """Let the Secret hold a changed kubeconfig."""

    async def spoil(world: World) -> Callable[[], Awaitable[object]]:
        document = copy.deepcopy(dict(world.workload_kubeconfig))
        change(document)
        await world.connect("one", document)
        return lambda: world.connect("one")

    return spoil


def unreachable(document: Manifest) -> None:
    document["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"


def runs_a_command(document: Manifest) -> None:
    document["users"][0]["user"] = {"exec": {"command": "/bin/sh", "apiVersion": "client.authentication.k8s.io/v1"}}


def nobody(document: Manifest) -> None:
    document["users"][0]["user"]["as"] = "nobody"


async def refuse(client: Client, word: str, kinds: list[str]) -> Callable[[], Awaitable[object]]:
    """Play a webhook that refuses what has the word in its name."""
    group = "admissionregistration.k8s.io"
    policies = await client.resource(group, "ValidatingAdmissionPolicy")
    bindings = await client.resource(group, "ValidatingAdmissionPolicyBinding")
    rules = [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": kinds}]
    policy = {
        "apiVersion": policies.api_version,
        "kind": policies.kind,
        "metadata": {"name": word},
        "spec": {
            "matchConstraints": {"resourceRules": rules},
            "validations": [
                {"expression": f"!object.metadata.name.contains('{word}-refused')", "message": "not on Fridays"}
            ],
        },
    }
    await client.create(policies, policy)
    binding = {"policyName": word, "validationActions": ["Deny"]}
    await client.create(
        bindings,
        {"apiVersion": bindings.api_version, "kind": bindings.kind, "metadata": {"name": word}, "spec": binding},
    )
    probe = config_map(f"{word}-refused")
    await until_refused(client, {**probe, "metadata": {"name": f"{word}-refused-probe"}})

    async def mend() -> None:
        await client.delete(bindings, word)
        await client.delete(policies, word)

    return mend


async def until_refused(client: Client, probe: Manifest) -> None:
    """Wait until the policy is in force; no real object shows it."""
    maps = await client.resource("", "ConfigMap")

    async def look() -> bool:
        try:
            await client.apply(maps, probe, manager="tests", namespace="default", dry_run=True)
        except ApiError:
            return True
        return False

    await eventually(look, about="the policy in force")


async def webhook(world: World) -> Callable[[], Awaitable[object]]:
    return await refuse(world.workload, world.namespace, ["configmaps"])


TROUBLES = {
    "the chart fails": Trouble(
        condition="HelmChartTemplated",
        reason="TemplateNewClusterStackFailed",
        words=("addon WORD of local-WORD-1-35-v1", "templates/more.yaml:1", "no network"),
        chart={"templates/more.yaml": '{{ fail "no network" }}'},
    ),
    "the chart never ends": Trouble(
        condition="HelmChartTemplated",
        reason="TemplateNewClusterStackFailed",
        words=("addon WORD of local-WORD-1-35-v1", "took longer than 5 s"),
        chart={"templates/more.yaml": ENDLESS},
    ),
    "the chart eats memory": Trouble(
        condition="HelmChartTemplated",
        reason="TemplateNewClusterStackFailed",
        words=("addon WORD of local-WORD-1-35-v1", "memory"),
        chart={"templates/more.yaml": GREEDY},
    ),
    "the values lack something that they require": Trouble(
        condition="HelmChartTemplated",
        reason="TemplateNewClusterStackOverwriteFailed",
        words=("addon WORD of local-WORD-1-35-v1", "overwrite.yaml", "write spec.zone"),
        chart={"overwrite.yaml": 'values: |\n  a: {{ required "write spec.zone" .Cluster.spec.zone }}\n'},
    ),
    "an object is no object": Trouble(
        condition="HelmChartTemplated",
        reason="TemplateNewClusterStackFailed",
        words=("addon WORD of local-WORD-1-35-v1", "templates/more.yaml"),
        chart={"templates/more.yaml": "- a\n- b\n"},
    ),
    "an object has an unknown kind": Trouble(
        condition="HelmChartApplied",
        reason="ObjectsApplyingOngoing",
        words=("Unheard.example.org", "kube-system/lost"),
        chart={"templates/more.yaml": "apiVersion: example.org/v1\nkind: Unheard\nmetadata: {name: lost}"},
    ),
    "a condition does not compile": Trouble(
        condition="EvaluatedCEL",
        reason="FailedToEvaluatePreCondition",
        words=("stage WORD of local-WORD-1-35-v1", "thing."),
        stage=check("thing."),
    ),
    "a condition asks for what is not there": Trouble(
        condition="EvaluatedCEL",
        reason="FailedToEvaluatePreCondition",
        words=("stage WORD of local-WORD-1-35-v1", "nothing"),
        stage=check("thing.status.nothing == 1"),
    ),
    "a condition does not hold": Trouble(
        condition="Ready",
        reason="ConditionNotMet",
        words=("stage WORD of local-WORD-1-35-v1", "thing.metadata.name == 'other'"),
        stage=check("thing.metadata.name == 'other'"),
    ),
    "a condition watches what does not exist": Trouble(
        condition="Ready",
        reason="ConditionNotMet",
        words=("stage WORD of local-WORD-1-35-v1", "Namespace away"),
        stage=check("true", name="away"),
    ),
    "there is no kubeconfig": Trouble(
        condition="ClusterReady",
        reason="ControlPlaneNotReady",
        words=("Secret WORD/one-kubeconfig", "does not exist yet"),
        after=no_secret,
    ),
    "the kubeconfig is empty": Trouble(
        condition="ClusterReady",
        reason="ControlPlaneNotReady",
        words=("Secret WORD/one-kubeconfig", "has no key 'value'"),
        after=no_key,
    ),
    "the kubeconfig runs a command": Trouble(
        condition="ClusterReady",
        reason="",
        words=("Secret WORD/one-kubeconfig", "exec"),
        after=kubeconfig(runs_a_command),
    ),
    "the cluster is not reachable": Trouble(
        condition="ClusterReady",
        reason="ControlPlaneNotReady",
        words=("API server of Cluster WORD/one", "127.0.0.1:1"),
        after=kubeconfig(unreachable),
    ),
    "everything is forbidden": Trouble(
        condition="HelmChartApplied",
        reason="FailedToApplyObjects",
        words=("list Secret in kube-system: 403 Forbidden", "the same request with kubectl shows it"),
        after=kubeconfig(nobody),
    ),
    "a webhook refuses an object": Trouble(
        condition="HelmChartApplied",
        reason="ObjectsApplyingOngoing",
        words=("ConfigMap kube-system/WORD-refused", "not on Fridays"),
        before=webhook,
    ),
}


@pytest.mark.parametrize("case", TROUBLES)
async def test_addons_with_bad_input_are_not_ready_until_it_is_corrected(world: World, case: str) -> None:
    trouble, word = TROUBLES[case], world.namespace
    mends = [await trouble.before(world)] if trouble.before else []
    sound = templates(config_map(f"{word}-fine"), config_map(f"{word}-refused"))
    first, second = world.stack.release("v1"), world.stack.release("v2")
    hooks = {"AfterControlPlaneInitialized": [stage(word, **trouble.stage)]}
    world.publish(first, world.stack.files("v1", {word: {**sound, **trouble.chart}}, hooks=hooks))
    world.publish(second, world.stack.files("v2", {word: sound}))
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", "v2"))
        await world.release_ready(first)
        cluster = await world.cluster("one", first.class_name, ready=trouble.after is None)
        if trouble.after:
            mends.append(await trouble.after(world))
            await world.finish(cluster)
        words = [expected.replace("WORD", word) for expected in trouble.words]
        await world.says(Kind.CLUSTER_ADDON, ADDON, trouble.condition, trouble.reason, words=words)
        addon = await world.addon("one")
        assert is_unready(addon)
        assert condition_of(addon, "Ready")["status"] == "False"
        # USER-10: one reason for one cause, on the ClusterAddon and on its Cluster.
        reason = condition_of(addon, "Ready")["reason"]
        await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsReady", reason, words=words)
        await world.another_is_ready()

        for mend in mends:
            await mend()
        if not mends:
            await world.release_ready(second)
            await world.set_class("one", second.class_name)
        wanted = first if mends else second
        await world.until(
            Kind.CLUSTER_ADDON,
            ADDON,
            lambda one: is_ready(one) and one["spec"]["clusterStack"] == wanted.class_name,
            nudging=True,
        )


CLASSES = {
    "fails": (
        '{{ fail "no image" }}',
        "FailedToApplyObjects",
        ("cluster class of RELEASE", "templates/more.yaml:1", "no image"),
    ),
    "never ends": (ENDLESS, "FailedToApplyObjects", ("cluster class of RELEASE", "took longer than 5 s")),
    "eats memory": (GREEDY, "FailedToApplyObjects", ("cluster class of RELEASE", "memory")),
    "holds a Secret": (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: stolen}",
        "FailedToApplyObjects",
        ("Secret", "stolen", "remove it from the chart"),
    ),
    "holds an object of another namespace": (
        f"apiVersion: {INFRASTRUCTURE}\nkind: TinyClusterTemplate\nmetadata: {{name: away, namespace: default}}",
        "FailedToApplyObjects",
        ("TinyClusterTemplate", "default/away"),
    ),
    "is refused by a webhook": (
        f"apiVersion: {INFRASTRUCTURE}\nkind: TinyMachineTemplate\nmetadata: {{name: WORD-refused}}",
        "ObjectsApplyingOngoing",
        ("TinyMachineTemplate", "WORD-refused", "not on Fridays"),
    ),
}


@pytest.mark.parametrize("case", CLASSES)
async def test_release_with_an_invalid_class_is_not_ready(world: World, case: str) -> None:
    text, reason, words = CLASSES[case]
    word = world.namespace
    mend = await refuse(world.client, word, ["configmaps", "tinymachinetemplates"])
    name, second = world.stack.release("v1"), world.stack.release("v2")
    world.publish(name, world.stack.files("v1", {}, class_files={"templates/more.yaml": text.replace("WORD", word)}))
    world.publish(second, world.stack.files("v2", {}))
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1"))
        expected = [one.replace("WORD", word).replace("RELEASE", name.release) for one in words]
        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "HelmChartApplied", reason, words=expected)
        assert is_unready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))
        await world.another_is_ready()

        await mend()
        if reason == "ObjectsApplyingOngoing":
            await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, nudging=True)
        else:
            stack = await world.get(Kind.CLUSTER_STACK, word)
            await world.patch(stack, {"spec": {"versions": ["v2"]}})
            await world.release_ready(second)
            await world.gone(Kind.CLUSTER_STACK_RELEASE, name.release)
