"""From a question to a decision, with releases that are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.admission.advice import Adviser
from clusterstacks.admission.clusters import ClusterJudge
from clusterstacks.admission.offers import Offer
from clusterstacks.admission.ours import OwnKinds
from clusterstacks.admission.reviews import Operation, Review
from clusterstacks.admission.rules import ProviderRules
from clusterstacks.domain.names import ReleaseName, parse_release
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.domain.providerrefs import DEFAULT_KINDS
from clusterstacks.domain.verdicts import NOTHING_KNOWN
from clusterstacks.kube.resources import Resource
from clusterstacks.runtime.store import Change, Store
from tests.support.fake_api import FakeApi
from tests.support.planning import candidate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from clusterstacks.domain.admission.answers import Answer
    from clusterstacks.domain.planning.world import Candidate

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

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> Offer | None:
        known = {one.name: one for one in self.candidates}
        if namespace != "stacks" or release not in known:
            return None
        assert release not in wanted
        return Offer(known[release].kubernetes.text, candidates=known, lacking=self.lacking)

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:
        assert cluster == ObjectKey("users", "one")
        return self.has


@pytest.fixture
def adviser() -> Iterator[Adviser]:
    made = Adviser()
    yield made
    made.close()


def cluster(class_name: str = "p-s-1-35-v1", version: str = "v1.35.1", **annotations: str) -> Manifest:
    named = {f"{GROUP}/{key.replace('__', '.')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "users", "annotations": named},
        "spec": {"topology": {"classRef": {"name": class_name, "namespace": "stacks"}, "version": version}},
    }


def review(new: Manifest, old: Manifest | None = None, kind: str = "Cluster") -> Review:
    operation = Operation.UPDATE if old and new else Operation.CREATE if new else Operation.DELETE
    return Review("u1", operation, GROUP, kind, new, old or {})


async def judged(adviser: Adviser, new: Manifest, old: Manifest | None = None, given: Given | None = None) -> Answer:
    rules = ProviderRules(Noon())
    judge = ClusterJudge(offers=given or Given(), rules=rules, upstream=NOTHING_KNOWN, adviser=adviser)
    return await judge.judge(review(new, old))


async def test_the_refusal_of_an_upgrade_says_the_way_out(adviser: Adviser) -> None:
    answer = await judged(adviser, cluster(version="v1.36.1"), cluster())

    assert answer.refusal == (
        "class p-s-1-35-v1 with Kubernetes v1.36.1: cluster addon cilium: cilium 1.17.2 works with Kubernetes "
        ">=1.30 <1.36; upgrade cluster addon cilium to 1.18.0 (release p-s-1-36-v2 has it) before moving to Kubernetes "
        "v1.36.1: kubectl annotate cluster -n users one --overwrite clusterstack.x-k8s.io/addon.cilium=p-s-1-36-v2"
    )


async def test_an_addon_on_its_way_is_waited_for(adviser: Adviser) -> None:
    annotation = {"addon__cilium": "p-s-1-36-v2"}
    new, old = cluster(version="v1.36.1", **annotation), cluster(**annotation)

    under_way = await judged(adviser, new, old, Given(has={"cilium": OLD.name}))
    delivered = await judged(adviser, new, old, Given(has={"cilium": NEW.name}))

    assert under_way.refusal.endswith("wait until cilium 1.18.0 is delivered to Cluster users/one, then try again")
    assert delivered.allowed
    assert not delivered.warnings


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
async def test_clusters_without_one_of_our_classes_are_nobodys_business(adviser: Adviser, strange: Any) -> None:
    assert await judged(adviser, strange) == await judged(adviser, strange, cluster()) == await judged(adviser, {})
    assert (await judged(adviser, strange)).allowed


async def test_a_cluster_may_gain_its_topology(adviser: Adviser) -> None:
    bare = {"metadata": {"name": "one", "namespace": "users"}, "spec": {"controlPlaneRef": {"name": "x"}}}

    assert (await judged(adviser, cluster(), bare)).allowed
    assert not (await judged(adviser, cluster(version="v1.36.1"), bare)).allowed


async def test_an_unknown_release_is_let_through_with_a_warning(adviser: Adviser) -> None:
    answer = await judged(adviser, cluster("p-s-1-35-v77"))

    assert answer.allowed
    assert "nothing is known of release p-s-1-35-v77" in answer.warnings[0]


@pytest.mark.parametrize(
    ("class_name", "version", "words"),
    [
        ("p-s-1-35-v9", "v1.35.9", ""),
        ("p-s-1-35-v9", "v1.35.8", "is for Kubernetes v1.35.9 exactly"),
    ],
)
async def test_a_bundle_is_judged_as_before(adviser: Adviser, class_name: str, version: str, words: str) -> None:
    answer = await judged(adviser, cluster(class_name, version))

    assert answer.allowed is not bool(words)
    assert words in answer.refusal


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("nonsense", "is no release"),
        ("p-other-1-35-v1", "is of another cluster stack"),
        ("p-s-1-36-v66", "cannot be served by the ClusterStack of class stacks/p-s-1-35-v1: it is gone"),
        ("p-s-1-36-v67", "cannot be served"),
        ("p-s-1-35-v9", "is a bundle"),
    ],
)
async def test_an_annotation_names_a_release_that_can_be_served(adviser: Adviser, value: str, words: str) -> None:
    given = Given(lacking={parse_release("p-s-1-36-v66"): "it is gone"})

    answer = await judged(adviser, cluster(addon__cilium=value), cluster(), given)

    assert words in answer.refusal


async def test_annotations_somebody_wrote_past_the_webhook_do_not_stop_their_repair(adviser: Adviser) -> None:
    for broken in ("nonsense", "p-s-1-36-v66"):
        assert (await judged(adviser, cluster(), cluster(addon__cilium=broken))).allowed


async def test_so_many_releases_are_not_looked_for(adviser: Adviser) -> None:
    many = {f"addon__a{at}": f"p-s-1-35-v{at}" for at in range(100, 200)}

    assert "more than 32 releases" in (await judged(adviser, cluster(**many), cluster())).refusal


async def test_a_version_that_is_none_is_left_to_cluster_api(adviser: Adviser) -> None:
    answer = await judged(adviser, cluster(version="latest"))

    assert answer.allowed
    assert "'latest' is no version" in answer.warnings[0]


# Our own kinds


def stored(*manifests: Manifest) -> Store:
    store = Store()
    for manifest in manifests:
        metadata = manifest["metadata"]
        store.put(ObjectKey(metadata["namespace"], metadata["name"]), manifest)
    return store


def release(name: str, **metadata: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "stacks", **metadata}}


def stack(name: str = "scs", **spec: Any) -> Manifest:
    plain = {"provider": "p", "name": "s", "kubernetesVersion": "1.35", "noProvider": True}
    return {"metadata": {"name": name, "namespace": "stacks"}, "spec": {**plain, **spec}}


CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)


async def own_kinds(*releases: Manifest, seen: tuple[Manifest, ...] = (), there: tuple[Manifest, ...] = ()) -> OwnKinds:
    """With Clusters as the informer has seen them, and as they are."""
    api = FakeApi(CLUSTERS)
    for manifest in there:
        await api.create(CLUSTERS, manifest)
    return OwnKinds(api, stored(*seen), stored(*releases), DEFAULT_KINDS)


async def test_deletions_are_refused_while_clusters_elsewhere_use_the_class() -> None:
    own = await own_kinds(release("p-s-1-35-v1"), seen=(cluster(),), there=(cluster(),))

    assert "in use by Cluster users/one" in (await own.release(review({}, release("p-s-1-35-v1")))).refusal
    assert "in use by Cluster users/one" in (await own.stack(review({}, stack()))).refusal
    assert (await own.release(review({}, release("p-s-1-35-v2")))).allowed
    assert (await own.stack(review({}, stack(kubernetesVersion="1.36")))).allowed


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
    addon = {"metadata": {"namespace": "users"}, "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}}}
    other = {"metadata": {"namespace": "users"}, "spec": {"clusterRef": {"kind": "Cluster", "name": "two"}}}
    rule = {"metadata": {"name": "r"}, "spec": {"severity": "Allow", "message": "m"}}

    assert (await own.stack(review(stack()))).allowed
    assert "providerRef" in (await own.stack(review(stack(noProvider=False)))).refusal
    assert "channel" in (await own.stack(review(stack(channel="custom"), stack()))).refusal
    assert (await own.addon(review(addon))).allowed
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
    rules.changed(Change(key, None, rule))
    assert [one.message for one in rules.counting(OLD.name, {})] == ["careful"]
    rules.changed(Change(key, rule, expired))
    assert rules.counting(OLD.name, {}) == ()
    rules.changed(Change(key, expired, rule))
    rules.changed(Change(key, rule, {**rule, "spec": {"severity": "Deny"}}))
    assert rules.counting(OLD.name, {}) == ()
    rules.changed(Change(key, rule, None))
    assert rules.counting(OLD.name, {}) == ()
