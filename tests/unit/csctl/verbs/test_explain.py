from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from clusterstacks.csctl.shared import output
from clusterstacks.model.kinds import names
from clusterstacks.model.kinds.explanations import CONDITIONS, REASONS
from tests.support.running.csctl import call_csctl

CONTROLLERS = Path(names.__file__).parents[2] / "operator" / "controllers"


def test_every_condition_is_explained_with_its_kinds() -> None:
    kinds = (
        *(names.StackCondition, names.ReleaseCondition, names.AddonCondition),
        *(names.SyncCondition, names.UpgradeCondition, names.OpenStackCondition),
    )
    types = {names.READY_CONDITION, *(one for conditions in kinds for one in conditions)}
    mirrored = {value for name, value in vars(names).items() if name.endswith("_CONDITION")}

    assert {one.name for one in CONDITIONS} == types | mirrored
    assert all(one.kinds for one in CONDITIONS)


def test_every_reason_of_the_api_and_of_the_outcomes_of_controllers_is_explained() -> None:
    outcomes = {
        node.args[0].value
        for file in CONTROLLERS.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"Waiting", "Stalled"}
        and isinstance(node.args[0], ast.Constant)
    }
    explained = [str(one.name) for one in REASONS]

    assert {*map(str, names.Reason), *outcomes} <= {*explained}
    assert len(explained) == len({*explained})


def test_conditions_and_reasons_are_explained_whatever_their_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("explain", "insync") == 0
    head, text, *_ = capsys.readouterr().out.splitlines()
    assert head == "InSync (condition of ClusterAddon, ClusterResourceSyncBinding)"
    assert text.startswith("  The objects are as they were")
    assert call_csctl("explain", "HealthTimeout", "-o", "json") == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert (one["name"], one["type"]) == ("HealthTimeout", "reason")
    assert call_csctl("explain") == 0
    assert capsys.readouterr().out.count("(reason)") == len(REASONS)


def test_name_that_is_both_condition_and_reason_is_explained_as_both(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("explain", "Paused", "-o", "json") == 0
    assert [one["type"] for one in json.loads(capsys.readouterr().out)] == ["condition", "reason"]


@pytest.mark.parametrize(("name", "hint"), [("HealthTimeot", "did you mean HealthTimeout"), ("xyzzy", "lists all")])
def test_unknown_name_is_an_error_with_a_suggestion(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("explain", name) == output.MUST_CHANGE
    assert hint in capsys.readouterr().err
