"""Missing rights of the operator's account."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.operator.rbac import RIGHTS, Feature, RightScope, missing_rights, policy_rules

EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
DOCUMENTED = policy_rules(RightScope.CLUSTER, RightScope.WATCHED, RightScope.OWN)
ALL = frozenset(Feature)
NOT_CHECKED = ("authorization.k8s.io", "rbac.authorization.k8s.io")
"""Groups without whose rights everything works but the report of missing rights, or the uninstallation."""


def rule(group: str, *resources: str, verbs: list[str], **names: list[str]) -> dict[str, Any]:
    return {"apiGroups": [group], "resources": [*resources], "verbs": verbs, **names}


@pytest.mark.parametrize("rules", [[EVERYTHING], DOCUMENTED])
def test_documented_rights_are_sufficient(rules: list[dict[str, Any]]) -> None:
    assert missing_rights(rules, ALL) == []


@pytest.mark.parametrize("number", range(len(DOCUMENTED)))
def test_omitted_rule_is_reported_unless_it_depends_on_the_stacks(number: int) -> None:
    left_out = DOCUMENTED[number]
    missing = [right.rule() for right in missing_rights([*DOCUMENTED[:number], *DOCUMENTED[number + 1 :]], ALL)]

    others = (".cluster.x-k8s.io", "infrastructure.clusterstack.x-k8s.io", "k-orc.cloud")
    of_providers = left_out["apiGroups"][0].endswith(others)
    listed = left_out["resources"] == ["extensionconfigs"] or left_out["apiGroups"][0] in NOT_CHECKED
    assert missing == ([] if of_providers or listed else [left_out])


def test_disabled_feature_needs_no_rights() -> None:
    plain = [right.rule() for right in RIGHTS if not right.only_with]

    assert missing_rights(plain, frozenset()) == []
    assert {feature for right in missing_rights(plain, ALL) for feature in right.only_with} == ALL


def test_right_on_other_objects_is_not_sufficient() -> None:
    others = [one for one in DOCUMENTED if one["resources"] != ["leases"]]
    lease = rule("coordination.k8s.io", "leases", verbs=["get", "patch", "create"], resourceNames=["another"])

    missing = missing_rights([*others, lease], ALL)

    assert {verb for right in missing for verb in right.verbs} == {"get", "patch", "create"}


def test_operator_for_one_namespace_needs_its_own_webhook_configuration() -> None:
    others = [one for one in DOCUMENTED if one.get("resourceNames") != ["cluster-stack-operator"]]
    of_team = [
        {**one, "resourceNames": ["cluster-stack-operator-team-a"]}
        for one in DOCUMENTED
        if one.get("resourceNames") == ["cluster-stack-operator"]
    ]

    assert missing_rights([*others, *of_team], ALL, "team-a", DOCUMENTED) == []
    missing = missing_rights(DOCUMENTED, ALL, "team-a", DOCUMENTED)
    assert {right.names for right in missing} == {("cluster-stack-operator-team-a",)}


def test_operator_for_one_namespace_needs_writes_only_there() -> None:
    elsewhere = [
        rule("clusterstack.x-k8s.io", "clusterstacks", "clusterstackreleases", verbs=["get"]),
        rule("cluster.x-k8s.io", "clusters", verbs=["list"]),
    ]
    own = [
        {**one, "resourceNames": ["cluster-stack-operator-team-a"]}
        if one.get("resourceNames") == ["cluster-stack-operator"]
        else one
        for one in policy_rules(RightScope.CLUSTER, RightScope.OWN)
    ]
    there = policy_rules(RightScope.WATCHED)

    assert missing_rights([*own, *elsewhere], ALL, "team-a", there) == []
    assert {right.scope for right in missing_rights([*own, *elsewhere], ALL, "team-a")} == {RightScope.WATCHED}
    assert {right.verbs for right in missing_rights(own, ALL, "team-a", there)} == {("get",), ("list",)}


def test_only_missing_verbs_are_named() -> None:
    others = [one for one in DOCUMENTED if one["resources"] != ["clusterclasses"]]
    reading = rule("cluster.x-k8s.io", "clusterclasses", verbs=["get", "list", "watch"])

    (missing,) = missing_rights([*others, reading], ALL)

    assert missing.verbs == ("create", "patch", "delete")
