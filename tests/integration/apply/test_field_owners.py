"""Random writers between random deliveries, rollbacks, prunes and corrections, on a real API server.

A model says who must own which field. After every phase all objects are as the model says, and after every change by
another writer a sweep finds exactly the objects that are not. ``make fuzz`` runs many more examples.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.field_paths import is_applied_by_us, managers_of
from clusterstacks.deliver.apply.targets import digest_of
from clusterstacks.model.drift_settings import DriftSettings, IgnoredDifference
from clusterstacks.net.pool import Pool
from tests.integration.apply.conftest import Cluster
from tests.integration.apply.test_adopted_objects import apply_as, create_as
from tests.integration.apply.test_foreign_fields import autoscaler
from tests.integration.apply.test_sweep import SPACE, Sweeps, User, injected, webhooks
from tests.support.builders.manifests import config_map, deployment, named, with_annotation

if TYPE_CHECKING:
    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest

EXAMPLES: Final = settings().max_examples // 10
CHART_KEYS: Final = ("a", "b")
FREE: Final = "free"
KINDS: Final = ("ConfigMap", "Deployment", "ValidatingWebhookConfiguration", "ClusterRole")

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Chart:
    """The values of one revision."""

    number: int
    kinds: frozenset[str]
    keys: frozenset[str]
    replicas: int
    placeholder: str

    @property
    def data(self) -> dict[str, str]:
        return dict.fromkeys(self.keys, f"chart {self.number}")

    def objects(self, name: str) -> dict[str, Manifest]:
        role = named("rbac.authorization.k8s.io/v1", "ClusterRole", name, rules=[])
        selector = {"matchLabels": {f"{name}.example.org/aggregate": "true"}}
        hooks = webhooks("ValidatingWebhookConfiguration", name, caBundle=self.placeholder)
        found = [
            config_map(name, SPACE, **self.data, **{FREE: f"chart {self.number}"}),
            deployment(name, SPACE, replicas=self.replicas, image=f"example.org/app:{self.number}"),
            with_annotation(hooks, "cert-manager.io/inject-ca-from", "a/b"),
            {**role, "aggregationRule": {"clusterRoleSelectors": [selector]}},
        ]
        for one in found:
            one["metadata"]["labels"] = {"version": str(self.number)}
        return {one["kind"]: one for one in found if one["kind"] in self.kinds}


@dataclass
class Expected:
    """An object that exists; the fields that belong to others have their last values.

    Args:
        version: Its label of the chart.
        data: Keys of a ConfigMap.
        foreign: Those that another writer owns.
        replicas: Replicas of a Deployment, with whether another writer has set them.
    """

    version: str
    data: dict[str, str] = field(default_factory=dict)
    foreign: set[str] = field(default_factory=set)
    image: str = ""
    replicas: tuple[int, bool] = (0, False)
    bundle: tuple[str, bool] = ("", False)
    rules: Any = None
    restarted: bool = False


def after_phase(before: Expected | None, chart: Chart) -> Expected:
    """Return the object that a delivery or a correction leaves behind."""
    created = Expected(
        str(chart.number),
        data={**chart.data, FREE: f"chart {chart.number}"},
        image=f"example.org/app:{chart.number}",
        replicas=(chart.replicas, False),
        bundle=(chart.placeholder, False),
    )
    if before is None:
        return created
    left = {key: value for key, value in before.data.items() if key == FREE or key in before.foreign}
    return Expected(
        created.version,
        data=left | chart.data,
        foreign=before.foreign - chart.keys,
        image=created.image,
        replicas=before.replicas if before.replicas[1] else created.replicas,
        bundle=before.bundle if before.bundle[1] else created.bundle,
        rules=before.rules,
        restarted=before.restarted,
    )


def has_drifted(found: Expected | None, chart: Chart) -> bool:
    if found is None:
        return True
    wanted = after_phase(found, chart)
    own = {key: found.data.get(key) for key in chart.keys}
    return (found.version, found.image, own) != (wanted.version, wanted.image, chart.data)


class World:
    """One addon of a cluster, and what is expected of its objects."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.cluster, self.name = cluster, name
        ignored = IgnoredDifference("ConfigMap", name, (("data", FREE),))
        self.settings = DriftSettings(ignored=(ignored,))
        self.expected: dict[str, Expected | None] = {}
        self.charts: list[Chart] = []

    def user(self, kind: str) -> User:
        return User(self.cluster, self.charts[-1].objects(self.name)[kind])

    async def install_by(self, program: str, chart: Chart) -> None:
        """Have another program install the objects, with a key and a variable that the chart does not have."""
        objects = chart.objects(self.name)
        for kind in {"ConfigMap", "Deployment"} & objects.keys():
            write = create_as if program == "kubectl-client-side-apply" else apply_as
            if kind == "ConfigMap":
                objects[kind]["data"]["legacy"] = "1"
            else:
                objects[kind]["spec"]["template"]["spec"]["containers"][0]["args"] = ["--legacy"]
            await write(self.cluster, program, objects[kind])

    async def deliver(self, chart: Chart) -> None:
        objects = chart.objects(self.name)
        manifests = [*objects.values(), *([autoscaler(objects["Deployment"])] if "Deployment" in objects else [])]
        delivery = Delivery(self.cluster.client, ignored=self.settings.ignored_fields)
        report = await delivery.install(self.name, Revision.of(manifests, digest_of(manifests)))
        assert report.synced, [one.error for one in report.objects]
        assert (await delivery.prune_addon(self.name)).complete
        self.expected = {kind: after_phase(self.expected.get(kind), chart) for kind in objects}
        self.charts.append(chart)

    async def correct(self) -> None:
        drifted = {kind for kind, one in self.expected.items() if has_drifted(one, self.charts[-1])}
        sweep, suspects = await Sweeps(self.cluster, self.name, self.settings).begin()
        drifts = await sweep.find(suspects)
        assert {one.object.id.kind for one in drifts} == drifted
        restored = await sweep.restore(drifts)
        assert [one.error for one in restored if one.error] == []
        chart = self.charts[-1]
        self.expected = {
            kind: after_phase(one, chart) if kind in drifted else one for kind, one in self.expected.items()
        }

    async def check(self) -> None:
        """Compare all objects and the owners of their fields with what is expected, and have a sweep find nothing."""
        for kind in KINDS:
            manifest = Chart(0, frozenset(KINDS), frozenset(), 1, "").objects(self.name)[kind]
            live = await User(self.cluster, manifest).live()
            expected = self.expected.get(kind)
            assert (live is None) == (expected is None), kind
            if live is not None and expected is not None:
                assert live["metadata"]["labels"]["version"] == expected.version
                getattr(self, f"_check_{kind}")(live, expected)
        assert await Sweeps(self.cluster, self.name, self.settings).find() == []

    def _check_ConfigMap(self, live: Manifest, expected: Expected) -> None:  # noqa: N802
        assert live["data"] == expected.data
        for key in expected.data.keys() - {FREE}:
            is_foreign = key in expected.foreign
            assert bool(managers_of(live, ("data", key))) is is_foreign, key
            assert is_applied_by_us(live, ("data", key)) is not is_foreign, key

    def _check_Deployment(self, live: Manifest, expected: Expected) -> None:  # noqa: N802
        (container,) = live["spec"]["template"]["spec"]["containers"]
        replicas, scaled = expected.replicas
        assert (container["image"], container.get("args")) == (expected.image, None)
        assert live["spec"]["replicas"] == replicas
        assert managers_of(live, ("spec", "replicas")) == (("kube-controller-manager",) if scaled else ())
        annotations = live["spec"]["template"]["metadata"].get("annotations", {})
        assert ("kubectl.kubernetes.io/restartedAt" in annotations) is expected.restarted

    def _check_ValidatingWebhookConfiguration(self, live: Manifest, expected: Expected) -> None:  # noqa: N802
        bundle, is_injected = expected.bundle
        assert live["webhooks"][0]["clientConfig"].get("caBundle", "") == bundle
        path = ("webhooks", ("name", "a.example.org"), "clientConfig", "caBundle")
        assert managers_of(live, path) == (("cainjector",) if is_injected else ())

    def _check_ClusterRole(self, live: Manifest, expected: Expected) -> None:  # noqa: N802
        assert live.get("rules") == expected.rules
        assert not is_applied_by_us(live, ("rules",))

    async def write(self, writer: str, key: str, number: int) -> None:
        """Have another writer change an object that exists."""
        kind = WRITERS[writer] or key
        expected = self.expected.get(kind)
        if expected is not None:
            await getattr(self, f"_{writer}")(self.user(kind), expected, key, number)

    async def _edit(self, user: User, expected: Expected, key: str, number: int) -> None:
        await user.patch({"data": {key: f"edit {number}"}}, manager="kubectl-edit")
        expected.data[key] = f"edit {number}"
        expected.foreign.add(key)

    async def _apply(self, user: User, expected: Expected, key: str, number: int) -> None:
        await user.apply(f"applier-{number}", data={key: f"apply {number}"})
        expected.data[key] = f"apply {number}"
        expected.foreign.add(key)

    async def _remove(self, user: User, expected: Expected, key: str, _: int) -> None:
        await user.patch({"data": {key: None}}, manager="kubectl-edit")
        expected.data.pop(key, None)
        expected.foreign.discard(key)

    async def _image(self, user: User, expected: Expected, _: str, number: int) -> None:
        path = "/spec/template/spec/containers/0/image"
        operation = {"op": "replace", "path": path, "value": f"example.org/other:{number}"}
        await self.cluster.user.json_patch(await user.resource(), self.name, [operation], SPACE)
        expected.image = operation["value"]

    async def _restart(self, user: User, expected: Expected, _: str, number: int) -> None:
        annotations = {"kubectl.kubernetes.io/restartedAt": str(number)}
        template = {"metadata": {"annotations": annotations}}
        await user.patch({"spec": {"template": template}}, manager="kubectl-rollout")
        expected.restarted = True

    async def _scale(self, user: User, expected: Expected, _: str, number: int) -> None:
        replicas = 100 + number
        await user.patch({"spec": {"replicas": replicas}}, subresource="scale", manager="kube-controller-manager")
        expected.replicas = (replicas, True)

    async def _inject(self, user: User, expected: Expected, _: str, __: int) -> None:
        await injected(self.cluster.authority)(user)
        expected.bundle = (self.cluster.authority, True)

    async def _aggregate(self, user: User, expected: Expected, _: str, number: int) -> None:
        rules = [{"apiGroups": [""], "resources": [f"r{number}"], "verbs": ["get"]}]
        await user.apply("clusterrole-aggregation-controller", rules=rules)
        expected.rules = rules

    async def _relabel(self, user: User, expected: Expected, _: str, __: int) -> None:
        await user.patch({"metadata": {"labels": {"version": "edited"}}}, manager="kubectl-label")
        expected.version = "edited"

    async def _delete(self, user: User, _: Expected, kind: str, __: int) -> None:
        await user.delete()
        self.expected[kind] = None


WRITERS: Final = {
    "edit": "ConfigMap",
    "apply": "ConfigMap",
    "remove": "ConfigMap",
    "image": "Deployment",
    "restart": "Deployment",
    "scale": "Deployment",
    "inject": "ValidatingWebhookConfiguration",
    "aggregate": "ClusterRole",
    "relabel": "",
    "delete": "",
}
"""The kind that each writer changes; empty for any."""

CHARTS = st.builds(
    Chart,
    number=st.integers(1, 10**6),
    kinds=st.frozensets(st.sampled_from(KINDS), min_size=2),
    keys=st.frozensets(st.sampled_from(CHART_KEYS)),
    replicas=st.integers(1, 9),
    placeholder=st.sampled_from(["", "Cg==", "Cgo="]),
)
WRITES = st.one_of(
    st.tuples(st.sampled_from(["edit", "apply", "remove"]), st.sampled_from([*CHART_KEYS, FREE, "other"])),
    st.tuples(st.sampled_from(["image", "restart", "scale", "inject", "aggregate"]), st.just("")),
    st.tuples(st.sampled_from(["relabel", "delete"]), st.sampled_from(KINDS)),
)
PHASES = st.one_of(CHARTS, st.sampled_from(["correct", "correct", "rollback"]))
PROGRAMS = st.sampled_from(["", "kubectl-client-side-apply", "kubectl", "helm"])


@pytest.mark.regression("CASE-05", "CASE-07", "CASE-08", "LIVE-LV-2")
def test_every_field_belongs_to_its_owner_after_every_phase(workload_server: ApiServer) -> None:
    @settings(max_examples=EXAMPLES, phases=set(Phase) - {Phase.shrink}, print_blob=True)
    @given(
        program=PROGRAMS,
        first=CHARTS,
        phases=st.lists(st.tuples(st.lists(WRITES, min_size=1, max_size=4), PHASES), min_size=2, max_size=5),
    )
    def check(program: str, first: Chart, phases: list[tuple[list[tuple[str, str]], Chart | str]]) -> None:
        asyncio.run(run(program, first, phases))

    async def run(program: str, first: Chart, phases: list[tuple[list[tuple[str, str]], Chart | str]]) -> None:
        async with Pool() as pool:
            world = World(Cluster(workload_server.kubeconfig, pool), f"owners-{next(_numbers)}")
            if program:
                await world.install_by(program, first)
            await world.deliver(first)
            await world.check()
            for writes, phase in phases:
                for writer, key in writes:
                    await world.write(writer, key, next(_numbers))
                if isinstance(phase, Chart):
                    await world.deliver(phase)
                elif phase == "rollback" and len(world.charts) > 1:
                    await world.deliver(world.charts[-2])
                else:
                    await world.correct()
                await world.check()
            delivery = Delivery(world.cluster.client)
            await delivery.remove(world.name)

    check()
