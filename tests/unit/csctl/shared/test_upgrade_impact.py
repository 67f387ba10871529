"""The impact of a plan, as csctl prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared.upgrade_impact import impact_summary, print_refused

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROL_PLANE = {"kind": "ControlPlane", "name": "prod", "nodes": 3}
POOL = {"kind": "MachineDeployment", "name": "prod-pool", "nodes": 2}


def impact(*nodes: Mapping[str, object], unknown: str = "", **objects: Any) -> dict[str, Any]:
    counted = {"created": 0, "changed": 0, "removed": 0, "refused": [], **objects}
    return {"nodes": list(nodes), "objects": None if unknown else counted, "unknown": unknown or None}


@pytest.mark.parametrize(
    ("found", "summary"),
    [
        (impact(CONTROL_PLANE, POOL, changed=3), "5 nodes roll, 3 objects change"),
        (impact(changed=1), "1 object changes"),
        (impact(created=2, changed=3, removed=1), "6 objects change"),
        (impact({**POOL, "nodes": 1}, changed=2), "1 node rolls, 2 objects change"),
        (impact({**CONTROL_PLANE, "nodes": 0}), "0 nodes roll, 0 objects change"),
        (impact(CONTROL_PLANE, unknown="no access"), "3 nodes roll, how many objects change is not known: no access"),
    ],
)
def test_summary_says_what_rolls_and_changes_and_what_is_not_known(found: dict[str, Any], summary: str) -> None:
    assert impact_summary(found) == summary


def test_refused_objects_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    print_refused(impact(unknown="no access"))
    assert capsys.readouterr().out == ""
    print_refused(impact(changed=1, refused=["Job kube-system/a: immutable"]))
    assert "refused now: Job kube-system/a: immutable" in capsys.readouterr().out
