from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from clusterstacks.csctl.shared.options import Seconds
from clusterstacks.csctl.verbs.cluster_actions import reconcile
from clusterstacks.csctl.verbs.install import install
from clusterstacks.plan.planner.step_titles import step_title


@pytest.mark.regression("LIVE-LV-5")
@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("1m30s", 90), ("2h", 7200), ("30", 30), ("0.5", 0.5), ("120.0", 120)]
)
def test_live_lv_5_a_time_limit_is_a_duration_or_a_number_of_seconds(text: str, seconds: float) -> None:
    assert Seconds().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "nan", "inf", "soon", "1.5m", "30 s"])
def test_an_invalid_time_limit_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"expected for example"):
        Seconds().convert(text, None, None)


@pytest.mark.parametrize(("verb", "arguments"), [(reconcile, ["team/one"]), (install, ["--check"])])
def test_a_wrong_time_limit_of_a_verb_is_a_usage_error(verb: click.Command, arguments: list[str]) -> None:
    result = CliRunner().invoke(verb, [*arguments, "--timeout", "30x"])

    assert result.exit_code == 2
    assert "'30x' is not a valid duration" in result.output


@pytest.mark.regression("LIVE-LV-5")
def test_live_lv_5_a_plan_does_not_wait_for_workers_that_may_not_exist() -> None:
    """The oldest version of control plane and workers counts."""
    title = step_title({"kind": "workers", "from": "v1.34.2", "to": "v1.35.4"})

    assert title == "wait until all nodes are updated from v1.34.2 to v1.35.4"
