"""kill -9 at any moment: the same end, nothing twice, and silence afterwards."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.dev.demo.await_state import read_back
from clusterstacks.dev.demo.scenario import build_first, build_second
from clusterstacks.net.pool import Pool
from tests.support.builders.e2e_objects import addon_of, cluster, create, delivered, namespace, set_topology, stack
from tests.support.observing.request_audit import RequestAudit
from tests.support.observing.write_counter import writes
from tests.support.running.local_environment import AUDIT_LOG
from tests.support.waiting import eventually

if TYPE_CHECKING:
    import subprocess
    from collections import Counter
    from collections.abc import Awaitable, Callable

    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client
    from tests.support.running.local_environment import Local

HOME = "kill"
SECONDS_A_LIFE = 150
MOST_LIVES = 60


async def test_an_operator_killed_after_every_few_writes_ends_where_an_undisturbed_one_does(local: Local) -> None:
    """Each life may write once more than the one before, so together they die after many different writes."""
    first, second = build_first(local.releases), build_second(local.releases)
    async with Pool() as pool:
        client = local.management(pool)
        await create(client, namespace(HOME))
        await create(client, stack(HOME, versions=["v1", "v2"], autoSubscribe=False))
        await live_and_die(local, lambda: release_ready(client, second.release))
        await create(client, cluster(HOME, "hunted", first.class_name))
        await live_and_die(local, lambda: delivered(client, HOME, "hunted", first.class_name))
        await set_topology(client, HOME, "hunted", second.class_name)
        deaths = await live_and_die(local, lambda: delivered(client, HOME, "hunted", second.class_name))
        assert deaths > 1

        with local.operator(HOME):
            await create(client, cluster(HOME, "calm", first.class_name))
            await eventually(lambda: delivered(client, HOME, "calm", first.class_name), seconds=SECONDS_A_LIFE)
            await set_topology(client, HOME, "calm", second.class_name)
            calm = await eventually(lambda: delivered(client, HOME, "calm", second.class_name), seconds=SECONDS_A_LIFE)
        hunted = await addon_of(client, HOME, "hunted")
        assert await objects(local, pool, "hunted", hunted) == await objects(local, pool, "calm", calm)

        await silence_after_a_restart(local, client, pool)


async def live_and_die(local: Local, done: Callable[[], Awaitable[object]]) -> int:
    """Run operators that are killed after 1, 2, 3, ... writes until ``done``; give how many died."""
    for lives in range(1, MOST_LIVES):
        operator = local.mortal_operator(HOME, lives)
        try:
            await eventually(partial(dead_or_done, operator, done), seconds=SECONDS_A_LIFE)
            if operator.poll() is None:
                return lives - 1
        finally:
            operator.kill()
            operator.wait()
    raise AssertionError(f"{MOST_LIVES} lives were not enough")


async def dead_or_done(operator: subprocess.Popen[bytes], done: Callable[[], Awaitable[object]]) -> bool:
    return operator.poll() is not None or bool(await done())


async def release_ready(client: Client, name: str) -> bool:
    releases = await client.resource("clusterstack.x-k8s.io", "ClusterStackRelease")
    release = await client.find(releases, name, HOME)
    return bool(release and release.get("status", {}).get("ready"))


async def objects(local: Local, pool: Pool, name: str, addon: Manifest | None) -> set[ObjectId]:
    found = await read_back(local.workload(HOME, name, pool), addon or {})
    assert all(found.values()), [str(one) for one, live in found.items() if live is None]
    return set(found)


async def silence_after_a_restart(local: Local, client: Client, pool: Pool) -> None:
    servers = [client, local.workload(HOME, "hunted", pool), local.workload(HOME, "calm", pool)]
    with local.operator(HOME):
        await quiet(servers)
    configurations = (
        local.state.kubeconfig,
        *(local.state.cluster_kubeconfig(HOME, one) for one in ("hunted", "calm")),
    )
    logs = [RequestAudit(one.parent / AUDIT_LOG) for one in configurations]
    for log in logs:
        log.since_last()
    with local.operator(HOME) as process:
        await quiet(servers)
        assert process.poll() is None
    # Cluster API also writes now and then.
    ours = [one for log in logs for one in log.since_last() if one.agent.startswith("cluster-stack")]
    assert [one for one in ours if one.is_write and not one.is_lease and not one.kind.endswith("accessreviews")] == []


async def quiet(servers: list[Client]) -> None:
    """Let the operator run until nothing was written for five seconds."""
    before: list[Counter[str]] = []
    while True:
        now = [await writes(server) for server in servers]
        if now == before:
            return
        before = now
        await asyncio.sleep(5)
