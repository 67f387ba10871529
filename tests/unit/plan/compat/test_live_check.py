"""Compatibility of a running cluster that is not being changed."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.files.compatibility import Rule, parse_rule
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.constraints import Judges
from clusterstacks.plan.compat.kubernetes import judge_api, skew_rules
from clusterstacks.plan.compat.live_check import CheckedCluster, LiveFacts, concerns, joined_concerns
from clusterstacks.plan.compat.world import ClusterVersions
from tests.support.planner_oracle import candidate

CILIUM = {"name": "cilium", "addon": "cilium", "version": "1.17.2", "kubernetes": ">=1.30 <1.36"}
RELEASE = candidate("p-s-1-35-v1", "v1.35.1", {"kubernetes": ">=1.34 <1.38", "components": [CILIUM]})
CSI = {"name": "csi", "addon": "csi", "version": "1.0.0", "kind": "tested", "kubernetes": ">=1.30 <1.33"}
TESTED = candidate("p-s-1-35-v2", "v1.35.1", {"kubernetes": ">=1.34 <1.38", "components": [CSI]})


def live(version: str = "v1.35.1", *workers: str, of: Any = RELEASE, **more: Any) -> CheckedCluster:
    kubernetes = KubernetesVersion.parse(version)
    stated = of.compatibility
    addons = {addon: stated.of_addon(addon) for addon in stated.addons()} if stated is not None else {}
    return CheckedCluster(
        key=ObjectKey("users", "one"),
        versions=ClusterVersions(of, kubernetes, addons, tuple(map(KubernetesVersion.parse, workers))),
        control_plane=kubernetes,
        **more,
    )


def judged(cluster: CheckedCluster, *rules: Rule) -> list[tuple[str, str]]:
    found = concerns(cluster, LiveFacts(Judges(rules), skew_rules(), judge_api))
    return [(one.reason.value, one.severity.value) for one in found]


def told(cluster: CheckedCluster, *rules: Rule) -> str:
    return joined_concerns(concerns(cluster, LiveFacts(Judges(rules), skew_rules(), judge_api)))


def rule(severity: str, **more: Any) -> Rule:
    stated = {"id": "r1", "severity": severity, "message": "cilium leaks", "way": "wait for 1.17.9", **more}
    return parse_rule({"when": {"components": {"cilium": ">=1.17"}}, **stated}, file="rule")


@pytest.mark.parametrize(
    ("cluster", "found"),
    [
        (live("v1.35.1"), []),
        (live("v1.35.1", "v1.35.1", "v1.34.2"), []),
        (live("v1.36.0"), [("OutsideRanges", "Warning")]),
        (live("v1.35.1", of=TESTED), []),
        (live("v1.35.1", "v1.32.9"), [("WorkersLag", "Info")]),
        (live("v1.35.1", "v1.35.1", "v1.31.0"), [("WorkersLag", "Warning")]),
        (live("v1.36.0", "v1.31.0"), [("OutsideRanges", "Warning"), ("WorkersLag", "Warning")]),
    ],
)
def test_versions_outside_ranges_and_skew_are_reported(cluster: CheckedCluster, found: list[tuple[str, str]]) -> None:
    assert judged(cluster) == found


@pytest.mark.parametrize(
    ("version", "found"),
    [("v1.23.4", []), ("v1.24.9", [("ApiEnds", "Info")]), ("v1.25.0", [("ApiEnds", "Warning")])],
)
def test_api_removal_is_reported_one_minor_before(version: str, found: list[tuple[str, str]]) -> None:
    apis = {("policy/v1beta1", "PodDisruptionBudget"): ["PodDisruptionBudget a/b"], ("v1", "Secret"): ["Secret a/c"]}
    bundle = candidate("p-s-1-24-v1", "v1.24.9", None)
    assert judged(live(version, of=bundle, apis=apis)) == found


def test_api_removal_is_reported_with_the_objects_that_use_it() -> None:
    names = [f"PodDisruptionBudget a/{name}" for name in "bcdef"]
    message = told(live("v1.35.1", apis={("policy/v1beta1", "PodDisruptionBudget"): names}))
    assert message.startswith(", ".join(names[:3]) + " and 2 more: Kubernetes 1.25 does not serve PodDisruptionBudget")
    assert "write it as policy/v1 (" in message
    assert message.endswith("; move the addon to a version that does not use it")


def test_message_equals_the_refusal_and_names_the_plan_command() -> None:
    assert told(live("v1.36.0")) == (
        "class p-s-1-35-v1 with Kubernetes v1.36.0: cluster addon cilium: cilium 1.17.2 works with Kubernetes "
        ">=1.30 <1.36; 'csctl plan users/one --to RELEASE' shows the way to a release that fits"
    )


def test_deny_rule_is_reported_with_its_own_message() -> None:
    denied = rule("Deny", source="issue 7")
    assert judged(live(), denied) == [("OutsideRanges", "Warning")]
    text = "class p-s-1-35-v1 with Kubernetes v1.35.1: cilium leaks; wait for 1.17.9 (issue 7)"
    assert told(live(), denied) == text


def test_warn_rule_is_reported_after_violations() -> None:
    warning = rule("Warn")
    assert judged(live(), warning) == [("RuleWarns", "Info")]
    assert told(live(), warning) == "cilium leaks; wait for 1.17.9"
    assert judged(live("v1.36.0"), warning) == [("OutsideRanges", "Warning"), ("RuleWarns", "Info")]


def test_allow_rule_removes_the_violation() -> None:
    allowed = rule("Allow", overrides=["component:cilium@1.17.2:kubernetes"])
    assert judged(live("v1.36.0"), allowed) == []


def test_bundle_is_not_checked_against_ranges_and_rules() -> None:
    bundle = candidate("p-s-1-35-v9", "v1.35.9", None)
    assert judged(live("v1.36.0", "v1.33.0", of=bundle), rule("Deny"), rule("Warn")) == [("WorkersLag", "Info")]


def test_message_lists_a_bounded_number_of_violations() -> None:
    apis = {("policy/v1beta1", "PodDisruptionBudget"): ["a"], ("batch/v1beta1", "CronJob"): ["b"]}
    message = told(live("v1.36.0", "v1.31.0", apis=apis), rule("Warn"))
    assert message.endswith("; and 2 more")
