"""Differences that are drift on a real API server and are restored, and those that are none."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.health import members_selector
from clusterstacks.deliver.apply.live_members import LiveMembers, read_live_members
from clusterstacks.deliver.apply.ownership import PART_OF_LABEL
from clusterstacks.deliver.apply.sweep import Sweep, SweepMemory
from clusterstacks.model.drift_settings import DriftSettings, IgnoredDifference, parse_pointer
from clusterstacks.model.objects import ObjectId, object_id
from clusterstacks.net.kube.errors import Conflict
from clusterstacks.net.kube.paged_list import PAGE_SIZE
from tests.support.builders.every_kind import KEEPS_FINALIZER, SCALED, edit_of, every_kind, placed, stateful_set
from tests.support.builders.manifests import config_map, crd, deployment, named, pod_template, with_annotation
from tests.support.running.doc_pages import CHECKOUT
from tests.support.running.world import install
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.deliver.apply.drift_rules import DriftedObject
    from clusterstacks.deliver.apply.sweep import Drift, Render
    from clusterstacks.model.objects import Manifest
    from tests.integration.apply.conftest import Cluster

DEMO = CHECKOUT / "examples" / "stacks" / "local" / "demo"
SPACE = "default"
IMAGE = "example.org/app:1"


async def deliver(cluster: Cluster, name: str, *manifests: Manifest) -> None:
    report = await Delivery(cluster.client).install(name, Revision.of(manifests, "1"))
    assert report.synced, [one.error for one in report.objects if not one.synced]


class Sweeps:
    """The sweeps of one addon, with the memory of the operator in between, also of lists that did not change."""

    def __init__(self, cluster: Cluster, addon: str, settings: DriftSettings = DriftSettings()) -> None:  # noqa: B008
        self.cluster, self.addon, self.settings = cluster, addon, settings
        self.memory: SweepMemory | None = None
        self.members = LiveMembers({}, {})
        self.render: Render | None = None

    async def begin(self) -> tuple[Sweep, dict[ObjectId, bytes]]:
        if self.memory is None:
            records = await Delivery(self.cluster.client).records()
            self.memory = SweepMemory({known.id: self.addon for known in records[self.addon].objects})
        labels = members_selector([self.addon])
        self.members = await read_live_members(
            self.cluster.client, self.memory.objects, labels=labels, known=self.memory.settled
        )
        sweep = Sweep(
            client=self.cluster.client,
            delivery=Delivery(self.cluster.client, ignored=self.settings.ignored_fields),
            memory=self.memory,
            live=self.members.live,
            render=self.render,
        )
        return sweep, self.memory.suspects(self.members)

    async def find(self) -> list[Drift]:
        sweep, suspects = await self.begin()
        found = await sweep.find(suspects)
        assert self.memory is not None
        self.memory.settle(self.members, [])
        return found

    async def restore(self) -> list[DriftedObject]:
        sweep, suspects = await self.begin()
        restored = await sweep.restore(await sweep.find(suspects))
        assert self.memory is not None
        self.memory.settle(self.members, [])
        return restored


class User:
    """Another writer of the cluster."""

    def __init__(self, cluster: Cluster, manifest: Manifest) -> None:
        self.cluster, self.manifest = cluster, manifest
        self.name, self.namespace = manifest["metadata"]["name"], manifest["metadata"].get("namespace", "")

    async def resource(self) -> Any:
        group, _, version = self.manifest["apiVersion"].rpartition("/")
        return await self.cluster.user.resource(group, self.manifest["kind"], version)

    async def patch(self, patch: Manifest, *, subresource: str = "", manager: str = "editor") -> None:
        await self.cluster.user.merge_patch(
            await self.resource(), self.name, patch, self.namespace, subresource=subresource, manager=manager
        )

    async def apply(self, manager: str, **fields: Any) -> None:
        metadata = {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}
        kept = {key: self.manifest[key] for key in ("apiVersion", "kind")}
        sent = {**kept, "metadata": {**metadata, **fields.pop("metadata", {})}, **fields}
        await self.cluster.user.apply(await self.resource(), sent, manager=manager, force=True)

    async def delete(self) -> None:
        await self.cluster.user.delete(await self.resource(), self.name, self.namespace)

        async def gone() -> bool:
            return await self.live() is None

        await eventually(gone, seconds=60, about=f"the end of {self.name}")

    async def live(self) -> Manifest | None:
        return await self.cluster.user.find(await self.resource(), self.name, self.namespace)


# What never counts

Change = tuple["Manifest", "Callable[[User], Any]"]


def workload(name: str, **container: Any) -> Manifest:
    manifest = deployment(name, SPACE)
    manifest["spec"].pop("replicas")
    manifest["spec"]["template"]["spec"]["containers"][0] |= container
    return manifest


def containers(*extra: Manifest, **fields: Any) -> Manifest:
    """Return the patch of a user's client that sends the list as a whole."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": IMAGE, **fields}, *extra]}}}}


def webhooks(kind: str, name: str, **client: Any) -> Manifest:
    url = {"url": "https://127.0.0.1:1/"} | client
    hook = {
        "name": "a.example.org",
        "clientConfig": url,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore",
        "rules": [{"apiGroups": ["none.example.org"], "apiVersions": ["v1"], "resources": ["x"], "operations": ["*"]}],
    }
    return named("admissionregistration.k8s.io/v1", kind, name, webhooks=[hook])


def injected(authority: str) -> Callable[[User], Any]:
    async def inject(user: User) -> None:
        live = await user.live()
        assert live is not None
        live["webhooks"][0]["clientConfig"]["caBundle"] = authority
        await user.patch({"webhooks": live["webhooks"]}, manager="cainjector")

    return inject


def patching(patch: Manifest, **how: Any) -> Callable[[User], Any]:
    return lambda user: user.patch(patch, **how)


METADATA: dict[str, Manifest] = {
    "a label of others": {"labels": {"other": "1"}},
    "an annotation of others": {"annotations": {"example.org/other": "1"}},
    "a finalizer of others": {"finalizers": ["example.org/other"]},
    "an owner": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]},
    "kubectl apply": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"}},
    "a rollout restart": {},
}


def harmless(unique: str, authority: str) -> dict[str, Change]:
    """Return objects as they are delivered, and what another writer does to each of them."""

    def name(number: int) -> str:
        return f"{unique}-{number}"

    touched = patching({"metadata": {"annotations": {"example.org/touched": "1"}}})
    restart = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "now"}}}}}
    quantities = {"limits": {"cpu": "1000m", "memory": "1024Mi"}, "requests": {"cpu": "0.5"}}
    role: Manifest = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    rule = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}
    ports = [{"port": 80, "protocol": "TCP", "name": "http", "targetPort": "http"}]
    environment = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    rbac = "rbac.authorization.k8s.io/v1"
    scaler = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name(30)}, "maxReplicas": 9}
    of_stateful_set = {**scaler, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name(34)}}
    job = {**pod_template(name(23))}
    job["spec"]["restartPolicy"] = "Never"
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1024Mi"}}}
    placeholder = with_annotation(
        webhooks("ValidatingWebhookConfiguration", name(15), caBundle="Cg=="),
        "cert-manager.io/inject-ca-from",
        "a/b",
    )
    found: dict[str, Change] = {
        f"{case}, {number}": (config_map(name(number), SPACE, key="value"), patching({"metadata": metadata}))
        for number, (case, metadata) in enumerate(METADATA.items())
    }
    return found | {
        "a restarted rollout": (workload(name(10)), patching(restart)),
        "defaulted fields": (workload(name(11)), touched),
        "quantities in another form": (workload(name(12), resources=quantities), touched),
        "an empty value": (workload(name(13), env=[{"name": "A", "value": ""}]), touched),
        "an injected caBundle": (webhooks("ValidatingWebhookConfiguration", name(14)), injected(authority)),
        "an injected caBundle with a placeholder": (placeholder, injected(authority)),
        "an injected caBundle, empty in the manifest": (
            webhooks("MutatingWebhookConfiguration", name(16), caBundle=""),
            injected(authority),
        ),
        "status": (
            workload(name(17)),
            patching({"status": {"replicas": 3, "observedGeneration": 1}}, subresource="status"),
        ),
        "a sidecar of others": (workload(name(18)), patching(containers({"name": "side", "image": "example.org/s"}))),
        "a variable of others": (
            workload(name(19), env=environment),
            patching(containers(env=[*environment, {"name": "C", "value": "3"}])),
        ),
        "another order of variables": (
            workload(name(20), env=environment),
            patching(containers(env=environment[::-1])),
        ),
        "replicas that the chart does not set": (
            workload(name(21)),
            patching({"spec": {"replicas": 3}}, subresource="scale"),
        ),
        "a Service with a node port": (
            named("v1", "Service", name(22), SPACE, spec={"type": "NodePort", "selector": {"a": "b"}, "ports": ports}),
            touched,
        ),
        "a Job that ended and was deleted": (
            named("batch/v1", "Job", name(23), SPACE, spec={"template": job}),
            lambda user: user.delete(),
        ),
        "a key of others": (config_map(name(24), SPACE, key="value"), patching({"data": {"other": "1"}})),
        "a key of others in a Secret": (
            named("v1", "Secret", name(25), SPACE, stringData={"password": "x"}),
            patching({"data": {"other": "eA=="}}),
        ),
        "rules of an aggregated role": (named(rbac, "ClusterRole", name(26), "", **role), patching({"rules": [rule]})),
        "a Secret of a ServiceAccount": (
            named("v1", "ServiceAccount", name(27), SPACE),
            patching({"imagePullSecrets": [{"name": "registry"}]}),
        ),
        "the same value by another manager": (
            config_map(name(28), SPACE, key="value"),
            lambda user: user.apply("other", data={"key": "value"}),
        ),
        "a volume that was bound": (
            named("v1", "PersistentVolumeClaim", name(29), SPACE, spec=claim),
            patching({"spec": {"volumeName": "pv-1"}}),
        ),
        "replicas of an autoscaler": (
            deployment(name(30), SPACE, replicas=2),
            patching({"spec": {"replicas": 5}}, subresource="scale", manager="kube-controller-manager"),
        ),
        "replicas of an autoscaled StatefulSet": (
            stateful_set(name(34), SPACE),
            patching({"spec": {"replicas": 5}}, subresource="scale", manager="kube-controller-manager"),
        ),
        "an autoscaler of a StatefulSet": (
            named("autoscaling/v2", "HorizontalPodAutoscaler", name(34), SPACE, spec=of_stateful_set),
            touched,
        ),
        "an object in an older version": (
            named("autoscaling/v1", "HorizontalPodAutoscaler", name(30), SPACE, spec=scaler),
            touched,
        ),
        "a Namespace": (named("v1", "Namespace", name(31)), patching({"metadata": {"labels": {"istio": "enabled"}}})),
        "fields and status of others in a custom resource": (
            named(f"{unique}.example.org/v1", "Gadget", name(32), SPACE, spec={"size": 1}),
            patching({"spec": {"other": 2}, "status": {"done": True}}),
        ),
        "a changed image that a policy rewrites": (workload(f"mutated-{unique}"), touched),
        "a percentage": (
            named(
                "policy/v1",
                "PodDisruptionBudget",
                name(33),
                SPACE,
                spec={"maxUnavailable": "25%", "selector": {"matchLabels": {"a": "b"}}},
            ),
            touched,
        ),
    }


def rewriting_policy(unique: str) -> list[Manifest]:
    """Return a policy that mutates the pod templates of one Deployment, as an admission webhook does."""
    group = "admissionregistration.k8s.io/v1"
    rules = [{"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["deployments"]}]
    expression = (
        '[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "mirror.example.org/app"}]'
    )
    spec = {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "one", "expression": f"object.metadata.name == 'mutated-{unique}'"}],
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
    }
    return [
        named(group, "MutatingAdmissionPolicy", unique, spec=spec),
        named(group, "MutatingAdmissionPolicyBinding", unique, spec={"policyName": unique}),
    ]


async def test_what_others_may_do_with_delivered_objects_never_counts_as_drift(cluster: Cluster, unique: str) -> None:
    await install(cluster.user, [crd("Gadget", f"{unique}.example.org")])
    for policy in rewriting_policy(unique):
        await User(cluster, policy).apply("tests", spec=policy["spec"])
    probe = User(cluster, workload(f"mutated-{unique}"))

    async def rewrites() -> bool:
        answer = await cluster.user.apply(await probe.resource(), probe.manifest, manager="probe", dry_run=True)
        return bool(answer["spec"]["template"]["spec"]["containers"][0]["image"].startswith("mirror"))

    await eventually(rewrites, seconds=60, about="the policy")
    authority = cluster.authority
    cases = harmless(unique, authority)
    await deliver(cluster, unique, *(manifest for manifest, _ in cases.values()))
    sweeps = Sweeps(cluster, unique)
    assert await sweeps.find() == []
    for manifest, change in cases.values():
        await change(User(cluster, manifest))
    assert len(cases) >= 25
    _, suspects = await sweeps.begin()
    assert len(suspects) >= 25

    before = [await User(cluster, manifest).live() for manifest, _ in cases.values()]
    drifted = [str(one.object) for one in await sweeps.find()]

    assert drifted == []
    assert [await User(cluster, manifest).live() for manifest, _ in cases.values()] == before
    assert await sweeps.find() == []
    _, suspects = await sweeps.begin()
    assert suspects == {}


# What counts


def test_every_kind_of_the_demo_stack_is_swept_by_the_tests() -> None:
    charts = [*DEMO.glob("*/cluster-addon/*/templates/*.yaml"), *DEMO.glob("*/cluster-addon/*/crds/*.yaml")]
    kinds = {kind for chart in charts for kind in re.findall(r"^kind: (\w+)$", chart.read_text(), re.MULTILINE)}

    assert len(kinds) > 15
    assert kinds - {one["kind"] for one in every_kind("x")} == {"IPPool"}  # a custom resource, as the Widget


async def test_every_kind_that_is_edited_scaled_adopted_relabelled_or_deleted_is_restored(
    cluster: Cluster, unique: str
) -> None:
    manifests = every_kind(unique)
    await deliver(cluster, unique, *manifests)
    users = {object_id(user.manifest): user for one in manifests for user in [User(cluster, placed(one))]}
    sweeps = Sweeps(cluster, unique)
    assert await sweeps.find() == []

    for user in users.values():
        await user.patch(edit_of(user.manifest)[1], manager="kubectl-edit")
    edited = {one.id: one for one in await sweeps.restore()}
    assert {identity: [field.path for field in one.fields] for identity, one in edited.items()} == {
        identity: [edit_of(user.manifest)[0]] for identity, user in users.items()
    }
    assert {field.managers for one in edited.values() for field in one.fields} == {("kubectl-edit",)}
    assert [one.error for one in edited.values() if one.error] == []
    assert await sweeps.find() == []

    scaled = {identity: user for identity, user in users.items() if identity.kind in SCALED}
    for user in scaled.values():
        await user.patch({"spec": {"replicas": 3}}, subresource="scale", manager="kubectl-scale")
    assert {(one.id, str(one.fields[0])) for one in await sweeps.restore()} == {
        (identity, '.spec.replicas (set by "kubectl-scale")') for identity in scaled
    }

    for user in users.values():
        await user.apply("argocd", **edit_of(user.manifest)[1])
    adopted = await sweeps.restore()
    assert {one.id for one in adopted} == users.keys()
    assert {field.managers for one in adopted for field in one.fields} == {("argocd",)}
    assert [one.error for one in adopted if one.error] == []
    assert await sweeps.find() == []

    for user in users.values():
        await user.patch({"metadata": {"labels": {PART_OF_LABEL: None}}})
    relabelled = await sweeps.restore()
    assert {one.id for one in relabelled} == users.keys()
    assert {field.path for one in relabelled for field in one.fields} == {f'.metadata.labels["{PART_OF_LABEL}"]'}
    assert await sweeps.find() == []

    for identity, user in users.items():
        if identity.kind not in {KEEPS_FINALIZER, "Widget"}:  # the Widget goes with its definition
            await user.delete()
    deleted = await sweeps.restore()
    assert {(one.id, one.change) for one in deleted} == {
        (identity, "was deleted") for identity in users if identity.kind != KEEPS_FINALIZER
    }
    assert [one.error for one in deleted if one.error] == []
    assert await sweeps.find() == []
    record = (await Delivery(cluster.client).records())[unique]
    live = {one.id: await users[one.id].live() for one in record.objects}
    assert {one.id: one.uid for one in record.objects} == {
        identity: manifest["metadata"]["uid"] for identity, manifest in live.items() if manifest
    }


async def test_an_object_that_another_manager_adopts_with_force_is_taken_back(cluster: Cluster, unique: str) -> None:
    manifest = config_map(unique, SPACE, key="ours")
    await deliver(cluster, unique, manifest)
    user, sweeps = User(cluster, manifest), Sweeps(cluster, unique)
    await user.apply("argocd", data={"key": "theirs"})

    (drift,) = await sweeps.restore()

    assert str(drift) == f'ConfigMap default/{unique} was changed: .data.key (set by "argocd")'
    live = await user.live()
    assert live is not None
    assert live["data"] == {"key": "ours"}


async def test_a_successor_of_another_owner_is_reported_and_not_changed(cluster: Cluster, unique: str) -> None:
    manifest = config_map(unique, SPACE, key="ours")
    await deliver(cluster, unique, manifest)
    user, sweeps = User(cluster, manifest), Sweeps(cluster, unique)
    await user.delete()
    await user.apply("argocd", data={"key": "theirs"})

    (drift,) = await sweeps.restore()

    assert "is not managed by this operator" in drift.error
    live = await user.live()
    assert live is not None
    assert live["data"] == {"key": "theirs"}


async def test_nothing_is_restored_from_a_record_that_was_written_since_it_was_read(
    cluster: Cluster, unique: str
) -> None:
    old, new = config_map(unique, SPACE, key="old"), config_map(unique, SPACE, key="new")
    await deliver(cluster, unique, old)
    user = User(cluster, old)
    await user.patch({"data": {"key": "theirs"}})
    sweep, suspects = await Sweeps(cluster, unique).begin()
    drifts = await sweep.find(suspects)
    await deliver(cluster, unique, new)

    with pytest.raises(Conflict):
        await sweep.restore(drifts)

    live = await user.live()
    assert live is not None
    assert live["data"] == {"key": "new"}


async def test_objects_without_recorded_manifests_are_restored_from_a_rendering_that_is_the_delivered_one(
    cluster: Cluster, unique: str
) -> None:
    dice = random.Random(1)  # what cannot be compressed
    large = [config_map(f"{unique}-{part}", SPACE, text=dice.randbytes(400_000).hex()) for part in "abc"]
    await deliver(cluster, unique, *large)
    edited, deleted, _ = (User(cluster, one) for one in large)
    sweeps, rendered = Sweeps(cluster, unique), list[str]()

    def renders(manifests: list[Manifest] | None) -> Render:
        async def render(record: DeliveryRecord) -> list[Manifest] | None:
            rendered.append(record.addon)
            return manifests

        return render

    await edited.patch({"data": {"text": "other"}})
    await deleted.delete()
    for render, times in ((None, 0), (renders(None), 1), (renders(large[:1]), 2), (renders(large[:1]), 2)):
        sweeps.render = render
        (drift,) = await sweeps.restore()
        assert (drift.id.name, drift.change) == (deleted.name, "was deleted")
        assert "the delivery record does not contain its manifest" in drift.error
        assert len(rendered) == times

    assert sweeps.memory is not None
    sweeps.memory.forget()
    sweeps.render = renders(large)
    assert {(one.id.name, one.change, one.error) for one in await sweeps.restore()} == {
        (edited.name, "was changed", ""),
        (deleted.name, "was deleted", ""),
    }
    assert [(await user.live() or {}).get("data") for user in (edited, deleted)] == [one["data"] for one in large[:2]]
    assert await sweeps.find() == []
    times = len(rendered)
    assert await sweeps.find() == []
    assert len(rendered) == times


async def test_ignored_fields_keep_their_live_values_when_another_field_is_corrected(
    cluster: Cluster, unique: str
) -> None:
    manifest = config_map(unique, SPACE, free="1", bound="1")
    await deliver(cluster, unique, manifest)
    ignored = (IgnoredDifference("ConfigMap", "", (parse_pointer("/data/free"),)),)
    user, sweeps = User(cluster, manifest), Sweeps(cluster, unique, DriftSettings(ignored=ignored))
    await user.patch({"data": {"free": "2"}})
    assert await sweeps.find() == []
    await user.patch({"data": {"bound": "2"}})

    (drift,) = await sweeps.restore()

    assert [field.path for field in drift.fields] == [".data.bound"]
    live = await user.live()
    assert live is not None
    assert live["data"] == {"free": "2", "bound": "1"}
    assert await sweeps.find() == []


@pytest.mark.parametrize("restarted", [False, True])
async def test_settled_objects_cost_one_list_per_kind(cluster: Cluster, unique: str, restarted: bool) -> None:  # noqa: FBT001
    await deliver(cluster, unique, *every_kind(unique))
    sweeps = Sweeps(cluster, unique)
    await sweeps.find()
    if restarted:
        sweeps.memory = None
    requests, writes = len(cluster.requests.calls), len(cluster.requests.writes)

    sweep, suspects = await sweeps.begin()
    found = await sweep.find(suspects) if suspects else []

    assert found == []
    assert len(cluster.requests.writes) == writes
    kinds = len({one["kind"] for one in every_kind(unique)})
    records = 2 if restarted else 0
    assert len(cluster.requests.calls) - requests == kinds + records


async def test_objects_of_settled_lists_of_several_pages_are_found_when_they_change(
    cluster: Cluster, unique: str
) -> None:
    count = 2 * PAGE_SIZE + 1
    manifests = [config_map(f"{unique}-{number:03}", SPACE, key="ours") for number in range(count)]
    await deliver(cluster, unique, *manifests)
    sweeps = Sweeps(cluster, unique)
    settled = {("", "ConfigMap")}

    async def is_settled() -> bool:
        assert await sweeps.find() == []
        assert sweeps.memory is not None
        return sweeps.memory.settled.keys() == settled

    assert await is_settled()
    await User(cluster, config_map(f"{unique}-foreign", SPACE)).apply("somebody", data={"a": "b"})
    assert await is_settled()
    assert sweeps.members.unchanged == settled
    for number in (0, PAGE_SIZE - 1, PAGE_SIZE, count - 1):
        user = User(cluster, manifests[number])
        relabel = {"metadata": {"labels": {PART_OF_LABEL: None}}}
        for change in (user.patch({"data": {"key": "theirs"}}), user.patch(relabel), user.delete()):
            await change

            (restored,) = await sweeps.restore()

            assert restored.id.name == user.name
            assert not restored.error
            assert await is_settled()
            assert not sweeps.members.unchanged
            assert await is_settled()
            assert sweeps.members.unchanged == settled
        live = await user.live()
        assert live is not None
        await user.delete()
        await user.apply("somebody", data={"key": "theirs"}, metadata={"labels": live["metadata"]["labels"]})
        (found,) = await sweeps.find()
        assert found.object.id.name == user.name
        await user.delete()
        await sweeps.restore()
        assert await is_settled()
