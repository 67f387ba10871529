"""Verdicts on the parts of releases, and compatibility matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusterstacks.model.files.compatibility import UpgradeRule
from clusterstacks.model.ranges import Range
from clusterstacks.model.semver import SemVer
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.plan.compat.constraints import Judges
from clusterstacks.plan.compat.matrices import ReleasePart, Row, contradictions, matrix, parts, worst
from clusterstacks.plan.compat.statements import (
    ComponentFacts,
    FactSource,
    UpgradeStatement,
    UpstreamFacts,
    UpstreamStatement,
)
from clusterstacks.plan.compat.verdicts import Judgement, Verdict
from tests.support.planner_oracle import candidate

if TYPE_CHECKING:
    from clusterstacks.plan.compat.world import Candidate

PAGE = FactSource("https://net.example", "2026-11-20")
NET = ComponentFacts(
    "net",
    "A network",
    "2026-11-20",
    statements=(UpstreamStatement("1.2", Range.parse(">=1.2 <1.3"), "tested", PAGE, Range.parse(">=1.33 <1.35")),),
    upgrade=UpgradeStatement(UpgradeRule(1), PAGE, SemVer(1, 1)),
)
JUDGES = Judges(upstream=UpstreamFacts({"net": NET}))
MINORS = tuple(KubernetesMinor(1, minor) for minor in range(30, 38))


def release(*components: dict[str, Any], kubernetes: str = ">=1.34 <1.37", rules: Any = (), version: str = "v1") -> Any:
    stated = {"kubernetes": kubernetes, "components": list(components), "rules": list(rules)}
    return candidate(f"test-tiny-1-35-{version}", "v1.35.4", stated)


def net(version: str = "1.2.0", **stated: Any) -> dict[str, Any]:
    return {"name": "net", "addon": "cni", "version": version, **stated}


def judged(one: Candidate, kubernetes: str = "v1.35.4") -> dict[str, ReleasePart]:
    return {part.fact: part for part in parts(one, KubernetesVersion.parse(kubernetes), JUDGES)}


def test_every_part_names_the_deciding_fact_and_its_source() -> None:
    found = judged(release(net(), {"name": "vip", "version": "1.0.0", "kubernetes": ">=1.30"}))

    assert {fact: part.judgement.verdict for fact, part in found.items()} == {
        "class:test-tiny-1-35-v1": Verdict.OK,
        "component:net@1.2.0:kubernetes": Verdict.UNTESTED,
        "component:vip@1.0.0:kubernetes": Verdict.OK,
    }
    assert found["component:net@1.2.0:kubernetes"].judgement.source == "https://net.example"
    assert found["component:vip@1.0.0:kubernetes"].judgement.source == "compatibility.yaml"
    assert (found["component:net@1.2.0:kubernetes"].addon, found["component:vip@1.0.0:kubernetes"].addon) == ("cni", "")


def test_statement_of_a_release_overrides_the_upstream_facts() -> None:
    assert (
        judged(release(net(kubernetes="<1.30")))["component:net@1.2.0:kubernetes"].judgement.verdict == "incompatible"
    )


def test_violated_requirements_and_rules_are_parts() -> None:
    rule = {
        "id": "old",
        "when": {"components": {"net": "<1.3"}},
        "severity": "Deny",
        "message": "net is old",
        "way": "go",
    }
    found = judged(release(net(requires={"certs": ">=1.15"}), rules=[rule]))

    requirement = found["component:net@1.2.0:requires:certs"]
    assert (requirement.name, requirement.addon, requirement.judgement.verdict) == ("net", "cni", "incompatible")
    assert found["rule:old"].judgement == Judgement(Verdict.INCOMPATIBLE, "net is old; go", "compatibility.yaml")


def test_allow_rule_overrides_a_range() -> None:
    rule = {
        "id": "tried",
        "severity": "Allow",
        "message": "we tried it",
        "overrides": ["component:net@1.2.0:kubernetes"],
    }
    part = judged(release(net(kubernetes="<1.30"), rules=[rule]))["component:net@1.2.0:kubernetes"]

    assert part.judgement.verdict is Verdict.OK
    assert part.judgement.text.endswith("a rule allows it")


def test_bundle_works_only_with_its_own_version() -> None:
    bundle = candidate("test-tiny-1-35-v1", "v1.35.4", None)

    assert [part.judgement.verdict for part in judged(bundle).values()] == [Verdict.OK]
    assert [part.judgement.verdict for part in judged(bundle, "v1.35.5").values()] == [Verdict.INCOMPATIBLE]


def test_overall_verdict_is_the_worst_one() -> None:
    verdicts = [Verdict.OK, Verdict.UNTESTED, Verdict.UNKNOWN, Verdict.INCOMPATIBLE]

    assert [worst(map(Judgement, verdicts[: count + 1])) for count in range(4)] == verdicts
    assert worst([]) is Verdict.OK


def test_contradictions_between_releases_are_listed() -> None:
    one = release(net(kubernetes=">=1.30", requires={"certs": ">=1.0"}))
    other = release(net(kubernetes=">=1.31", upgrade={"maxMinorStep": 1}), version="v2")

    assert contradictions([("a", one), ("b", one), ("c", release(net("1.2.1")))]) == ()
    assert contradictions([("a", one), ("b", other)]) == (
        "net@1.2.0 has another Kubernetes range and another requires and another upgrade rule in b than in a",
    )


def cells(row: Row) -> list[str]:
    return [f"{cell.verdict.value}{'*' if cell.partly else ''}" for cell in row.cells]


def test_a_matrix_has_a_row_for_each_release_and_each_version_of_a_component() -> None:
    first = release(net(), kubernetes=">=1.33 <1.35.6")
    second = release(net("1.3.0", kubernetes=">=1.35"), {"name": "vip", "version": "1.0.0"}, version="v2")
    table = matrix([("a", first), ("b", second)], MINORS, JUDGES)

    assert [str(minor) for minor in table.minors] == ["1.33", "1.34", "1.35", "1.36", "1.37"]
    assert [(row.releases, cells(row)) for row in table.releases] == [
        (("a",), ["ok", "ok", "untested*", "incompatible", "incompatible"]),
        (("b",), ["incompatible", "incompatible", "unknown", "unknown", "incompatible"]),
    ]
    assert [(row.releases, row.addon, row.name, row.version, cells(row)) for row in table.components] == [
        (("a",), "cni", "net", "1.2.0", ["ok", "ok", "untested", "untested", "untested"]),
        (("b",), "cni", "net", "1.3.0", ["incompatible", "incompatible", "ok", "ok", "ok"]),
        (("b",), "", "vip", "1.0.0", ["unknown"] * 5),
    ]


def test_a_bundle_has_its_one_version_in_a_matrix() -> None:
    bundle = candidate("test-tiny-1-35-v1", "v1.35.4", None)
    table = matrix([("a", bundle)], MINORS, JUDGES)

    assert [str(minor) for minor in table.minors] == ["1.35", "1.36"]
    assert [cells(row) for row in table.releases] == [["ok*", "incompatible"]]
