from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.health_expressions import TIME, HealthExpressions
from clusterstacks.deliver.apply.health_rules import SETTLE_TIME, HealthState
from clusterstacks.deliver.apply.policy import HEALTH_ANNOTATION, HEALTH_FAILED_ANNOTATION, with_health_rules
from clusterstacks.deliver.render.errors import CelFailed, CelUndecided, RenderTimeout, WorkerDied, WorkersBusy
from clusterstacks.model.files.addon_config import HealthRule
from clusterstacks.model.objects import ObjectId, rfc3339
from tests.support.builders.manifests import config_map, named
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.errors import ClusterStacksError
    from clusterstacks.model.objects import Manifest

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
WIDGET = ObjectId("example.org", "Widget", "team", "one")
CURRENT, FAILED = "self.status.done", "self.status.failed"


class ScriptedRenderer:
    """Answers expressions from a table, and notes what it was asked."""

    def __init__(self, **answers: bool | ClusterStacksError) -> None:
        self.answers: dict[str, bool | ClusterStacksError] = {CURRENT: False, FAILED: False, **answers}
        self.asked: list[str] = []
        self.seen: list[Manifest] = []

    async def holds(self, expression: str, variables: Mapping[str, Manifest], **_: str) -> bool:
        self.asked.append(expression)
        self.seen.append(variables["self"])
        answer = self.answers[expression]
        if isinstance(answer, bool):
            return answer
        raise answer


class Case:
    """The expressions of one cluster with one Widget."""

    def __init__(self) -> None:
        self.renderer = ScriptedRenderer()
        scripted: Any = self.renderer
        self.expressions = HealthExpressions(scripted)

    async def judge(self, live: Manifest) -> tuple[HealthState, str, str]:
        health = (await self.expressions.judge({WIDGET: live}, NOW))[WIDGET]
        return health.state, health.reason, health.message


def widget(version: str = "1", *, current: object = CURRENT, failed: object = FAILED, **metadata: object) -> Manifest:
    annotations = {HEALTH_ANNOTATION: current, HEALTH_FAILED_ANNOTATION: failed}
    live = named("example.org/v1", "Widget", "one", "team")
    live["metadata"] |= {"uid": "u", "resourceVersion": version, "annotations": annotations, **metadata}
    return live


UNDECIDED = CelUndecided("its health, condition 'x': self has no key 'status'")
VERDICTS: list[tuple[bool | ClusterStacksError, bool | ClusterStacksError, tuple[HealthState, str, str]]] = [
    (False, True, (HealthState.CURRENT, "", "")),
    (
        False,
        False,
        (HealthState.IN_PROGRESS, "HealthNotCurrent", f"it waits until this holds: {CURRENT}"),
    ),
    (True, True, (HealthState.FAILED, "HealthFailed", f"this holds: {FAILED}")),
    (UNDECIDED, True, (HealthState.CURRENT, "", "")),
    (UNDECIDED, UNDECIDED, (HealthState.IN_PROGRESS, "HealthUndecided", UNDECIDED.message)),
    (CelFailed("no"), True, (HealthState.UNKNOWN, "HealthExpressionInvalid", "no")),
    (False, CelFailed("no"), (HealthState.UNKNOWN, "HealthExpressionInvalid", "no")),
    (False, RenderTimeout("slow"), (HealthState.UNKNOWN, "HealthNotEvaluated", "slow")),
    (False, WorkerDied("gone"), (HealthState.UNKNOWN, "HealthNotEvaluated", "gone")),
]


@pytest.mark.parametrize(("failed", "current", "expected"), VERDICTS, ids=str)
async def test_an_object_is_failed_current_or_in_progress_by_its_expressions(
    failed: bool | ClusterStacksError,  # noqa: FBT001
    current: bool | ClusterStacksError,  # noqa: FBT001
    expected: tuple[HealthState, str, str],
) -> None:
    case = Case()
    case.renderer.answers = {CURRENT: current, FAILED: failed}

    assert await case.judge(widget()) == expected


async def test_an_object_is_evaluated_again_only_after_it_changed() -> None:
    case = Case()
    for _ in range(3):
        assert (await case.judge(widget("1")))[0] is HealthState.IN_PROGRESS
    assert case.renderer.asked == [FAILED, CURRENT]

    case.renderer.answers[CURRENT] = True
    assert (await case.judge(widget("2")))[0] is HealthState.CURRENT
    assert (await case.judge(widget("2", uid="another")))[0] is HealthState.CURRENT
    assert len(case.renderer.asked) == 6

    await case.expressions.judge({}, NOW)
    await case.judge(widget("2", uid="another"))
    assert len(case.renderer.asked) == 8


async def test_a_stopped_evaluation_is_repeated_and_a_busy_worker_leaves_what_was_known() -> None:
    case = Case()
    case.renderer.answers[CURRENT] = WorkersBusy("all workers are busy")
    assert (await case.judge(widget("1")))[1:] == (
        "HealthNotEvaluated",
        "its health expression was not evaluated yet",
    )
    case.renderer.answers[CURRENT] = RenderTimeout("slow")
    assert (await case.judge(widget("1")))[2] == "slow"
    case.renderer.answers[CURRENT] = True
    assert (await case.judge(widget("1")))[0] is HealthState.CURRENT
    case.renderer.answers[CURRENT] = WorkersBusy("all workers are busy")
    assert (await case.judge(widget("2")))[0] is HealthState.CURRENT
    case.renderer.answers[CURRENT] = False
    assert (await case.judge(widget("2")))[0] is HealthState.IN_PROGRESS


@pytest.mark.parametrize(
    ("live", "state"),
    [
        (widget(deletionTimestamp="2026-01-02T03:04:05Z"), HealthState.TERMINATING),
        (widget(generation=2) | {"status": {"observedGeneration": 1}}, HealthState.IN_PROGRESS),
    ],
)
async def test_an_object_that_leaves_or_that_its_controller_has_not_seen_is_not_evaluated(
    live: Manifest, state: HealthState
) -> None:
    case = Case()
    case.renderer.answers[CURRENT] = True

    assert (await case.judge(live))[0] is state
    assert case.renderer.asked == []


@pytest.mark.regression("CASE-11")
@pytest.mark.parametrize("observed", ["1", "two", 2.5, [], {}, None, True])
async def test_case_11_an_expression_decides_where_the_observed_generation_cannot_be_read(observed: object) -> None:
    case = Case()
    case.renderer.answers[CURRENT] = True

    assert (await case.judge(widget(generation=1) | {"status": {"observedGeneration": observed}}))[0] == "Current"


@pytest.mark.regression("CASE-11")
@pytest.mark.parametrize("status", [{"phase": "Running"}, {"phase": 1}, "Running"])
async def test_case_11_an_expression_that_cannot_decide_about_a_written_status_is_unknown(status: object) -> None:
    case = Case()
    case.renderer.answers[CURRENT] = UNDECIDED

    assert await case.judge(widget() | {"status": status}) == ("Unknown", "HealthUndecided", UNDECIDED.message)


@pytest.mark.regression("LIVE-LV-4")
async def test_live_lv_4_an_expression_judges_a_status_from_before_the_delivery_after_the_settle_time() -> None:
    case = Case()
    case.renderer.answers[CURRENT] = True
    times = {"cluster-stack-operator": ("f:spec", NOW), "widgets": ("f:status", NOW - SETTLE_TIME)}
    written = [{"manager": name, "time": rfc3339(at), "fieldsV1": {field: {}}} for name, (field, at) in times.items()]
    live = widget(managedFields=written) | {"status": {"done": True}}

    assert (await case.judge(live))[:2] == ("InProgress", "StatusNotObserved")
    assert case.renderer.asked == []
    assert (await case.expressions.judge({WIDGET: live}, NOW + SETTLE_TIME))[WIDGET].healthy


@pytest.mark.parametrize("annotations", [None, {}, "x", [], {HEALTH_ANNOTATION: None}, {HEALTH_ANNOTATION: 1}])
async def test_an_object_without_expression_is_judged_by_the_rule_of_its_kind(annotations: object) -> None:
    assert await Case().expressions.judge({WIDGET: widget(annotations=annotations)}, NOW) == {}


async def test_expressions_do_not_see_managed_fields() -> None:
    case = Case()
    await case.judge(widget(managedFields=[{"manager": "kubectl"}]))

    assert "managedFields" not in case.renderer.seen[0]["metadata"]
    assert case.renderer.seen[0]["metadata"]["name"] == "one"


@in_virtual_time
async def test_sec_slow_expressions_of_one_cluster_take_limited_time_of_each_read() -> None:
    case = Case()
    fast = case.renderer.holds

    async def slow(expression: str, variables: Mapping[str, Manifest], **_: str) -> bool:
        await asyncio.sleep(TIME.total_seconds() * 0.6)
        return await fast(expression, variables)

    case.renderer.holds = slow  # type: ignore[method-assign]
    many = {ObjectId("example.org", "Widget", "team", str(number)): widget(failed="") for number in range(5)}
    case.renderer.answers[CURRENT] = True

    healthy = [sum(one.healthy for one in (await case.expressions.judge(many, NOW)).values()) for _ in range(3)]

    assert healthy == [2, 4, 5]


def test_rules_of_a_kind_become_annotations_of_its_objects() -> None:
    own = named("example.org/v1", "Widget", "own")
    own["metadata"]["annotations"] = {HEALTH_ANNOTATION: "true"}
    plain, other = named("example.org/v2", "Widget", "plain"), config_map("other")
    rules = [HealthRule("Widget.example.org", CURRENT, FAILED), HealthRule("Pod", "true")]

    found = with_health_rules([own, plain, other], rules)

    assert found[0] == own
    assert found[1]["metadata"]["annotations"] == {HEALTH_ANNOTATION: CURRENT, HEALTH_FAILED_ANNOTATION: FAILED}
    assert found[2] == other
    assert "annotations" not in plain["metadata"]
