"""CompatibilityRules: scope, expiry and validation."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import RuleSeverity
from clusterstacks.model.kinds.compatibilityrule import CompatibilityRule
from clusterstacks.model.names import parse_release

RELEASE = parse_release("openstack-scs-1-35-v1")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def rule(**spec: Any) -> CompatibilityRule:
    plain = {
        "severity": "Deny",
        "message": "cilium 1.17.3 loses packets",
        "when": {"components": {"cilium": "=1.17.3"}},
    }
    return CompatibilityRule.parse(
        {
            "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
            "kind": "CompatibilityRule",
            "metadata": {"name": "lost-packets"},
            "spec": {**plain, **spec},
        }
    )


def test_rule_has_the_name_and_the_source_of_its_object() -> None:
    found = rule(when={"kubernetes": ">=1.35", "clusterLabels": {"tier": "prod"}, "variables": {"cni.mode": 3}}).rule()

    assert found.fact == "rule:lost-packets"
    assert found.severity is RuleSeverity.DENY
    assert found.when.labels == {"tier": "prod"}
    assert found.when.variables == {"cni.mode": 3}
    assert found.source == "CompatibilityRule lost-packets"


@pytest.mark.parametrize(
    ("spec", "labels", "counts"),
    [
        ({}, {}, True),
        ({"stacks": [{"provider": "openstack"}]}, {}, True),
        ({"stacks": [{"provider": "docker"}, {"name": "scs"}]}, {}, True),
        ({"stacks": [{"provider": "openstack", "name": "other"}]}, {}, False),
        ({"clusters": {"matchLabels": {"tier": "prod"}}}, {"tier": "prod"}, True),
        ({"clusters": {"matchLabels": {"tier": "prod"}}}, {}, False),
        ({"expires": "2026-11-21T12:00:01Z"}, {}, True),
        ({"expires": "2026-11-21T12:00:00Z"}, {}, False),
        ({"expires": "2026-11-21T13:30:00+02:00"}, {}, False),
    ],
)
def test_rule_applies_to_its_stacks_clusters_and_period(
    spec: dict[str, Any], labels: dict[str, str], *, counts: bool
) -> None:
    assert rule(**spec).concerns(RELEASE, labels, NOW) is counts


@pytest.mark.parametrize(
    ("spec", "word"),
    [
        ({"when": {"kubernetes": ">=1.30 <1.30"}}, "contains no version"),
        ({"when": {"components": {"cilium": "<0.0.0"}}}, "when.components.cilium"),
        ({"overrides": ["rule:other"]}, "overrides"),
        ({"severity": "Allow"}, "overrides"),
        ({"expires": "tomorrow"}, "spec.expires"),
    ],
)
def test_rule_without_effect_is_rejected_with_its_name(spec: dict[str, Any], word: str) -> None:
    with pytest.raises(SpecError, match=f"CompatibilityRule lost-packets.*{word}"):
        rule(**spec).check()
