"""Decisions about Clusters, with given releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from clusterstacks.model.kinds.names import CompatibilityPolicy
from clusterstacks.model.names import ReleaseName, parse_release
from clusterstacks.model.versions import StackVersion
from clusterstacks.operator.webhooks.cluster_rules import ClassOffer
from clusterstacks.plan.compat.constraints import kubernetes_fact
from tests.support.builders.admission import (
    NEW,
    OLD,
    Given,
    cluster,
    judged,
    ranged,
)
from tests.support.planner_oracle import candidate

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.webhooks.suggestions import Suggester


async def test_denial_of_an_upgrade_names_a_remedy(suggester: Suggester) -> None:
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


async def test_denial_waits_for_an_addon_being_delivered(suggester: Suggester) -> None:
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


@pytest.mark.regression("LIVE-M4")
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
async def test_annotation_without_effect_gives_a_warning(
    suggester: Suggester, before: dict[str, str] | None, after: dict[str, str], warned: str
) -> None:
    answer = await judged(suggester, cluster(**after), None if before is None else cluster(**before))

    assert answer.allowed
    assert len(answer.warnings) == bool(warned)
    assert all(warned in text and "the addons are cilium" in text for text in answer.warnings)


@pytest.mark.regression("LIVE-M4")
async def test_warning_does_not_depend_on_known_releases(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster("p-s-1-39-v1", addons__cilium="v1"))

    assert "addons.cilium is not read: write clusterstack.x-k8s.io/addon.<addon>, or" in answer.warnings[-1]


@pytest.mark.regression("LIVE-M8")
async def test_denial_waits_for_a_version_being_rolled_out(suggester: Suggester) -> None:
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
async def test_clusters_without_a_cluster_stack_class_are_allowed(suggester: Suggester, strange: Any) -> None:
    assert (
        await judged(suggester, strange) == await judged(suggester, strange, cluster()) == await judged(suggester, {})
    )
    assert (await judged(suggester, strange)).allowed


async def test_topology_can_be_added_to_a_cluster(suggester: Suggester) -> None:
    bare = {"metadata": {"name": "one", "namespace": "users"}, "spec": {"controlPlaneRef": {"name": "x"}}}

    assert (await judged(suggester, cluster(), bare)).allowed
    assert not (await judged(suggester, cluster(version="v1.36.1"), bare)).allowed


@pytest.mark.regression("U-26")
async def test_unknown_release_is_allowed_with_a_warning(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster("p-s-1-35-v77"))

    assert answer.allowed
    warning, meant = answer.warnings
    assert meant.startswith("did you mean class p-s-1-35-v")
    assert warning == (
        "no ClusterStack of namespace stacks offers class p-s-1-35-v77 yet: nothing is created for this Cluster until "
        "one does, and its versions were not checked"
    )


@dataclass
class Unread(Given):
    """A namespace whose release v77 exists but is not downloaded."""

    policy: CompatibilityPolicy = CompatibilityPolicy.RANGE

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        if release.version != StackVersion(77):
            return await super().offer(namespace, release, wanted)
        return ClassOffer("", self.policy, lacking={release: "it is being fetched for the first time"})


@pytest.mark.regression("LIVE-H1")
async def test_update_to_a_release_with_unknown_facts_asks_for_a_retry(suggester: Suggester) -> None:
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
async def test_skipped_minor_and_downgrade_are_denied_before_the_release_is_known(
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
async def test_bundle_requires_its_exact_version(
    suggester: Suggester, class_name: str, version: str, words: str
) -> None:
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
async def test_annotation_with_an_unavailable_release_is_denied(suggester: Suggester, value: str, words: str) -> None:
    given = Given(lacking={parse_release("p-s-1-36-v66"): "it is gone"})

    answer = await judged(suggester, cluster(addon__cilium=value), cluster(), given)

    assert words in answer.refusal


async def test_invalid_existing_annotations_can_be_repaired(suggester: Suggester) -> None:
    for broken in ("nonsense", "p-s-1-36-v66"):
        assert (await judged(suggester, cluster(), cluster(addon__cilium=broken))).allowed


async def test_too_many_referenced_releases_are_denied(suggester: Suggester) -> None:
    many: dict[str, Any] = {f"addon__a{at}": f"p-s-1-35-v{at}" for at in range(100, 200)}

    assert "at most 32 releases" in (await judged(suggester, cluster(**many), cluster())).refusal
    assert (await judged(suggester, cluster(), cluster(**many))).allowed


# Namespaces that a class is offered to


@pytest.mark.regression("SEC-5")
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
async def test_newly_used_releases_must_be_available_to_the_namespace(
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


@pytest.mark.regression("SEC-13")
@pytest.mark.parametrize("spec", RULES)
async def test_rule_on_labels_and_variables_is_evaluated_when_they_change(suggester: Suggester, spec: Manifest) -> None:
    given, prod = Given(rules=(spec,)), cluster(labels=PROD, variables=PROD)

    assert "not in production" in (await judged(suggester, prod, cluster(), given)).refusal
    assert (await judged(suggester, cluster(), prod, given)).allowed
    # The same holds for a write that also moves an addon; what was wrong before may stay.
    moving = cluster(labels=PROD, variables=PROD, addon__cilium="p-s-1-36-v2")
    assert "not in production" in (await judged(suggester, moving, cluster(), given)).refusal
    assert (await judged(suggester, moving, prod, given)).allowed
    other = cluster(labels={**PROD, "a": "b"}, variables={**PROD, "a": "b"})
    assert (await judged(suggester, other, prod, given)).allowed


@pytest.mark.regression("SEC-13")
async def test_removal_of_a_label_that_a_rule_allows_is_denied(suggester: Suggester) -> None:
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


@pytest.mark.regression("SEC-13")
@pytest.mark.parametrize(
    "spec", [rule(when={"clusterLabels": PROD}), rule(severity="Warn", when={"clusterLabels": PROD})]
)
async def test_allow_incompatible_annotation_and_warnings_apply(suggester: Suggester, spec: Manifest) -> None:
    prod = cluster(labels=PROD, **{"allow-incompatible": "drill"})

    answer = await judged(suggester, prod, cluster(), Given(rules=(spec,)))

    assert answer.allowed
    assert "not in production" in " ".join(answer.warnings)
    assert bool(answer.excused) is (spec["severity"] == "Deny")


@pytest.mark.regression("SEC-13")
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
async def test_unrelated_label_is_allowed_despite_other_violations(
    suggester: Suggester, wrong: dict[str, Any], spec: Manifest
) -> None:
    """These Clusters were written past the webhook; an edit of their labels went through before, and goes on to."""
    given = Given(rules=(spec,))

    answer = await judged(suggester, cluster(**wrong, labels={"a": "b"}), cluster(**wrong), given)

    assert answer.allowed
    assert not given.asked


@pytest.mark.parametrize("depth", [300, 1000])
async def test_deeply_nested_cluster_is_validated(suggester: Suggester, depth: int) -> None:
    asked = [cluster(), cluster(version="v1.36.1")]
    for one in asked:
        deep = orjson.loads(b"[" * depth + b"]" * depth)
        one["spec"]["topology"]["variables"] = [{"name": "deep", "value": deep}]

    assert (await judged(suggester, asked[0], asked[0])).allowed
    assert "works with Kubernetes" in (await judged(suggester, asked[1], asked[0])).refusal


async def test_invalid_version_is_left_to_cluster_api(suggester: Suggester) -> None:
    answer = await judged(suggester, cluster(version="latest"))

    assert answer.allowed
    assert "'latest' is not a version" in answer.warnings[0]
