"""SEC-12: clusters whose charts hang do not block render workers for others."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.render import worker_pool
from clusterstacks.deliver.render.errors import NotStarted, RenderTimeout, WorkerDied, WorkersBusy
from clusterstacks.deliver.render.renderer import DEADLINE, FIRST_TRY, Renderer, RenderLimits
from clusterstacks.model.errors import DependencyError, outcome_of
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Waiting
from clusterstacks.runtime.metrics import Metrics
from tests.support.builders.charts import CONFIG_MAP, template
from tests.support.observing.render_workers import chart_request
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

FINE = chart_request(template(CONFIG_MAP % "a"))
ENDLESS = "{{ range $i := until 100000 }}{{ range $j := until 100000 }}{{ end }}{{ end }}"
MINUTE = timedelta(minutes=1)
LIMITS = RenderLimits()


class FakeWorker:
    """Takes as long as the values of a request say in seconds, for ever without a number, and dies of ``die``."""

    def __init__(self, asked: Counter[str]) -> None:
        self.charts: set[str] = set()
        self._asked = asked

    async def ask(self, message: dict[str, Any], blob: bytes = b"") -> dict[str, Any]:
        """Sleep."""
        assert blob or message["digest"] in self.charts
        text = message["values"]
        self._asked[text] += 1
        if text.startswith("die"):
            raise WorkerDied("the render worker was killed by SIGKILL")
        await asyncio.sleep(float(text) if text.replace(".", "").isdigit() else 10**6)
        return {"result": []}


class FakePool:
    """Runs as many workers as requested; the queue in front of it bounds them."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.failing = ""

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[FakeWorker]:
        if self.failing:
            raise NotStarted(self.failing)
        yield FakeWorker(self.asked)


def pooled(
    limits: RenderLimits = LIMITS, on_failure: Callable[[str], None] = lambda _: None
) -> tuple[Renderer, FakePool]:
    renderer, pool = Renderer(limits=limits, on_failure=on_failure), FakePool()
    renderer._pool = pool  # type: ignore[assignment]
    return renderer, pool


def start(renderer: Renderer, owner: str, values: str) -> asyncio.Task[Any]:
    """Begin the render of an object (``namespace/name``)."""
    namespace, _, name = owner.partition("/")
    mine = renderer.for_object(ObjectKey(namespace, name))
    return asyncio.create_task(mine.chart(chart_request(b"chart", values=values, label=f"addon of {owner}")))


async def seconds_of(task: asyncio.Task[Any]) -> float:
    before = asyncio.get_running_loop().time()
    await task
    return asyncio.get_running_loop().time() - before


@pytest.mark.regression("SEC-12")
@pytest.mark.parametrize("hanging", [8, 40])
@pytest.mark.parametrize("namespace", ["theirs", "ours"])
@in_virtual_time
async def test_other_clusters_wait_for_first_attempts_and_never_for_deadlines(hanging: int, namespace: str) -> None:
    renderer, _ = pooled()
    hostile = [start(renderer, f"theirs/{number}", f"hangs {number}") for number in range(hanging)]
    await asyncio.sleep(0.1)

    waited = await seconds_of(start(renderer, f"{namespace}/innocent", "0.1"))

    assert waited < (4.5 if namespace == "ours" else hanging * FIRST_TRY.total_seconds() + 2)
    assert waited < 1.5 * DEADLINE.total_seconds()
    results = await asyncio.gather(*hostile, return_exceptions=True)
    assert {type(result) for result in results} <= {RenderTimeout, WorkersBusy}


@pytest.mark.regression("SEC-12")
@in_virtual_time
async def test_forty_clusters_that_hang_for_hours_delay_others_by_seconds() -> None:
    renderer, pool = pooled()

    async def insist(number: int) -> None:
        while True:
            try:
                await start(renderer, f"theirs/{number}", f"hangs {number}")
            except DependencyError as error:
                await asyncio.sleep(error.retry.total_seconds())

    hostile = [asyncio.create_task(insist(number)) for number in range(40)]
    waits = []
    for number in range(180):
        await asyncio.sleep(120)
        waits.append(await seconds_of(start(renderer, f"theirs/innocent-{number}", "0.1")))
    for task in hostile:
        task.cancel()
    await asyncio.gather(*hostile, return_exceptions=True)

    assert max(waits) < 5
    # Tries of one input in six hours. Without a back-off they are as many as workers can do: 18 on two, and no other
    # render ever gets its turn before them.
    assert max(count for values, count in pool.asked.items() if values.startswith("hangs")) < 15


@pytest.mark.regression("SEC-12")
@in_virtual_time
async def test_slow_chart_is_rendered_although_others_hang() -> None:
    renderer, pool = pooled()
    hostile = [start(renderer, "theirs/one", f"hangs {number}") for number in range(8)]
    await asyncio.sleep(0.1)

    waited = await seconds_of(start(renderer, "ours/one", "30"))

    assert waited < 2 * DEADLINE.total_seconds()
    assert pool.asked["30"] == 2
    await asyncio.gather(*hostile, return_exceptions=True)


@pytest.mark.regression("SEC-12")
@pytest.mark.parametrize(("values", "kind"), [("hangs", RenderTimeout), ("die", WorkerDied)])
@in_virtual_time
async def test_failed_input_returns_its_failure_during_the_back_off(values: str, kind: type[DependencyError]) -> None:
    renderer, pool = pooled()
    with pytest.raises(kind, match=r"addon of a/1: ") as first:
        await start(renderer, "a/1", values)
    tries = pool.asked[values]
    assert first.value.retry == MINUTE

    with pytest.raises(kind, match=r"addon of a/2: ") as again:
        assert await seconds_of(start(renderer, "a/2", values)) == 0
    assert again.value.message.replace("a/2", "a/1") == first.value.message
    assert pool.asked[values] == tries
    await start(renderer, "a/1", "0.1")  # a changed input is tried at once

    await asyncio.sleep(60)
    with pytest.raises(kind):
        await start(renderer, "a/1", values)
    assert pool.asked[values] == tries + 1
    await asyncio.sleep(61)
    with pytest.raises(kind):
        await start(renderer, "a/1", values)
    assert pool.asked[values] == tries + 1


@pytest.mark.regression("SEC-12")
@pytest.mark.parametrize(("values", "cause"), [("hangs", "timeout"), ("die", "died")])
@in_virtual_time
async def test_input_failing_in_forty_clusters_uses_a_worker_once(values: str, cause: str) -> None:
    counted: Counter[str] = Counter()
    renderer, pool = pooled(on_failure=lambda one: counted.update([one]))

    results = await asyncio.gather(
        *(start(renderer, f"a/{number}", values) for number in range(40)), return_exceptions=True
    )

    assert {type(result) for result in results} == {RenderTimeout if cause == "timeout" else WorkerDied}
    assert pool.asked[values] <= (41 if cause == "timeout" else 1)  # first tries, and one with the whole deadline
    assert counted == {cause: 1}


@pytest.mark.regression("SEC-12")
@in_virtual_time
async def test_queue_time_is_bounded_and_reported_as_a_condition() -> None:
    renderer, _ = pooled(RenderLimits(longest_wait=MINUTE))
    hostile = [start(renderer, f"a/{number}", f"hangs {number}") for number in range(40)]
    results = await asyncio.gather(*hostile, return_exceptions=True)

    busy = [result for result in results if isinstance(result, WorkersBusy)]
    assert busy
    outcome = outcome_of(busy[0])
    assert isinstance(outcome, Waiting)
    assert outcome.reason == "RenderWorkersBusy"
    assert "waited 60 s for a render worker: all 2 are busy with other long renders" in outcome.message
    assert renderer.waiting() == 0


@pytest.mark.regression("SEC-12")
@in_virtual_time
async def test_worker_start_failure_is_not_attributed_to_an_input() -> None:
    renderer, pool = pooled()
    pool.failing = "no render worker can be started: Resource temporarily unavailable"
    with pytest.raises(NotStarted):
        await start(renderer, "a/1", "1")
    pool.failing = ""

    await start(renderer, "a/1", "1")


@pytest.mark.regression("SEC-12")
async def test_hanging_worker_processes_do_not_block_other_clusters() -> None:
    limits = RenderLimits(deadline=timedelta(seconds=2), first_try=timedelta(seconds=0.5))
    metrics = Metrics()
    renderer = Renderer(limits=limits, on_failure=metrics.count_render_failure)
    metrics.watch_renders(renderer.waiting, renderer.oldest_wait)

    def render(owner: ObjectKey, chart: bytes) -> asyncio.Task[Any]:
        return asyncio.create_task(renderer.for_object(owner).chart(chart_request(chart)))

    charts = [template(f"{ENDLESS}{{{{/* {number} */}}}}") for number in range(8)]
    hostile = [render(ObjectKey("theirs", str(number)), chart) for number, chart in enumerate(charts)]
    try:
        await asyncio.sleep(0.1)
        scraped = metrics.expose().decode()
        innocent = renderer.for_object(ObjectKey("ours", "one"))
        assert (await innocent.chart(FINE))[0]["metadata"]["name"] == "a"
        # In line before it were eight renders of 0.5 s and 2 s on two workers: at most those that ran may be over.
        assert sum(task.done() for task in hostile) <= 1

        results = await asyncio.gather(*hostile, return_exceptions=True)
        assert {type(result) for result in results} == {RenderTimeout}
        with pytest.raises(RenderTimeout, match="took longer than 2 s and was stopped"):
            await render(ObjectKey("theirs", "0"), charts[0])
    finally:
        await renderer.close()

    assert "clusterstacks_render_queue_depth 6.0" in scraped
    assert 'clusterstacks_render_failures_total{cause="timeout"} 8.0' in metrics.expose().decode()
    assert renderer.problem() == ""


@pytest.mark.regression("SEC-12")
async def test_persistent_worker_start_failure_fails_readiness(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = Renderer()
    monkeypatch.setattr(worker_pool, "_MODULE", "clusterstacks.deliver.render.missing_module")
    try:
        with pytest.raises(NotStarted, match=r"no render worker can be started: .* ended with exit code 1"):
            await renderer.chart(FINE)
        assert renderer.problem() == ""
        monkeypatch.setattr(worker_pool, "LASTING_SECONDS", 0.0)
        assert "no render worker can be started" in renderer.problem()
        monkeypatch.setattr(worker_pool, "STALE_SECONDS", 0.0)
        assert renderer.problem() == ""
        monkeypatch.undo()

        await renderer.chart(FINE)
        monkeypatch.setattr(worker_pool, "LASTING_SECONDS", 0.0)
        assert renderer.problem() == ""
    finally:
        await renderer.close()
