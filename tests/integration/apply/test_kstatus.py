"""The health rules and the real kstatus library judge the same objects."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from clusterstacks.deliver.apply.health_rules import REASON_CHARACTERS, HealthState, health_of
from clusterstacks.deliver.apply.live_fields import one_line
from tests.support.builders.health_fixtures import health_cases, variants
from tests.support.running.go_programs import kstatus_of

NOW = datetime.now(UTC)

OWN_RULE = "APIService"
"""kstatus does not read the condition Available of this kind."""


def verdict(manifest: dict[str, Any]) -> tuple[str, str]:
    health = health_of(manifest, NOW)
    return health.state, health.reason if health.state in {HealthState.IN_PROGRESS, HealthState.FAILED} else ""


def differences(objects: list[dict[str, Any]]) -> list[str]:
    expected = kstatus_of(objects)
    assert len(expected) == len(objects)
    return [
        f"{verdict(manifest)} instead of {(state, reason)}: {manifest}"
        for manifest, (state, reason) in zip(objects, expected, strict=True)
        if verdict(manifest) != (state, one_line(reason, REASON_CHARACTERS))
    ]


def test_every_fixture_has_the_health_that_kstatus_computes() -> None:
    cases = [case.object for case in health_cases() if case.object["kind"] != OWN_RULE]

    assert len(cases) > 120
    assert differences(cases) == []


def test_objects_with_missing_and_wrong_fields_have_the_health_that_kstatus_computes() -> None:
    broken = [one for case in health_cases() if case.object["kind"] != OWN_RULE for one in variants(case.object)]

    assert len(broken) > 20_000
    assert differences(broken)[:5] == []


def test_objects_with_the_fields_of_another_kind_have_the_health_that_kstatus_computes() -> None:
    cases = [case.object for case in health_cases()]
    kinds = {(one["apiVersion"], one["kind"]) for one in cases if one["kind"] != OWN_RULE}
    mixed = [{**one, "apiVersion": version, "kind": kind} for one in cases for version, kind in sorted(kinds)]

    assert differences(mixed)[:5] == []
