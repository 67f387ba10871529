from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clusterstacks.deliver.render.errors import CelFailed, CelUndecided, RenderTimeout, WorkerDied
from clusterstacks.deliver.render.renderer import MAX_EXPRESSION, MAX_LEVELS, MAX_VARIABLE, Renderer, RenderLimits
from tests.support.observing.render_workers import with_limits

OBJECTS: dict[str, Any] = {
    "ds": {"status": {"ready": 3, "ratio": 3.0, "list": [1, 2], "text": "a", "none": None}, "spec": {"n": 3}}
}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("ds.status.ready == ds.spec.n", True),
        ("ds.status.ready > 3", False),
        ("ds.status.ratio == 3", True),
        ("has(ds.status.missing)", False),
        ("ds.status.missing == 1 || true", True),
        ("ds.status.list.exists(x, x == 2)", True),
        ("ds.status.none == null", True),
        ("ds.status.text.startsWith('a')", True),
        ("ds.status.ready", False),
        ("ds", False),
    ],
)
async def test_expression_holds_only_if_it_is_true(renderer: Renderer, expression: str, *, holds: bool) -> None:
    assert await renderer.holds(expression, OBJECTS, label="stage cni, before it") is holds


@pytest.mark.parametrize(
    "expression", ["ds.status.missing == 1", "ds.status.list[9] == 1", "1 / (ds.spec.n - 3) == 1", "ds.status > 1"]
)
async def test_undecided_expression_may_be_evaluated_again(renderer: Renderer, expression: str) -> None:
    with pytest.raises(CelUndecided, match=r"^stage cni, condition 'ds|^stage cni, condition '1"):
        await renderer.holds(expression, OBJECTS, label="stage cni")


@pytest.mark.parametrize("expression", ["", "ds ==", "nothing == 1", "ds.status.ready == 3 &&", "ds.foo()", "("])
async def test_compile_error_names_stage_and_expression(renderer: Renderer, expression: str) -> None:
    with pytest.raises(CelFailed) as caught:
        await renderer.holds(expression, OBJECTS, label="stage cni")

    assert str(caught.value).startswith(f"stage cni, condition {expression!r}: ")


async def test_long_expressions_and_large_or_deep_objects_are_refused(renderer: Renderer) -> None:
    with pytest.raises(CelFailed, match="longer than 2048 bytes"):
        await renderer.holds("true" + " " * MAX_EXPRESSION, OBJECTS, label="stage cni")
    with pytest.raises(CelFailed, match=r"object big has \d+ bytes, more than the limit of 262144"):
        await renderer.holds("true", {"big": {"a": "x" * MAX_VARIABLE}}, label="stage cni")
    deep: dict[str, Any] = {}
    for _ in range(MAX_LEVELS):
        deep = {"a": deep}
    with pytest.raises(CelFailed, match="an object nests deeper than 254 levels"):
        await renderer.holds("true", {"deep": deep}, label="stage cni")


async def test_expression_above_the_memory_limit_is_stopped() -> None:
    renderer = Renderer(limits=RenderLimits(memory_bytes=400 * 1024**2))
    objects = {"o": {"l": list(range(90)), "t": "x" * 200_000}}
    growing = "o.l.map(a, o.l.map(b, o.t + o.t + o.t)).size() == 0"
    try:
        with pytest.raises(WorkerDied, match=r"stage cni, condition .* needs more memory than the limit of a render"):
            await renderer.holds(growing, objects, label="stage cni")
        assert await renderer.holds("true", {}, label="stage cni")
    finally:
        await renderer.close()


async def test_expression_above_the_deadline_is_stopped() -> None:
    renderer = Renderer()
    strict = with_limits(renderer, RenderLimits(deadline=timedelta(seconds=1)))
    objects = {"o": {"l": list(range(60)), "t": "x" * 200_000}}
    everything = "o.l.all(a, o.l.all(b, o.l.all(c, !o.t.matches('(x+x+)+y'))))"  # takes minutes on any machine
    try:
        with pytest.raises(RenderTimeout, match=r"stage cni, condition .* took longer than 1 s"):
            await strict.holds(everything, objects, label="stage cni")
        assert await renderer.holds("true", {}, label="stage cni")
    finally:
        await renderer.close()


@pytest.mark.regression("LV-1")
@pytest.mark.parametrize("expression", ["'true'", "type(ds)", "ds.status.text + 'x'", "size(ds.status.list)"])
async def test_expression_that_never_yields_a_bool_is_an_error(renderer: Renderer, expression: str) -> None:
    with pytest.raises(CelFailed, match="it never is true or false"):
        await renderer.holds(expression, OBJECTS, label="stage cni")
