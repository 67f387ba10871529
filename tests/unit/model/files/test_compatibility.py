"""Reading ``compatibility.yaml``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import (
    API_VERSION,
    Compatibility,
    Component,
    RuleSeverity,
    UpgradeRule,
    parse_compatibility,
    write_compatibility,
)
from clusterstacks.model.ranges import Range
from clusterstacks.model.semver import SemVer

WHOLE = """
apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1
kubernetes: ">=1.34 <1.37"
components:
- name: cilium
  addon: cni
  version: v1.18.2
  kubernetes: ">=1.30 <1.36"
  kind: tested
  requires: {cert-manager: ">=1.15"}
  upgrade: {maxMinorStep: 1, downgrade: true}
  source: https://example.com/matrix
- name: hubble
  addon: cni
  version: "1.2"
- name: kube-vip
  version: 0.8.0
rules:
- id: old-kube-vip
  when:
    kubernetes: ">=1.28"
    components: {kube-vip: "<0.7"}
    provider: openstack
    clusterLabels: {tier: prod}
    variables: {cni.mode: native, replicas: 3}
  severity: Deny
  message: kube-vip does not work with Kubernetes 1.28 and newer
  way: upgrade kube-vip to 0.7 or newer
- id: we-know
  severity: Allow
  message: tried by us
  overrides: ["rule:old-kube-vip"]
"""


def document(**changes: Any) -> dict[str, Any]:
    return {**yaml.load(WHOLE, name="compatibility.yaml"), **changes}


def test_written_compatibility_is_read_back_unchanged() -> None:
    found = parse_compatibility(document())

    assert parse_compatibility(write_compatibility(found)) == found


@pytest.mark.parametrize("step", [None, 0, 2])
@pytest.mark.parametrize("downgrade", [False, True])
def test_upgrade_rule_is_written_completely(step: int | None, *, downgrade: bool) -> None:
    component = Component("cni", SemVer.parse("1.2.3"), "1.2.3", upgrade=UpgradeRule(step, downgrade))
    stated = Compatibility(Range.parse(">=1.34"), (component,), api_version=API_VERSION)

    assert parse_compatibility(write_compatibility(stated)) == stated


def test_every_field_of_the_file_is_read() -> None:
    found = parse_compatibility(document())

    assert str(found.kubernetes) == ">=1.34 <1.37"
    assert found.addons() == ("cni",)
    cilium, hubble = found.of_addon("cni")
    assert (cilium.title, cilium.kind, str(cilium.requires["cert-manager"])) == ("cilium@1.18.2", "tested", ">=1.15")
    assert cilium.upgrade == UpgradeRule(max_minor_step=1, downgrade=True)
    assert (hubble.kubernetes, hubble.kind, hubble.upgrade, hubble.title) == (
        None,
        "supported",
        UpgradeRule(),
        "hubble@1.2",
    )
    deny, allow = found.rules
    assert (deny.fact, deny.severity, deny.when.labels) == ("rule:old-kube-vip", RuleSeverity.DENY, {"tier": "prod"})
    assert deny.when.variables == {"cni.mode": "native", "replicas": 3}
    assert allow.overrides == ("rule:old-kube-vip",)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"apiVersion": "v2"}, r"apiVersion is 'v2': write compatibility\.clusterstack"),
        ({"kubernetes": None}, r"kubernetes: nothing is not a valid version range"),
        ({"kubernetes": "1.34"}, r"kubernetes: '1\.34' is not a valid version range"),
        ({"kubernets": ">=1.34"}, r"unknown field kubernets: known are"),
        ({"components": [{"version": "1.0.0"}]}, r"components\[0\]\.name is missing"),
        ({"components": [{"name": "a", "version": 1.1}]}, r"components\[0\]\.version is 1\.1: write the version"),
        (
            {"components": [{"name": "a", "version": "main"}]},
            r"components\[0\]\.version: 'main' is not a valid semantic",
        ),
        (
            {"components": [{"name": "a", "version": "1.0.0"}] * 2},
            r"components\[1\]\.name is 'a': use the name of a component once",
        ),
        (
            {"components": [{"name": "a", "version": "1.0.0", "kind": "maybe"}]},
            r"kind is 'maybe': write tested, supported, documented, recommended or skew",
        ),
        (
            {"components": [{"name": "a", "version": "1.0.0", "requires": {"b": "1"}}]},
            r"requires\.b: '1' is not a valid version range",
        ),
        (
            {"components": [{"name": "a", "version": "1.0.0", "upgrade": {"maxMinorStep": True}}]},
            r"maxMinorStep is True: write a number",
        ),
        (
            {"components": [{"name": "a", "version": "1.0.0", "upgrade": {"downgrade": "no"}}]},
            r"downgrade is 'no': write true or false",
        ),
        ({"rules": [{"id": "x", "severity": "No", "message": "m"}]}, r"severity is 'No': write Deny, Warn or Allow"),
        ({"rules": [{"id": "x", "severity": "Deny"}]}, r"rules\[0\]\.message is missing"),
        ({"rules": [{"id": "x", "severity": "Allow", "message": "m"}]}, r"overrides is missing: list the overridden"),
        (
            {"rules": [{"id": "x", "severity": "Deny", "message": "m", "overrides": ["rule:y"]}]},
            r"overrides is a list: list the overridden",
        ),
        ({"rules": [{"id": "x", "severity": "Deny", "message": "m", "when": {"labels": {}}}]}, r"unknown field labels"),
    ],
)
def test_invalid_field_is_named(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        parse_compatibility(document(**changes))


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(json, st.sampled_from(["kubernetes", "components", "rules"]))
def test_arbitrary_input_raises_only_a_spec_error(value: object, field: str) -> None:
    for candidate in (value, document(**{field: value}), document(components=[value])):
        try:
            parse_compatibility(candidate)
        except SpecError:
            continue


@pytest.mark.parametrize(
    ("rule", "old", "new", "allowed"),
    [
        (UpgradeRule(), "1.0.0", "9.9.0", True),
        (UpgradeRule(), "1.0.1", "1.0.0", False),
        (UpgradeRule(downgrade=True), "9.0.0", "1.0.0", True),
        (UpgradeRule(max_minor_step=1), "1.9.0", "1.10.3", True),
        (UpgradeRule(max_minor_step=1), "1.8.0", "1.10.0", False),
        (UpgradeRule(max_minor_step=1), "1.9.0", "2.0.0", False),
        (UpgradeRule(max_minor_step=0), "1.9.0", "1.9.5", True),
        (UpgradeRule(max_minor_step=1, downgrade=True), "1.9.0", "1.2.0", True),
        (UpgradeRule(max_minor_step=0), "1.9.0", "1.9.0", True),
    ],
)
def test_upgrade_rule_allows_steps_within_its_limits(rule: UpgradeRule, old: str, new: str, allowed: bool) -> None:  # noqa: FBT001 - a column of the table
    assert rule.allows(SemVer.parse(old), SemVer.parse(new)) is allowed
