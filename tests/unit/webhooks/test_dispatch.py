"""From a question to a decision, with releases that are given."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, CompatibilityPolicy
from clusterstacks.api.provider_refs import DEFAULT_KINDS
from clusterstacks.clusters.provider_rules import ProviderRules
from clusterstacks.compat.constraints import kubernetes_fact
from clusterstacks.compat.verdicts import NOTHING_KNOWN
from clusterstacks.domain.names import ReleaseName, parse_release
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.domain.versions import StackVersion
from clusterstacks.kube.resources import Resource
from clusterstacks.runtime.cache import CacheChange, ObjectCache, key_of
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.webhooks.cluster_rules import ClassOffer
from clusterstacks.webhooks.cluster_validator import ClusterValidator
from clusterstacks.webhooks.dispatch import Validator
from clusterstacks.webhooks.reviews import AdmissionRequest, Operation
from clusterstacks.webhooks.stack_validators import StackValidators
from clusterstacks.webhooks.suggestions import Suggester
from tests.support.fakes.api_server import FakeApi
from tests.support.planner_oracle import candidate
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.compat.world import Candidate
    from clusterstacks.webhooks.answers import AdmissionResponse

GROUP = "clusterstack.x-k8s.io"


def ranged(name: str, kubernetes: str, works_with: str, cilium: tuple[str, str]) -> Candidate:
    component = {"name": "cilium", "addon": "cilium", "version": cilium[0], "kubernetes": cilium[1]}
    return candidate(name, kubernetes, {"kubernetes": works_with, "components": [component]})


OLD = ranged("p-s-1-35-v1", "v1.35.1", ">=1.34 <1.37", ("1.17.2", ">=1.30 <1.36"))
NEW = ranged("p-s-1-36-v2", "v1.36.1", ">=1.35 <1.38", ("1.18.0", ">=1.33 <1.38"))
BUNDLE = candidate("p-s-1-35-v9", "v1.35.9", None)


class Noon:
    def now(self) -> datetime:
        return datetime(2026, 11, 21, 12, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        raise AssertionError(seconds)


@dataclass
class Given:
    """Releases of a namespace, as an operator that has read them all would offer them."""

    candidates: tuple[Candidate, ...] = (OLD, NEW, BUNDLE)
    lacking: Mapping[ReleaseName, str] = field(default_factory=dict)
    has: Mapping[str, ReleaseName] = field(default_factory=dict)
    refusal: str = ""
    asked: list[set[str]] = field(default_factory=list)
    rules: tuple[Manifest, ...] = ()

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        known = {one.name: one for one in self.candidates}
        if namespace != "stacks" or release not in known:
            return None
        assert release not in wanted
        return ClassOffer(known[release].kubernetes.text, candidates=known, lacking=self.lacking)

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:
        assert cluster.key == ObjectKey("users", "one")
        self.asked.append({one.release for one in releases})
        return self.refusal

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:
        assert cluster == ObjectKey("users", "one")
        return self.has


@pytest.fixture
def suggester() -> Iterator[Suggester]:
    made = Suggester()
    yield made
    made.close()


def cluster(
    class_name: str = "p-s-1-35-v1",
    version: str = "v1.35.1",
    *,
    namespace: str = "stacks",
    labels: Any = None,
    variables: Any = None,
    **annotations: str,
) -> Manifest:
    named = {f"{GROUP}/{key.replace('__', '.')}": value for key, value in annotations.items()}
    values = [{"name": name, "value": value} for name, value in (variables or {}).items()]
    topology = {"classRef": {"name": class_name, "namespace": namespace}, "version": version, "variables": values}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "users", "labels": labels or {}, "annotations": named},
        "spec": {"topology": topology},
    }


def review(new: Manifest, old: Manifest | None = None, kind: str = "Cluster") -> AdmissionRequest:
    operation = Operation.UPDATE if old and new else Operation.CREATE if new else Operation.DELETE
    return AdmissionRequest("u1", operation, GROUP, kind, new, old or {})


async def judged(
    suggester: Suggester, new: Manifest, old: Manifest | None = None, given: Given | None = None
) -> AdmissionResponse:
    rules, given = ProviderRules(Noon()), given or Given()
    for at, spec in enumerate(given.rules):
        metadata = {"name": f"rule-{at}"}
        rule = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "CompatibilityRule", "metadata": metadata, "spec": spec}
        rules.changed(CacheChange(ObjectKey("", metadata["name"]), None, rule))
    validator = ClusterValidator(releases=given, rules=rules.counting, upstream=NOTHING_KNOWN, suggester=suggester)
    return await validator.validate(review(new, old))


async def test_the_refusal_of_an_upgrade_says_the_way_out(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster(version="v1.36.1"), cluster())

    assert answer.refusal == (
        "class p-s-1-35-v1 with Kubernetes v1.36.1 is refused:\n"
        "  cluster addon cilium: cilium 1.17.2 works with Kubernetes >=1.30 <1.36\n"
        "Do this instead, one after the other:\n"
        "  1. upgrade cluster addon cilium to 1.18.0 (release p-s-1-36-v2 has it)\n"
        "  2. move to Kubernetes v1.36.1\n"
        "All steps with their commands:\n"
        "  csctl plan users/one --to v1.36.1\n"
        "Begin with:\n"
        "  kubectl annotate cluster -n users one --overwrite clusterstack.x-k8s.io/addon.cilium=p-s-1-36-v2"
    )


async def test_an_addon_on_its_way_is_waited_for(suggester: Suggester) -> None:
    annotation = {"addon__cilium": "p-s-1-36-v2"}
    new, old = cluster(version="v1.36.1", **annotation), cluster(**annotation)

    under_way = await judged(suggester, new, old, Given(has={"cilium": OLD.name}))
    delivered = await judged(suggester, new, old, Given(has={"cilium": NEW.name}))

    assert under_way.refusal.endswith(
        "Wait until cilium 1.18.0 is delivered to Cluster users/one, then try again:\n"
        "  kubectl wait clusteraddon -n users cluster-addon-one "
        """--for='jsonpath={.status.addons[?(@.name=="cilium")].version}=1.18.0' --timeout=15m"""
    )
    assert delivered.allowed
    assert not delivered.warnings


@pytest.mark.parametrize(
    ("before", "after", "warned"),
    [
        (None, {"addons__cilium": "v1"}, "addons.cilium is not read: write clusterstack.x-k8s.io/addon.cilium"),
        ({}, {"addons__cilium": "v1"}, "addons.cilium is not read: write clusterstack.x-k8s.io/addon.cilium"),
        ({}, {"addon__cillium": "none"}, "'cillium', which does not exist: write clusterstack.x-k8s.io/addon.cilium"),
        ({}, {"addon__cilium": "none"}, ""),
        ({"addons__cilium": "v1"}, {"addons__cilium": "v2"}, "addons.cilium is not read"),
        ({"addons__cilium": "v1"}, {"addons__cilium": "v1"}, ""),
        ({"addons__cilium": "v1"}, {}, ""),
    ],
)
async def test_live_m4_a_write_of_an_annotation_without_effect_is_warned_about(
    suggester: Suggester, before: dict[str, str] | None, after: dict[str, str], warned: str
) -> None:
    answer = await judged(suggester, cluster(**after), None if before is None else cluster(**before))

    assert answer.allowed
    assert len(answer.warnings) == bool(warned)
    assert all(warned in text and "the addons are cilium" in text for text in answer.warnings)


async def test_live_m4_the_warning_does_not_depend_on_known_releases(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster("p-s-1-39-v1", addons__cilium="v1"))

    assert "addons.cilium is not read: write clusterstack.x-k8s.io/addon.<addon>, or" in answer.warnings[-1]


async def test_live_m8_a_version_on_its_way_is_waited_for(suggester: Suggester) -> None:
    """The class alone was moved first; the addon's new version needs the Kubernetes version that nodes roll to."""
    stated = {
        "kubernetes": ">=1.36 <1.38",
        "components": [{"name": "cilium", "addon": "cilium", "version": "1.19.0", "kubernetes": ">=1.36 <1.39"}],
    }
    late = candidate("p-s-1-36-v3", "v1.36.1", stated)
    old = cluster(version="v1.36.1", addon__cilium="p-s-1-36-v2")
    new = cluster(version="v1.36.1", addon__cilium="p-s-1-36-v3")
    for one in (old, new):
        one["status"] = {"controlPlane": {"versions": [{"version": "v1.35.1"}]}}

    answer = await judged(suggester, new, old, Given((OLD, NEW, late), has={"cilium": NEW.name}))

    assert answer.refusal == (
        "class p-s-1-35-v1 with Kubernetes v1.36.1 is refused:\n"
        "  cluster addon cilium: cilium 1.19.0 works with Kubernetes >=1.36 <1.39\n"
        "Wait until the control plane of Cluster users/one runs v1.36.1, then try again:\n"
        "  kubectl wait clusteraddon -n users cluster-addon-one "
        "--for='jsonpath={.status.observedKubernetesVersion}=v1.36.1' --timeout=2h"
    )


@pytest.mark.parametrize(
    "strange",
    [
        {},
        {"metadata": [], "spec": 7},
        {"metadata": {"annotations": 3}, "spec": {"topology": []}},
        {"metadata": {"name": "one", "namespace": "users"}, "spec": {"topology": {"class": "quick-start"}}},
        {"metadata": {"name": "one"}, "spec": {"topology": {"class": {}, "classRef": "x", "version": 1}}},
    ],
)
async def test_clusters_without_one_of_our_classes_are_nobodys_business(suggester: Suggester, strange: Any) -> None:
    assert (
        await judged(suggester, strange) == await judged(suggester, strange, cluster()) == await judged(suggester, {})
    )
    assert (await judged(suggester, strange)).allowed


async def test_a_cluster_may_gain_its_topology(suggester: Suggester) -> None:
    bare = {"metadata": {"name": "one", "namespace": "users"}, "spec": {"controlPlaneRef": {"name": "x"}}}

    assert (await judged(suggester, cluster(), bare)).allowed
    assert not (await judged(suggester, cluster(version="v1.36.1"), bare)).allowed


async def test_an_unknown_release_is_let_through_with_a_warning(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster("p-s-1-35-v77"))

    assert answer.allowed
    assert "nothing is known of release p-s-1-35-v77" in answer.warnings[0]


@dataclass
class Unread(Given):
    """A namespace whose release v77 is there, and is not on disk."""

    policy: CompatibilityPolicy = CompatibilityPolicy.RANGE

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        if release.version != StackVersion(77):
            return await super().offer(namespace, release, wanted)
        return ClassOffer("", self.policy, lacking={release: "it is being fetched for the first time"})


async def test_live_h1_an_update_to_facts_that_are_not_known_yet_is_to_be_tried_again(suggester: Suggester) -> None:
    unread = Unread()

    moved = await judged(suggester, cluster("p-s-1-35-v77"), cluster(), given=unread)
    created = await judged(suggester, cluster("p-s-1-35-v77"), given=unread)
    same = await judged(suggester, cluster("p-s-1-35-v77"), cluster("p-s-1-35-v77"), given=unread)
    excused = await judged(
        suggester, cluster("p-s-1-35-v77", **{"allow-incompatible": "tried"}), cluster(), given=unread
    )
    permissive = await judged(
        suggester, cluster("p-s-1-35-v77"), cluster(), given=Unread(policy=CompatibilityPolicy.PERMISSIVE)
    )

    assert moved.refusal == (
        "nothing is known of release p-s-1-35-v77 of class stacks/p-s-1-35-v77 yet: it is being fetched for the first "
        "time; try again in 10 s\n"
        "The releases and their Kubernetes versions:\n"
        "  kubectl get clusterstackreleases -n stacks"
    )
    assert created.allowed
    assert "nothing is known of release p-s-1-35-v77" in created.warnings[0]
    assert same.allowed
    assert not same.warnings
    assert excused.allowed
    assert "nothing is known" in excused.excused
    assert permissive.allowed
    assert permissive.warnings


@pytest.mark.parametrize("version", ["v1.37.0", "v1.34.9"])
async def test_a_skipped_minor_and_a_downgrade_are_refused_before_the_release_is_known(
    suggester: Suggester, version: str
) -> None:
    wanted = cluster("p-s-1-35-v77", version, **{"allow-incompatible": "tried"})

    excused = await judged(suggester, wanted, cluster(), given=Unread())
    permissive = await judged(suggester, wanted, cluster(), given=Unread(policy=CompatibilityPolicy.PERMISSIVE))

    assert not excused.allowed
    assert not permissive.allowed
    assert "Kubernetes" in permissive.refusal


@pytest.mark.parametrize(
    ("class_name", "version", "words"),
    [
        ("p-s-1-35-v9", "v1.35.9", ""),
        ("p-s-1-35-v9", "v1.35.8", "is for Kubernetes v1.35.9 exactly"),
    ],
)
async def test_a_bundle_is_judged_as_before(suggester: Suggester, class_name: str, version: str, words: str) -> None:
    answer = await judged(suggester, cluster(class_name, version))

    assert answer.allowed is not bool(words)
    assert words in answer.refusal


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("nonsense", "is not a valid release"),
        ("p-other-1-35-v1", "belongs to another cluster stack"),
        ("p-s-1-36-v66", "cannot be served by the ClusterStack of class stacks/p-s-1-35-v1: it is gone"),
        ("p-s-1-36-v67", "cannot be served"),
        ("p-s-1-35-v9", "is a bundle"),
    ],
)
async def test_an_annotation_names_a_release_that_can_be_served(suggester: Suggester, value: str, words: str) -> None:
    given = Given(lacking={parse_release("p-s-1-36-v66"): "it is gone"})

    answer = await judged(suggester, cluster(addon__cilium=value), cluster(), given)

    assert words in answer.refusal


async def test_annotations_somebody_wrote_past_the_webhook_do_not_stop_their_repair(suggester: Suggester) -> None:
    for broken in ("nonsense", "p-s-1-36-v66"):
        assert (await judged(suggester, cluster(), cluster(addon__cilium=broken))).allowed


async def test_so_many_releases_are_not_looked_for(suggester: Suggester) -> None:
    many: dict[str, Any] = {f"addon__a{at}": f"p-s-1-35-v{at}" for at in range(100, 200)}

    assert "at most 32 releases" in (await judged(suggester, cluster(**many), cluster())).refusal
    assert (await judged(suggester, cluster(), cluster(**many))).allowed


# Namespaces that a class is offered to


@pytest.mark.parametrize(
    ("new", "old", "asked"),
    [
        (cluster(), None, {"p-s-1-35-v1"}),
        (cluster(), cluster("quick-start"), {"p-s-1-35-v1"}),
        (cluster("p-s-1-36-v2", "v1.36.1"), cluster(), {"p-s-1-36-v2"}),
        (cluster(addon__cilium="p-s-1-36-v2"), cluster(), {"p-s-1-36-v2"}),
        (cluster(addon__cilium="p-s-1-36-v2"), cluster(namespace="other"), {"p-s-1-35-v1", "p-s-1-36-v2"}),
        (cluster(version="v1.35.2"), cluster(), None),
        (cluster(labels={"a": "b"}), cluster(), None),
        (cluster(), cluster(addon__cilium="p-s-1-35-v1"), None),
    ],
)
async def test_sec_5_what_a_cluster_newly_uses_must_be_offered_to_its_namespace(
    suggester: Suggester, new: Manifest, old: Manifest | None, asked: set[str] | None
) -> None:
    given = Given(refusal="class x is not offered to namespace users")

    answer = await judged(suggester, new, old, given)

    assert given.asked == ([] if asked is None else [asked])
    assert answer.allowed is (asked is None)
    assert answer.refusal.partition("\n")[0] == ("" if asked is None else given.refusal)


# Rules that look at labels and variables


def rule(**spec: Any) -> Manifest:
    return {"severity": "Deny", "message": "not in production", **spec}


PROD = {"env": "prod"}
RULES = [
    rule(when={"clusterLabels": PROD}),
    rule(when={"variables": PROD}),
    rule(clusters={"matchLabels": PROD}),
]


@pytest.mark.parametrize("spec", RULES)
async def test_sec_13_a_rule_on_labels_and_variables_is_asked_when_these_change(
    suggester: Suggester, spec: Manifest
) -> None:
    given, prod = Given(rules=(spec,)), cluster(labels=PROD, variables=PROD)

    assert "not in production" in (await judged(suggester, prod, cluster(), given)).refusal
    assert (await judged(suggester, cluster(), prod, given)).allowed
    # The same holds for a write that also moves an addon; what was wrong before may stay.
    moving = cluster(labels=PROD, variables=PROD, addon__cilium="p-s-1-36-v2")
    assert "not in production" in (await judged(suggester, moving, cluster(), given)).refusal
    assert (await judged(suggester, moving, prod, given)).allowed
    other = cluster(labels={**PROD, "a": "b"}, variables={**PROD, "a": "b"})
    assert (await judged(suggester, other, prod, given)).allowed


async def test_sec_13_taking_away_what_a_rule_allows_is_refused(suggester: Suggester) -> None:
    given = Given(candidates=(ranged("p-s-1-35-v1", "v1.35.1", ">=1.34 <1.37", ("1.17.2", ">=1.30 <1.35")),))
    refused = (await judged(suggester, cluster(), None, given)).refusal
    assert "cilium 1.17.2 works with" in refused
    allow = rule(severity="Allow", when={"clusterLabels": PROD}, overrides=[fact_of(given)])
    allowing = Given(candidates=given.candidates, rules=(allow,))

    assert (await judged(suggester, cluster(labels=PROD), None, allowing)).allowed
    assert "cilium 1.17.2 works with" in (await judged(suggester, cluster(), cluster(labels=PROD), allowing)).refusal


def fact_of(given: Given) -> str:
    stated = given.candidates[0].compatibility
    assert stated is not None
    return kubernetes_fact(stated.of_addon("cilium")[0])


@pytest.mark.parametrize(
    "spec", [rule(when={"clusterLabels": PROD}), rule(severity="Warn", when={"clusterLabels": PROD})]
)
async def test_sec_13_the_escape_annotation_and_warnings_count_as_ever(suggester: Suggester, spec: Manifest) -> None:
    prod = cluster(labels=PROD, **{"allow-incompatible": "drill"})

    answer = await judged(suggester, prod, cluster(), Given(rules=(spec,)))

    assert answer.allowed
    assert "not in production" in " ".join(answer.warnings)
    assert bool(answer.excused) is (spec["severity"] == "Deny")


@pytest.mark.parametrize(
    "wrong",
    [
        {"class_name": "p-s-1-35-v77"},
        {"class_name": "p-s-1-35-v9", "version": "v1.35.8"},
        {"version": "v1.36.1"},
        {"version": "latest"},
        {"addon__cilium": "nonsense"},
        {"addon__cilium": "p-s-1-36-v66"},
        {f"addon__a{at}": f"p-s-1-35-v{at}" for at in range(100, 200)},
    ],
)
@pytest.mark.parametrize("spec", [rule(when={"clusterLabels": {"other": "x"}}), rule(severity="Warn")])
async def test_sec_13_another_label_is_let_through_whatever_else_is_wrong(
    suggester: Suggester, wrong: dict[str, Any], spec: Manifest
) -> None:
    """These Clusters were written past the webhook; an edit of their labels went through before, and goes on to."""
    given = Given(rules=(spec,))

    answer = await judged(suggester, cluster(**wrong, labels={"a": "b"}), cluster(**wrong), given)

    assert answer.allowed
    assert not given.asked


@pytest.mark.parametrize("depth", [300, 1000])
async def test_what_is_nested_deep_is_judged_as_any_other(suggester: Suggester, depth: int) -> None:
    asked = [cluster(), cluster(version="v1.36.1")]
    for one in asked:
        deep = orjson.loads(b"[" * depth + b"]" * depth)
        one["spec"]["topology"]["variables"] = [{"name": "deep", "value": deep}]

    assert (await judged(suggester, asked[0], asked[0])).allowed
    assert "works with Kubernetes" in (await judged(suggester, asked[1], asked[0])).refusal


async def test_an_invalid_version_is_left_to_cluster_api(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster(version="latest"))

    assert answer.allowed
    assert "'latest' is not a version" in answer.warnings[0]


# Events: what a question says proves nothing, what the API server has does

EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
ESCAPED = {"allow-incompatible": "drill"}


def let_through(uid: str = "u7", generation: int = 1) -> Manifest:
    """A Cluster that only the escape annotation lets through."""
    found = cluster(version="v1.36.1", **ESCAPED)
    found["metadata"] |= {"uid": uid, "generation": generation}
    return found


async def events_of(
    suggester: Suggester, *asked: Manifest, live: ObjectCache, between: Callable[[], None] = lambda: None
) -> list[Manifest]:
    """Ask about each Cluster in turn, and give the events written within a minute."""
    api, clock = FakeApi(EVENTS), VirtualClock()
    clusters = ClusterValidator(
        releases=Given(), rules=ProviderRules(Noon()).counting, upstream=NOTHING_KNOWN, suggester=suggester
    )
    recorder = EventRecorder(api, "operator", clock=clock)
    validator = Validator(await own_kinds(), clusters, recorder, live, clock)
    for one in asked:
        question = replace(review(one, cluster(), CLUSTER_KIND), group=CLUSTER_API_GROUP)
        assert (await validator.validate(question)).excused
        await asyncio.sleep(0.1)
        between()
        await asyncio.sleep(60)
    await validator.close()
    return list(api.objects(EVENTS).values())


@in_virtual_time
async def test_what_is_let_through_gets_an_event_once_it_is_written(suggester: Suggester) -> None:
    live = ObjectCache()
    found = let_through()

    events = await events_of(suggester, found, live=live, between=lambda: put(live, found))

    assert [(one["reason"], one["involvedObject"]["uid"]) for one in events] == [("IncompatibleAllowed", "u7")]
    assert "drill" in events[0]["message"]


@pytest.mark.parametrize(
    "there",
    [
        None,
        let_through("another"),
        {**let_through(), "metadata": {**let_through()["metadata"], "annotations": {}}},
        {**let_through(), "spec": cluster()["spec"]},
    ],
)
@in_virtual_time
async def test_sec_6_a_forged_question_writes_no_event(suggester: Suggester, there: Manifest | None) -> None:
    assert await events_of(suggester, let_through(), live=stored(*([there] if there else []))) == []


@in_virtual_time
async def test_sec_6_a_question_asked_again_and_again_writes_one_event(suggester: Suggester) -> None:
    live = stored(let_through())

    events = await events_of(suggester, *[let_through()] * 5, let_through(generation=2), live=live)
    assert len(events) == 1
    put(live, let_through(generation=3))
    assert len(await events_of(suggester, let_through(generation=3), live=live)) == 1


async def test_what_is_awaited_is_given_up_at_the_end(suggester: Suggester) -> None:
    clusters = ClusterValidator(
        releases=Given(), rules=ProviderRules(Noon()).counting, upstream=NOTHING_KNOWN, suggester=suggester
    )
    validator = Validator(await own_kinds(), clusters, EventRecorder(FakeApi(EVENTS), "operator"), ObjectCache())
    assert (
        await validator.validate(replace(review(let_through(), cluster(), CLUSTER_KIND), group=CLUSTER_API_GROUP))
    ).excused

    await asyncio.wait_for(validator.close(), 0.2)


async def test_live_m1_decisions_are_counted_by_kind_and_only_of_kinds_that_are_asked_about() -> None:
    clusters = ClusterValidator(
        releases=Given(), rules=ProviderRules(Noon()).counting, upstream=NOTHING_KNOWN, suggester=Suggester()
    )
    decided: list[tuple[str, str]] = []
    events = EventRecorder(FakeApi(EVENTS), "operator")
    own = await own_kinds(seen=(stack(),))
    validator = Validator(
        own, clusters, events, ObjectCache(), decided=lambda kind, decision: decided.append((kind, decision))
    )
    for name, manifest in (("ClusterStack", stack("twin")), ("ClusterStack", stack("x", noProvider=False))):
        await validator.validate(replace(review(manifest), group=GROUP, kind=name))
    await validator.validate(replace(review(stack("other", provider="q")), group=GROUP, kind="ClusterStack"))
    await validator.validate(replace(review(stack()), group="example.org", kind="Made-up"))

    assert decided == [("ClusterStack", "warned"), ("ClusterStack", "refused"), ("ClusterStack", "allowed")]


# Our own kinds


def stored(*manifests: Manifest) -> ObjectCache:
    store = ObjectCache()
    for manifest in manifests:
        put(store, manifest)
    return store


def put(store: ObjectCache, manifest: Manifest) -> None:
    store.put(key_of(manifest), manifest)


def release(name: str, **metadata: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "stacks", **metadata}}


def stack(name: str = "scs", **spec: Any) -> Manifest:
    plain = {"provider": "p", "name": "s", "kubernetesVersion": "1.35", "noProvider": True}
    return {"metadata": {"name": name, "namespace": "stacks"}, "spec": {**plain, **spec}}


STACKS = Resource(GROUP, "v1alpha1", "ClusterStack", "clusterstacks", namespaced=True)
CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)


async def own_kinds(
    *releases: Manifest, seen: tuple[Manifest, ...] = (), there: tuple[Manifest, ...] = ()
) -> StackValidators:
    """With Clusters as the informer has seen them, and as they are."""
    api = FakeApi(CLUSTERS, STACKS)
    for manifest in there:
        await api.create(STACKS if "provider" in manifest["spec"] else CLUSTERS, manifest)
    stacks = [manifest for manifest in seen if "provider" in manifest["spec"]]
    clusters = [manifest for manifest in seen if "provider" not in manifest["spec"]]
    return StackValidators(api, stored(*clusters), stored(*releases), stored(*stacks), DEFAULT_KINDS)


async def test_deletions_are_refused_while_clusters_elsewhere_use_the_class() -> None:
    own = await own_kinds(release("p-s-1-35-v1"), seen=(cluster(),), there=(cluster(),))

    assert "in use by Cluster users/one" in (await own.release(review({}, release("p-s-1-35-v1")))).refusal
    assert "in use by Cluster users/one" in (await own.stack(review({}, stack()))).refusal
    assert (await own.release(review({}, release("p-s-1-35-v2")))).allowed
    assert (await own.stack(review({}, stack(kubernetesVersion="1.36")))).allowed


def owned(*stacks: str) -> Manifest:
    owners = [{"apiVersion": f"{GROUP}/v1alpha1", "kind": "ClusterStack", "name": name, "uid": name} for name in stacks]
    return release("p-s-1-35-v1", ownerReferences=owners)


async def test_live_m7_a_second_stack_of_the_same_minor_is_warned_about_when_it_is_created() -> None:
    own = await own_kinds(seen=(stack(), stack("next", kubernetesVersion="1.36")))

    answer = await own.stack(review(stack("twin")))
    assert answer.allowed
    assert "ClusterStack scs of namespace stacks has the same provider" in answer.warnings[0]
    assert not (await own.stack(review(stack()))).warnings  # written again, it is its own twin
    assert not (await own.stack(review(stack("other", provider="t")))).warnings
    elsewhere = stack("twin")
    elsewhere["metadata"]["namespace"] = "others"
    assert not (await own.stack(review(elsewhere))).warnings
    assert "noProvider" in (await own.stack(review(stack("twin", noProvider=False)))).refusal


async def test_live_m7_a_stack_whose_releases_another_one_keeps_can_be_deleted() -> None:
    shared = await own_kinds(owned("scs", "twin"), seen=(cluster(),), there=(cluster(), stack()))
    assert (await shared.stack(review({}, stack("twin")))).allowed
    # The other one is gone already, or does not own the release.
    for name, owners, there in (("twin", ("scs", "twin"), ()), ("scs", ("scs",), (stack("twin"),))):
        own = await own_kinds(owned(*owners), seen=(cluster(),), there=(cluster(), *there))
        assert "in use by Cluster users/one" in (await own.stack(review({}, stack(name)))).refusal
    leaving = stack()
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/x"]}
    both = await own_kinds(owned("scs", "twin"), seen=(cluster(),), there=(cluster(), leaving))
    assert "in use by Cluster users/one" in (await both.stack(review({}, stack("twin")))).refusal


async def test_a_cluster_that_has_just_gone_or_moved_is_in_nobodys_way() -> None:
    for there in ((), (cluster("p-s-1-36-v2"),)):
        own = await own_kinds(seen=(cluster(),), there=there)

        assert (await own.release(review({}, release("p-s-1-35-v1")))).allowed


async def test_clusterctl_move_takes_everything_along() -> None:
    own = await own_kinds(seen=(cluster(),), there=(cluster(),))
    moving = {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}
    leaving = stack()
    leaving["metadata"] |= moving

    assert (await own.release(review({}, release("p-s-1-35-v1", **moving)))).allowed
    assert (await own.stack(review({}, leaving))).allowed


async def test_stacks_addons_and_rules_are_judged_by_their_operation() -> None:
    own = await own_kinds()
    metadata = {"namespace": "users", "name": "cluster-addon-one"}
    addon = {"metadata": metadata, "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}}}
    other = {"metadata": {"namespace": "users"}, "spec": {"clusterRef": {"kind": "Cluster", "name": "two"}}}
    rule = {"metadata": {"name": "r"}, "spec": {"severity": "Allow", "message": "m"}}

    assert (await own.stack(review(stack()))).allowed
    assert "providerRef" in (await own.stack(review(stack(noProvider=False)))).refusal
    assert "channel" in (await own.stack(review(stack(channel="custom"), stack()))).refusal
    assert (await own.addon(review(addon))).allowed
    assert "metadata.name" in (await own.addon(review({**addon, "metadata": {**metadata, "name": "x"}}))).refusal
    assert "clusterRef.name" in (await own.addon(review(other, addon))).refusal
    assert "overrides" in (await own.rule(review(rule))).refusal
    assert (await own.rule(review({}, rule))).allowed


def provided(kind: str = "FooClusterStackRelease", namespace: str = "", name: str = "a") -> Manifest:
    reference = {"apiVersion": "infrastructure.clusterstack.x-k8s.io/v1alpha1", "kind": kind, "name": name}
    reference |= {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": "p-s-1-35-v1", "namespace": "stacks"}, "spec": {"providerRef": reference}}


async def test_sec_4_references_to_a_providers_object_are_judged_when_they_come_into_force() -> None:
    own = await own_kinds()
    foreign, of_core = provided(namespace="other"), provided("Secret")

    assert (await own.release(review(provided()))).allowed
    assert (await own.release(review(provided(namespace="stacks")))).allowed
    assert "spec.providerRef.namespace is other" in (await own.release(review(foreign))).refusal
    assert "--provider-kinds" in (await own.release(review(of_core))).refusal
    assert "spec.providerRef.namespace" in (await own.release(review(foreign, provided()))).refusal
    assert (await own.release(review({"metadata": {}, "spec": {}}))).allowed

    renamed = provided(namespace="other", name="b")
    assert (await own.release(review(renamed, foreign))).allowed  # it is a condition already


async def test_sec_4_references_to_a_template_are_judged_when_they_come_into_force() -> None:
    own = await own_kinds()
    right = provided("FooClusterStackReleaseTemplate")["spec"]
    wrong = provided("FooClusterStackReleaseTemplate", "other")["spec"]
    of_nothing = stack(**wrong)

    assert (await own.stack(review(stack(noProvider=False, **right)))).allowed
    assert "spec.providerRef.namespace" in (await own.stack(review(stack(noProvider=False, **wrong)))).refusal
    assert (await own.stack(review(of_nothing))).allowed
    assert (
        "spec.providerRef.namespace" in (await own.stack(review(stack(noProvider=False, **wrong), of_nothing))).refusal
    )
    before = stack(noProvider=False, **wrong)
    assert (await own.stack(review(stack(noProvider=False, versions=["v1"], **wrong), before))).allowed


def test_rules_come_go_and_expire() -> None:
    rules = ProviderRules(Noon())
    key = ObjectKey("", "r")
    rule = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "CompatibilityRule",
        "metadata": {"name": "r"},
        "spec": {"severity": "Warn", "message": "careful"},
    }
    expired = {**rule, "spec": {**rule["spec"], "expires": "2026-11-21T11:59:59Z"}}  # type: ignore[dict-item]

    assert rules.counting(OLD.name, {}) == ()
    rules.changed(CacheChange(key, None, rule))
    assert [one.message for one in rules.counting(OLD.name, {})] == ["careful"]
    rules.changed(CacheChange(key, rule, expired))
    assert rules.counting(OLD.name, {}) == ()
    rules.changed(CacheChange(key, expired, rule))
    rules.changed(CacheChange(key, rule, {**rule, "spec": {"severity": "Deny"}}))
    assert rules.counting(OLD.name, {}) == ()
    rules.changed(CacheChange(key, rule, None))
    assert rules.counting(OLD.name, {}) == ()
