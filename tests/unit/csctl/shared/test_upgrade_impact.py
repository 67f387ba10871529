"""The impact of a plan, as csctl prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared.upgrade_impact import impact_summary, print_impact

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROL_PLANE = {"kind": "ControlPlane", "name": "prod", "nodes": 3}
POOL = {"kind": "MachineDeployment", "name": "prod-pool", "nodes": 2}


def step(*nodes: Mapping[str, object], unknown: str = "", **objects: Any) -> dict[str, Any]:
    counted = {"created": 0, "changed": 0, "removed": 0, "refused": [], **objects}
    return {"impact": {"nodes": list(nodes), "objects": None if unknown else counted, "unknown": unknown or None}}


@pytest.mark.parametrize(
    ("steps", "summary"),
    [
        ([step(CONTROL_PLANE, POOL, changed=3), step(CONTROL_PLANE, POOL)], "5 nodes roll, 3 objects change"),
        ([step(changed=1)], "1 object changes"),
        ([step(created=2, changed=3, removed=1)], "6 objects change"),
        ([step({**POOL, "nodes": 1}), step(changed=2)], "1 node rolls, 2 objects change"),
        ([step(changed=2), step(unknown="too long")], "at least 2 objects change"),
        ([step(CONTROL_PLANE, unknown="no access")], "3 nodes roll, how many objects change is not known"),
    ],
)
def test_summary_counts_each_node_once_and_says_what_is_not_known(steps: list[dict[str, Any]], summary: str) -> None:
    assert impact_summary(steps) == summary


@pytest.mark.parametrize(
    ("impact", "lines"),
    [
        (step(changed=2, removed=1), ["objects: 2 changed, 1 removed"]),
        (step(CONTROL_PLANE, POOL), ["nodes: 5 roll: ControlPlane prod (3), MachineDeployment prod-pool (2)"]),
        (step({**CONTROL_PLANE, "nodes": 0}), ["nodes: 0 roll: ControlPlane prod"]),
        (step(unknown="no kubeconfig"), ["objects: not known: no kubeconfig"]),
        (
            step(changed=1, refused=["Job kube-system/a: immutable"]),
            ["objects: 1 changed", "refused now: Job kube-system/a: immutable"],
        ),
    ],
)
def test_step_says_what_rolls_and_changes(
    impact: dict[str, Any], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    print_impact(impact)
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert printed[: len(lines)] == lines or printed == [*lines, "objects: none changes"]


def test_waiting_step_has_no_line_about_objects(capsys: pytest.CaptureFixture[str]) -> None:
    waits = {"impact": {"nodes": [POOL], "objects": None, "unknown": None}}
    print_impact(waits)
    assert capsys.readouterr().out.splitlines() == ["     nodes: 2 roll: MachineDeployment prod-pool (2)"]
