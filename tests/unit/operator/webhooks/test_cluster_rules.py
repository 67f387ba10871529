"""Admission rules for Clusters whose class states ranges."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from clusterstacks.model.files.compatibility import Rule, parse_rule
from clusterstacks.model.kinds.addon_annotations import AddonReleaseRefused, read_requested_releases
from clusterstacks.model.kinds.names import ESCAPE_ANNOTATION, CompatibilityPolicy
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.webhooks.cluster_rules import AddonUnavailable, Decision, decide_change, wanted_versions
from clusterstacks.operator.webhooks.suggestions import (
    PlanRequest,
    class_or_version_for,
    plan_suggestion,
    releases_with,
)
from clusterstacks.plan.compat.constraints import Judges
from clusterstacks.plan.compat.rules.ranged_releases import ClusterChange
from clusterstacks.plan.compat.world import Candidate, ClusterState, ClusterVersions, World
from clusterstacks.plan.planner.budget import Budget
from tests.support.planner_oracle import candidate

ADDON = "clusterstack.x-k8s.io/addon."
CLUSTER = ObjectKey("users", "one")


def component(name: str, version: str, kubernetes: str | None, **more: Any) -> dict[str, Any]:
    stated = {"name": name, "version": version, **more}
    return stated if kubernetes is None else {**stated, "kubernetes": kubernetes}


def addon(name: str, version: str, kubernetes: str | None, **more: Any) -> dict[str, Any]:
    return component(name, version, kubernetes, addon=name, **more)


def release(name: str, kubernetes: str, stated: str, *components: dict[str, Any], **more: Any) -> Candidate:
    return candidate(name, kubernetes, {"kubernetes": stated, "components": list(components), **more})


OLD = release(
    "p-s-1-35-v1",
    "v1.35.1",
    ">=1.34 <1.38",
    addon("cilium", "1.17.2", ">=1.30 <1.36"),
    addon("csi", "1.0.0", ">=1.30"),
)
NEW = release(
    "p-s-1-36-v2",
    "v1.36.1",
    ">=1.35 <1.38",
    addon("cilium", "1.18.0", ">=1.33 <1.38"),
    addon("csi", "1.1.0", ">=1.30"),
)
LATE = release("p-s-1-36-v3", "v1.36.1", ">=1.35 <1.38", addon("cilium", "1.19.0", ">=1.36 <1.39"))
BUNDLE = candidate("p-s-1-35-v9", "v1.35.9", None)
KNOWN = {one.name: one for one in (OLD, NEW, LATE, BUNDLE)}


def setup(of: Candidate, version: str, **annotations: str) -> ClusterVersions:
    """Return the requested versions of a Cluster; annotations by addon."""
    requested = read_requested_releases({f"{ADDON}{name}": value for name, value in annotations.items()}, of.name)
    return wanted_versions(requested, of.name, KubernetesVersion.parse(version), KNOWN | {of.name: of})


class Before(NamedTuple):
    """A cluster before a change."""

    asked: ClusterVersions
    delivered: ClusterVersions


def settled(asked: ClusterVersions) -> Before:
    return Before(asked, asked)


def change(after: ClusterVersions, before: Before | None = None, rules: tuple[Rule, ...] = ()) -> ClusterChange:
    if before is None:
        return ClusterChange(wanted=after, judges=Judges(rules))
    return ClusterChange(wanted=after, before=before.asked, delivered=before.delivered, judges=Judges(rules))


def judged(
    after: ClusterVersions,
    before: Before | None = None,
    policy: CompatibilityPolicy = CompatibilityPolicy.RANGE,
    rules: tuple[Rule, ...] = (),
    reason: str = "",
) -> Decision:
    return decide_change(change(after, before, rules), policy, {ESCAPE_ANNOTATION: reason} if reason else {})


AT_35 = settled(setup(OLD, "v1.35.1"))


@pytest.mark.parametrize(
    ("after", "before", "words"),
    [
        pytest.param(setup(OLD, "v1.35.1"), None, "", id="a new Cluster inside all ranges"),
        pytest.param(
            setup(OLD, "v1.33.1"), None, "class p-s-1-35-v1 is for Kubernetes >=1.34 <1.38", id="class's range"
        ),
        pytest.param(setup(OLD, "v1.36.1"), None, "cluster addon cilium: cilium 1.17.2 works with", id="addon's range"),
        pytest.param(setup(OLD, "v1.36.1", cilium="p-s-1-36-v2"), None, "", id="addon of another release"),
        pytest.param(setup(OLD, "v1.36.1", cilium="none"), None, "", id="without the addon"),
        pytest.param(setup(OLD, "v1.35.4"), AT_35, "", id="another patch"),
        pytest.param(setup(OLD, "v1.34.9"), AT_35, "never goes down", id="down"),
        pytest.param(setup(NEW, "v1.37.0"), AT_35, "one minor at a time", id="two minors"),
        pytest.param(setup(OLD, "v1.36.1"), AT_35, "cilium 1.17.2 works with", id="Kubernetes alone"),
        pytest.param(
            setup(OLD, "v1.36.1", cilium="p-s-1-36-v2"),
            AT_35,
            "cilium 1.17.2 works with",
            id="what is delivered counts",
        ),
        pytest.param(
            setup(OLD, "v1.36.1", cilium="p-s-1-36-v2"),
            settled(setup(OLD, "v1.35.1", cilium="p-s-1-36-v2")),
            "",
            id="after the addon has moved",
        ),
        pytest.param(
            setup(OLD, "v1.36.1", cilium="p-s-1-36-v3"),
            settled(setup(OLD, "v1.35.1", cilium="p-s-1-36-v2")),
            "cilium 1.19.0 works with Kubernetes >=1.36 <1.39",
            id="what is asked for must work with the old version",
        ),
        pytest.param(setup(NEW, "v1.35.1"), AT_35, "", id="the class alone, its addons with it"),
        pytest.param(setup(NEW, "v1.36.1"), AT_35, "cilium 1.17.2 works with", id="class, addons and version at once"),
        pytest.param(
            setup(NEW, "v1.36.1"), settled(setup(OLD, "v1.35.1", cilium="p-s-1-36-v2")), "", id="class and version"
        ),
    ],
)
def test_both_the_change_and_its_result_must_be_allowed(
    after: ClusterVersions, before: Before | None, words: str
) -> None:
    decision = judged(after, before)

    assert decision.answer.allowed is not bool(words)
    assert words in decision.answer.refusal


def listing(of: Candidate, *versions: str) -> Candidate:
    return replace(of, class_versions=tuple(map(KubernetesVersion.parse, versions)))


CHAIN = listing(
    release("p-s-1-34-v1", "v1.34.2", ">=1.34 <1.37", addon("cilium", "1.17.2", ">=1.30 <1.38")),
    *("v1.34.2", "v1.35.1", "v1.35.4", "v1.36.3"),
)
HOLE = listing(release("p-s-1-34-v1", "v1.34.2", ">=1.34 <1.37"), "v1.34.2", "v1.36.3")
NARROW = listing(
    release("p-s-1-34-v1", "v1.34.2", ">=1.34 <1.37", addon("cilium", "1.17.2", ">=1.34 <1.35")),
    *("v1.34.2", "v1.35.4", "v1.36.3"),
)
PAST = release("p-s-1-34-v9", "v1.34.2", ">=1.34 <1.35", addon("cilium", "1.18.0", ">=1.36 <1.38"))


@pytest.mark.regression("UPG-1")
@pytest.mark.parametrize(
    ("of", "before", "version", "words"),
    [
        pytest.param(CHAIN, "v1.34.2", "v1.36.3", "", id="over a listed minor"),
        pytest.param(CHAIN, "v1.34.2", "v1.35.1", "", id="one minor"),
        pytest.param(CHAIN, "v1.34.2", "v1.36.1", "go to one of these that has no gap", id="not listed"),
        pytest.param(HOLE, "v1.34.2", "v1.36.3", "go to one of these that has no gap", id="a gap"),
        pytest.param(CHAIN, "v1.36.3", "v1.34.2", "never goes down", id="down"),
        pytest.param(
            NARROW,
            "v1.34.2",
            "v1.36.3",
            "cilium 1.17.2 works with Kubernetes >=1.34 <1.35",
            id="an addon that works with the first only",
        ),
    ],
)
def test_several_minors_are_allowed_over_the_versions_that_the_class_lists(
    of: Candidate, before: str, version: str, words: str
) -> None:
    answer = judged(setup(of, version), settled(setup(of, before))).answer

    assert words in answer.refusal
    assert answer.allowed is not bool(words)


@pytest.mark.regression("UPG-1")
def test_a_rule_of_the_provider_about_a_passed_version_refuses_the_upgrade_over_it() -> None:
    stated = {"id": "no-35", "severity": "Deny", "message": "1.35 breaks our disks", "when": {"kubernetes": "=1.35.4"}}
    rule = parse_rule(stated, file="rules")

    answer = judged(setup(CHAIN, "v1.36.3"), settled(setup(CHAIN, "v1.34.2")), rules=(rule,)).answer

    assert "on the way, with Kubernetes v1.35.4: 1.35 breaks our disks" in answer.refusal


def test_change_to_another_stack_is_denied() -> None:
    other = release("p-other-1-35-v1", "v1.35.1", ">=1.34 <1.37")

    assert "stays with its provider and stack p-s" in judged(setup(other, "v1.35.1"), AT_35).answer.refusal


def test_delivered_addon_version_is_checked_instead_of_the_requested_one() -> None:
    asked = setup(OLD, "v1.35.1", cilium="p-s-1-36-v2")

    decision = judged(setup(OLD, "v1.36.1", cilium="p-s-1-36-v2"), Before(asked, setup(OLD, "v1.35.1")))

    assert decision.against
    assert all(one.under_way for one in decision.against)
    assert "cilium 1.17.2" in decision.answer.refusal


def test_during_a_control_plane_rollout_an_addon_must_work_with_the_old_version() -> None:
    asked = setup(OLD, "v1.36.1", cilium="p-s-1-36-v2")
    rolling = Before(asked, replace(asked, kubernetes=KubernetesVersion.parse("v1.35.1")))

    assert "cilium 1.19.0" in judged(setup(OLD, "v1.36.1", cilium="p-s-1-36-v3"), rolling).answer.refusal
    assert judged(setup(OLD, "v1.36.1", cilium="p-s-1-36-v3"), settled(asked)).answer.allowed


SLID = release(
    "p-s-1-35-v5", "v1.35.1", ">=1.34 <1.36", addon("cilium", "1.16.0", "<1.35"), addon("csi", "0.9.0", "<1.35")
)
MENDED = release(
    "p-s-1-35-v6", "v1.35.1", ">=1.34 <1.37", addon("cilium", "1.17.0", ">=1.35"), addon("csi", "0.8.0", "<1.36")
)


def test_cluster_outside_its_ranges_can_be_repaired_one_addon_at_a_time() -> None:
    before = settled(setup(SLID, "v1.35.1"))
    known = {one.name: one for one in (SLID, MENDED)}

    def moved(**annotations: str) -> ClusterVersions:
        requested = read_requested_releases({f"{ADDON}{key}": value for key, value in annotations.items()}, SLID.name)
        return wanted_versions(requested, SLID.name, KubernetesVersion.parse("v1.35.1"), known)

    # csi stays outside of its range: that was so before.
    assert judged(moved(cilium="p-s-1-35-v6"), before).answer.allowed
    assert (
        "csi 0.8.0 does not support a downgrade from 0.9.0" in judged(moved(csi="p-s-1-35-v6"), before).answer.refusal
    )
    # A move of Kubernetes must end legal for all, and does not ask the old version of what was outside.
    assert "csi 0.9.0 works with" in judged(setup(SLID, "v1.35.2"), before).answer.refusal


def test_change_of_the_class_alone_keeps_no_fact_that_was_violated_before() -> None:
    before = settled(setup(OLD, "v1.36.1"))
    next_class = release("p-s-1-35-v2", "v1.35.1", ">=1.34 <1.38", addon("cilium", "1.17.2", ">=1.30 <1.36"))

    assert "cilium 1.17.2 works with" in judged(setup(next_class, "v1.36.1"), before).answer.refusal


def test_addon_outside_its_range_does_not_prevent_the_move_of_kubernetes_into_it() -> None:
    assert judged(setup(LATE, "v1.36.1"), settled(setup(LATE, "v1.35.1"))).answer.allowed


def test_edit_during_an_upgrade_that_was_allowed_is_not_judged_by_its_upgrade_rules_again() -> None:
    jump = release(
        "p-s-1-36-v4", "v1.36.1", ">=1.35 <1.38", addon("cilium", "1.19.0", ">=1.33", upgrade={"maxMinorStep": 1})
    )
    asked = setup(jump, "v1.36.1")
    delivered = ClusterVersions(asked.release, asked.kubernetes, setup(OLD, "v1.35.1").addons)
    known = {"cilium": delivered.addons["cilium"]}
    working = ClusterVersions(asked.release, KubernetesVersion.parse("v1.35.1"), known)

    assert not judged(asked, settled(working)).answer.allowed
    assert judged(asked, Before(asked, ClusterVersions(asked.release, asked.kubernetes, asked.addons))).answer.allowed
    assert "maxMinorStep" not in judged(asked, Before(asked, delivered)).answer.refusal


def test_refusal_counts_the_facts_that_it_does_not_list() -> None:
    addons = (addon(f"a{number}", "1.0.0", ">=1.30 <1.34") for number in range(5))
    many = release("p-s-1-35-v7", "v1.35.1", ">=1.34 <1.38", *addons)

    assert judged(setup(many, "v1.35.1")).answer.refusal.endswith("and 2 more")


def test_upgrade_rule_of_the_new_version_may_deny_the_step() -> None:
    jump = release("p-s-1-36-v7", "v1.36.1", ">=1.35", addon("csi", "1.9.0", None, upgrade={"maxMinorStep": 1}))
    requested = read_requested_releases({f"{ADDON}csi": "p-s-1-36-v7"}, OLD.name)
    after = wanted_versions(requested, OLD.name, KubernetesVersion.parse("v1.35.1"), KNOWN | {jump.name: jump})

    assert (
        "csi may not be upgraded from 1.0.0 to 1.9.0 at once: upgrade.maxMinorStep of 1.9.0 is 1"
        in judged(after, AT_35).answer.refusal
    )


def test_leaving_a_bundle_requires_addons_that_work_with_both_versions() -> None:
    left = settled(ClusterVersions(Candidate(BUNDLE.name, BUNDLE.kubernetes), BUNDLE.kubernetes, {}))

    assert judged(setup(NEW, "v1.36.1"), left).answer.allowed
    assert "cilium 1.19.0" in judged(setup(LATE, "v1.36.1"), left).answer.refusal


DOUBTFUL = release(
    "p-s-1-35-v8",
    "v1.35.1",
    ">=1.34 <1.37",
    addon("cilium", "1.17.0", "<1.35", kind="tested"),
    addon("homegrown", "1.0.0", None),
)


@pytest.mark.parametrize(
    ("policy", "against", "warnings"),
    [(CompatibilityPolicy.RANGE, 0, 2), (CompatibilityPolicy.STRICT, 2, 0), (CompatibilityPolicy.PERMISSIVE, 0, 2)],
)
def test_policy_decides_on_untested_and_unknown_versions(
    policy: CompatibilityPolicy, against: int, warnings: int
) -> None:
    decision = judged(setup(DOUBTFUL, "v1.35.1"), None, policy)

    assert (len(decision.against), len(decision.answer.warnings)) == (against, warnings)
    if warnings:
        assert decision.answer.warnings[0].startswith("untested: cilium 1.17.0 is tested with Kubernetes <1.35")
        assert decision.answer.warnings[1].startswith("unknown: nothing is known about homegrown")


def test_permissive_policy_warns_about_incompatible_versions_but_enforces_upgrade_rules() -> None:
    allowed = judged(setup(OLD, "v1.36.1"), AT_35, CompatibilityPolicy.PERMISSIVE).answer

    assert allowed.allowed
    assert any("cilium 1.17.2" in one for one in allowed.warnings)
    assert not judged(setup(OLD, "v1.34.1"), AT_35, CompatibilityPolicy.PERMISSIVE).answer.allowed


def test_strict_policy_requires_the_version_of_the_class_and_allows_addon_changes() -> None:
    assert (
        "is made for Kubernetes v1.35.1"
        in judged(setup(OLD, "v1.35.2"), AT_35, CompatibilityPolicy.STRICT).answer.refusal
    )
    other = settled(setup(OLD, "v1.35.2"))
    assert judged(setup(OLD, "v1.35.2", csi="p-s-1-36-v2"), other, CompatibilityPolicy.STRICT).answer.allowed


def test_change_of_one_addon_repeats_no_warnings_about_others() -> None:
    before = settled(setup(DOUBTFUL, "v1.35.1"))

    decision = judged(setup(DOUBTFUL, "v1.35.1", cilium="p-s-1-36-v2"), before, CompatibilityPolicy.STRICT)

    assert decision.answer.allowed


def test_rules_deny_warn_and_allow_and_those_of_the_provider_win() -> None:
    text = {
        "id": "no-csi",
        "severity": "Deny",
        "message": "csi 1.0 loses data",
        "when": {"components": {"csi": "=1.0.0"}},
    }
    deny = parse_rule(text, file="rules")
    warn = parse_rule({**text, "id": "careful", "severity": "Warn"}, file="rules")
    lifted = parse_rule(
        {"id": "ok", "severity": "Allow", "message": "we tried", "overrides": ["component:cilium@1.17.2:kubernetes"]},
        file="rules",
    )

    assert "csi 1.0 loses data" in judged(setup(OLD, "v1.35.1"), None, rules=(deny,)).answer.refusal
    assert judged(setup(OLD, "v1.35.1"), None, rules=(warn,)).answer.warnings == ("csi 1.0 loses data",)
    assert judged(setup(OLD, "v1.36.1"), AT_35, rules=(lifted,)).answer.allowed


def test_allow_incompatible_annotation_overrides_facts_but_not_upgrade_rules() -> None:
    decision = judged(setup(OLD, "v1.36.1"), AT_35, reason="drill of today")

    assert decision.answer.allowed
    assert "drill of today" in decision.answer.warnings[0]
    assert any("cilium 1.17.2" in one for one in decision.answer.warnings)
    assert "cilium 1.17.2" in decision.answer.excused
    laws = judged(setup(OLD, "v1.34.1"), AT_35, reason="drill")
    assert not laws.answer.allowed
    assert not judged(setup(OLD, "v1.36.1"), AT_35, reason=" ").answer.allowed


def test_addon_release_must_contain_the_addon_and_not_be_a_bundle() -> None:
    with pytest.raises(AddonReleaseRefused, match="has no addon csi"):
        setup(OLD, "v1.35.1", csi="p-s-1-36-v3")
    with pytest.raises(AddonUnavailable, match="is a bundle"):
        setup(OLD, "v1.35.1", csi="p-s-1-35-v9")


# Suggestions


def plan_request(to: str, *candidates: Candidate, version: str = "v1.35.1") -> PlanRequest:
    kubernetes = KubernetesVersion.parse(version)
    state = ClusterState(kubernetes, kubernetes, OLD.name, {"cilium": "1.17.2", "csi": "1.0.0"})
    target = parse_release(to) if not to.startswith("v") else KubernetesVersion.parse(to)
    return PlanRequest(CLUSTER, World(candidates), state, target)


def suggestion(asked: PlanRequest) -> str:
    return plan_suggestion(asked, Budget())


@pytest.mark.regression("LIVE-M8")
def test_suggestion_is_a_list_of_steps_that_ends_with_a_command() -> None:
    assert suggestion(plan_request("v1.36.1", OLD, NEW)) == (
        "Do this instead, one after the other:\n"
        "  1. upgrade cluster addon cilium to 1.18.0 (release p-s-1-36-v2 has it)\n"
        "  2. move to Kubernetes v1.36.1\n"
        "All steps with their commands:\n"
        "  csctl plan users/one --to v1.36.1\n"
        "Begin with:\n"
        "  kubectl annotate cluster -n users one --overwrite clusterstack.x-k8s.io/addon.cilium=p-s-1-36-v2"
    )


def test_suggestion_of_another_class_is_a_patch() -> None:
    narrow = release("p-s-1-35-v1", "v1.35.1", ">=1.34 <1.36", addon("csi", "1.0.0", ">=1.30"))
    state = ClusterState(narrow.kubernetes, narrow.kubernetes, narrow.name, {"csi": "1.0.0"})

    told = suggestion(PlanRequest(CLUSTER, World((narrow, NEW)), state, KubernetesVersion.parse("v1.36.1")))

    assert told.startswith("Do this instead: move to class p-s-1-36-v2")
    assert "kubectl patch cluster -n users one --type merge -p '{" in told
    assert '"classRef":{"name":"p-s-1-36-v2"}' in told


def test_suggestion_waits_for_an_addon_that_an_annotation_already_requests() -> None:
    asked = plan_request("v1.36.1", OLD, NEW)
    annotated = replace(asked.state, annotations={f"{ADDON}cilium": "p-s-1-36-v2"})

    told = suggestion(replace(asked, state=annotated))

    assert told == (
        "Wait until cluster addon cilium is delivered as its annotation asks for, then try again:\n"
        "  kubectl wait clusteraddon -n users cluster-addon-one "
        """--for='jsonpath={.status.addons[?(@.name=="cilium")].release}=p-s-1-36-v2' --timeout=15m"""
    )


def test_suggestion_names_the_clusterstack_that_must_offer_the_class() -> None:
    narrow = release("p-s-1-35-v1", "v1.35.1", ">=1.34 <1.36", addon("csi", "1.0.0", ">=1.30"))
    state = ClusterState(narrow.kubernetes, narrow.kubernetes, narrow.name, {"csi": "1.0.0"})
    target = KubernetesVersion.parse("v1.36.1")

    told = suggestion(PlanRequest(CLUSTER, World((narrow, NEW)), state, target, ready=frozenset({narrow.name})))

    assert "move to class p-s-1-36-v2" in told
    assert "(its ClusterStack must offer v2 first)" in told


def test_suggestion_waits_for_workers() -> None:
    asked = plan_request("v1.36.1", OLD, NEW)
    lagging = replace(asked.state, workers=KubernetesVersion.parse("v1.34.0"))

    assert suggestion(replace(asked, state=lagging)) == (
        "Wait until the workers have the version of the control plane, then try again:\n"
        "  kubectl wait cluster -n users one --for='condition=TopologyReconciled' --timeout=2h"
    )


def test_addon_without_a_compatible_release_keeps_its_version() -> None:
    after = setup(NEW, "v1.36.1", cilium="p-s-1-35-v1")

    told = releases_with("cilium", change(after, settled(setup(NEW, "v1.36.1"))), [OLD])

    assert told == "No known release has a compatible version of cilium: keep the current version"


def test_denial_without_a_plan_names_the_reason() -> None:
    assert suggestion(plan_request("v1.36.1", OLD, LATE)).startswith(
        "There is no plan: no release offers a version of cilium"
    )


def test_denial_of_an_addon_names_compatible_releases() -> None:
    after = setup(NEW, "v1.36.1", cilium="p-s-1-35-v1")

    told = releases_with("cilium", change(after, settled(setup(NEW, "v1.36.1"))), KNOWN.values())

    assert told == (
        "Choose another version of cluster addon cilium: 1.19.0 of release p-s-1-36-v3 or 1.18.0 of release p-s-1-36-v2"
    )


def test_denial_of_a_new_cluster_names_another_class_or_version() -> None:
    assert class_or_version_for(change(setup(OLD, "v1.36.1")), KNOWN.values()) == (
        "Choose class p-s-1-36-v3, which works with v1.36.1"
    )
    assert class_or_version_for(change(setup(OLD, "v1.39.0")), KNOWN.values()) == (
        "Choose Kubernetes v1.35.1, which class p-s-1-35-v1 is made for"
    )
