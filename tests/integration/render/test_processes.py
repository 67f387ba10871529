from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest

from clusterstacks.deliver.render import worker_pool
from clusterstacks.deliver.render.errors import RenderTimeout, WorkerDied
from clusterstacks.deliver.render.renderer import Renderer, RenderLimits
from tests.support.builders.charts import CONFIG_MAP, template
from tests.support.observing.render_workers import chart_request, forget_strangers, until, with_limits, worker_ids

FINE = chart_request(template(CONFIG_MAP % "a"))
ENDLESS = chart_request(
    template("{{ range $i := until 100000 }}{{ range $j := until 100000 }}{{ end }}{{ end }}"), label="addon endless"
)
PATIENT = RenderLimits(deadline=timedelta(seconds=600), first_try=timedelta(seconds=600))
"""For requests that a test ends itself, and for a busy machine."""
HUNGRY = chart_request(
    template('{{ $x := "aaaaaaaaaaaaaaaa" }}{{ range until 40 }}{{ $x = cat $x $x }}{{ end }}{{ $x }}'),
    label="addon hungry",
)


@pytest.fixture(autouse=True)
async def _no_worker_is_left() -> object:
    forget_strangers()
    assert worker_ids() == []
    yield
    assert worker_ids() == []


async def test_workers_start_on_demand_and_end_at_close() -> None:
    renderer = Renderer()
    assert worker_ids() == []

    await renderer.chart(FINE)
    assert len(worker_ids()) == 1

    await renderer.close()
    assert worker_ids() == []
    await renderer.close()
    with pytest.raises(WorkerDied, match="addon demo: rendering has been shut down"):
        await renderer.chart(FINE)


async def test_warm_up_starts_one_worker_that_the_next_render_uses() -> None:
    renderer = Renderer(workers=2)
    for _ in range(3):
        renderer.warm_up()
    await until(lambda: len(worker_ids()) == 1)

    await renderer.values("values: {}", label="addon demo")
    renderer.warm_up()

    assert len(worker_ids()) == 1
    await renderer.close()


async def test_close_ends_a_warm_up() -> None:
    renderer = Renderer(workers=2)
    renderer.warm_up()
    await renderer.close()
    renderer.warm_up()

    await renderer.close()
    assert worker_ids() == []


async def test_number_of_workers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "PATIENCE_SECONDS", 0)
    renderer = Renderer(workers=2)
    await asyncio.gather(*(renderer.chart(FINE) for _ in range(20)))

    assert len(worker_ids()) == 2
    await renderer.close()


async def test_quick_renders_share_one_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_pool, "PATIENCE_SECONDS", 600)
    renderer = Renderer(workers=2)
    await asyncio.gather(*(renderer.chart(FINE) for _ in range(20)))

    assert len(worker_ids()) == 1
    await renderer.close()


async def test_another_worker_starts_while_one_is_busy_for_long() -> None:
    renderer = Renderer(workers=2, limits=PATIENT)
    hanging = asyncio.create_task(renderer.chart(ENDLESS))
    await until(lambda: len(worker_ids()) == 1)

    await renderer.chart(FINE)

    assert not hanging.done()
    assert len(worker_ids()) == 2
    hanging.cancel()
    await renderer.close()


async def test_a_waiting_render_gets_a_new_worker_as_soon_as_the_busy_one_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_pool, "PATIENCE_SECONDS", 600)
    renderer = Renderer(workers=2, limits=PATIENT)
    hanging = asyncio.create_task(renderer.chart(ENDLESS))
    await until(lambda: len(worker_ids()) == 1)
    waiting = asyncio.create_task(renderer.chart(FINE))

    hanging.cancel()

    assert await waiting
    await renderer.close()


async def test_idle_workers_end() -> None:
    renderer = Renderer(idle=timedelta(milliseconds=50))
    await asyncio.gather(renderer.chart(FINE), renderer.chart(FINE))

    await until(lambda: worker_ids() == [])

    assert (await renderer.chart(FINE))[0]["metadata"]["name"] == "a"
    await renderer.close()


async def test_endless_chart_is_stopped_at_its_deadline_and_others_continue() -> None:
    renderer = Renderer(workers=2)
    strict = with_limits(renderer, RenderLimits(deadline=timedelta(seconds=2)))
    await asyncio.gather(renderer.chart(FINE), renderer.chart(FINE))
    started = time.monotonic()

    endless = asyncio.create_task(strict.chart(ENDLESS))
    await until(lambda: renderer._pool._lent == 1)
    await renderer.chart(FINE)
    with pytest.raises(RenderTimeout, match="addon endless: took longer than 2 s and was stopped"):
        await endless

    assert time.monotonic() - started >= 2
    await renderer.chart(FINE)
    await renderer.close()


async def test_chart_above_the_memory_limit_is_stopped_and_named() -> None:
    renderer = Renderer(workers=1, limits=RenderLimits(memory_bytes=400 * 1024**2))

    with pytest.raises(WorkerDied, match="addon hungry: needs more memory than the limit of a render"):
        await renderer.chart(HUNGRY)

    assert await renderer.chart(FINE)
    await renderer.close()


async def test_worker_killed_during_a_render_is_replaced() -> None:
    renderer = Renderer(workers=1)
    await renderer.chart(FINE)
    endless = asyncio.create_task(renderer.chart(ENDLESS))
    await until(lambda: renderer._pool._lent == 1)

    os.kill(worker_ids()[0], signal.SIGKILL)

    with pytest.raises(WorkerDied, match="addon endless: the render worker was killed by SIGKILL"):
        await endless
    assert await renderer.chart(FINE)
    await renderer.close()


async def test_worker_killed_while_idle_is_replaced() -> None:
    renderer = Renderer(workers=1)
    await renderer.chart(FINE)
    os.kill(worker_ids()[0], signal.SIGKILL)
    await until(lambda: worker_ids() == [])

    assert await renderer.chart(FINE)
    await renderer.close()


async def test_cancelling_a_render_kills_its_worker() -> None:
    renderer = Renderer(workers=1)
    await renderer.chart(FINE)
    (before,) = worker_ids()
    endless = asyncio.create_task(renderer.chart(ENDLESS))
    await until(lambda: renderer._pool._lent == 1)

    endless.cancel()
    with pytest.raises(asyncio.CancelledError):
        await endless

    assert await renderer.chart(FINE)
    assert before not in worker_ids()
    await renderer.close()


async def test_cancelling_before_the_worker_has_started_leaves_nothing() -> None:
    renderer = Renderer(workers=1)
    for delay in (0, 0.001, 0.01, 0.05):
        render = asyncio.create_task(renderer.chart(FINE))
        await asyncio.sleep(delay)
        render.cancel()
        await asyncio.gather(render, return_exceptions=True)

    await renderer.close()


async def test_close_ends_running_renders() -> None:
    renderer = Renderer(workers=1, limits=PATIENT)
    await renderer.chart(FINE)
    endless, waiting = (asyncio.create_task(renderer.chart(request)) for request in (ENDLESS, FINE))
    await until(lambda: renderer._pool._lent == 1)

    await renderer.close()

    assert worker_ids() == []
    for render in (endless, waiting):
        with pytest.raises(WorkerDied):
            await render


def test_cancelled_event_loop_leaves_no_process() -> None:
    async def main() -> None:
        renderer = Renderer()
        try:
            async with asyncio.timeout(None) as limit:
                endless = asyncio.create_task(renderer.chart(ENDLESS))
                await until(lambda: worker_ids() != [])
                limit.reschedule(0)
                await endless
        finally:
            await renderer.close()

    with pytest.raises(TimeoutError):
        asyncio.run(main())
    assert worker_ids() == []


def test_worker_ends_if_its_parent_is_killed() -> None:
    code = (
        "import asyncio, sys\n"
        "from clusterstacks.deliver.render.renderer import Renderer\n"
        "async def main():\n"
        "    renderer = Renderer()\n"
        "    await renderer.values('a: 1', label='x')\n"
        "    print(next(iter(renderer._pool._all))._transport.get_pid(), flush=True)\n"
        "    await asyncio.sleep(600)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        worker = Path("/proc") / parent.stdout.readline().strip()
        assert worker.exists()
        parent.kill()
    for _ in range(6000):
        if not worker.exists() or "Z" in (worker / "stat").read_text().rpartition(")")[2][:3]:
            return
        time.sleep(0.01)
    pytest.fail("the worker outlived its parent")


async def test_worker_has_no_environment_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hidden")
    renderer = Renderer()
    await renderer.chart(FINE)

    environment = (Path("/proc") / str(worker_ids()[0]) / "environ").read_bytes()

    assert b"hidden" not in environment
    assert {entry.partition(b"=")[0] for entry in environment.split(b"\0") if entry} == {
        b"GOMEMLIMIT",
        b"LANG",
        b"HOME",
    }
    await renderer.close()


async def test_chart_is_sent_to_a_worker_once_and_again_if_it_was_dropped() -> None:
    renderer = Renderer(workers=1)
    await renderer.chart(FINE)
    (worker,) = renderer._pool._all

    assert await renderer.chart(FINE)
    worker.charts.add("0" * 64)
    assert len(worker.charts) == 2
    other = chart_request(template(CONFIG_MAP % "b"))
    worker.charts.add(hashlib.sha256(other.chart).hexdigest())
    assert (await renderer.chart(other))[0]["metadata"]["name"] == "b"
    await renderer.close()


def test_the_parent_never_loads_helm_cel_or_yaml() -> None:
    code = (
        "import sys, clusterstacks.deliver.render.renderer\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted({'helm_python', 'cel_expr_python', 'yaml', 'ctypes'} & loaded))"
    )

    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
