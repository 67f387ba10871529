"""CompatibilityRules of the provider as the operator watches them."""

from __future__ import annotations

from clusterstacks.model.objects import ObjectKey
from clusterstacks.plan.clusters.provider_rules import ProviderRules
from clusterstacks.runtime.cache import CacheChange
from tests.support.builders.admission import (
    GROUP,
    OLD,
    Noon,
)


def test_rules_are_added_removed_and_expire() -> None:
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
