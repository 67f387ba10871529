"""The faults of the proxy as a client of the Kubernetes API sees them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.net.kube import client as kube_client
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Conflict, Expired, TooMany, Unreachable
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.pool import Pool
from clusterstacks.net.retry import RetryPolicy
from tests.support.builders.fault_schedules import (
    FAULTS,
    Fault,
    Phase,
    PlannedFault,
    Server,
    random_phases,
    random_schedule,
    shrunk,
)
from tests.support.servers.fault_proxy import FaultProxy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.errors import DependencyError

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)
ENOUGH = timedelta(seconds=60)
"""For requests that are answered, on a busy machine."""
SHORT = timedelta(seconds=4)
"""For requests that are not answered."""
LASTING = {Fault.SLOW_BODY, Fault.LATE, Fault.BLACK_HOLE, Fault.STALLED_WATCH}


@pytest.fixture
async def proxy(api_server: ApiServer, tmp_path: Path) -> AsyncIterator[FaultProxy]:
    async with FaultProxy.started(api_server, tmp_path) as started:
        started.hold_seconds = started.expired_seconds = 600  # until the next plan, however busy the machine is
        yield started


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    async with Pool() as opened:
        yield opened


@pytest.fixture
def client(proxy: FaultProxy, pool: Pool) -> Client:
    """Return a client whose requests fail after one attempt."""
    return client_of(proxy, pool, ENOUGH)


def client_of(proxy: FaultProxy, pool: Pool, deadline: timedelta) -> Client:
    retries = RetryPolicy(attempts=1)
    return Client(parse_kubeconfig(proxy.kubeconfig, base=None), pool, deadline=deadline, retries=retries)


def at(fault: Fault, verb: str, number: int = 1) -> list[PlannedFault]:
    return [PlannedFault(Phase.INSTALL, Server.MANAGEMENT, fault, number, verb, "configmaps")]


async def written(client: Client, name: str, **content: str) -> dict[str, Any]:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    return await client.apply(CONFIG_MAPS, {**manifest, "data": content}, manager="tests", force=True)


FAILURES: list[tuple[Fault, type[DependencyError], str]] = [
    (Fault.RESET_BEFORE, Unreachable, "cannot be reached"),
    (Fault.RESET_AFTER, Unreachable, "cannot be reached"),
    (Fault.RESET_IN_BODY, Unreachable, "cannot be reached"),
    (Fault.TRUNCATED, Unreachable, "cannot be reached"),
    (Fault.SLOW_BODY, Unreachable, "did not answer within 4 s"),
    (Fault.LATE, Unreachable, "did not answer within 4 s"),
    (Fault.CONFLICT, Conflict, "409 Conflict"),
    (Fault.TOO_MANY, TooMany, "429 TooManyRequests"),
    (Fault.TOO_MANY_WAIT, TooMany, "429 TooManyRequests"),
    (Fault.INTERNAL_ERROR, Unreachable, "500 InternalError"),
    (Fault.UNAVAILABLE, Unreachable, "503 ServiceUnavailable"),
    (Fault.BLACK_HOLE, Unreachable, "did not answer within 4 s"),
]


@pytest.mark.parametrize(("fault", "error", "message"), FAILURES, ids=[fault.name.lower() for fault, *_ in FAILURES])
async def test_write_fails_once_with_the_planned_fault(
    proxy: FaultProxy, client: Client, pool: Pool, fault: Fault, error: type[DependencyError], message: str
) -> None:
    name = f"fault-{fault.name.lower().replace('_', '-')}"
    await written(client, name, before="1")
    proxy.plan(at(fault, "patch"))

    with pytest.raises(error, match=message):
        await written(client_of(proxy, pool, SHORT if fault in LASTING else ENOUGH), name, after="1")

    executed = (await client.get(CONFIG_MAPS, name, "default"))["data"] if fault is not Fault.BLACK_HOLE else {}
    if fault in {Fault.RESET_AFTER, Fault.RESET_IN_BODY, Fault.TRUNCATED, Fault.SLOW_BODY, Fault.LATE}:
        assert executed == {"after": "1"}
    elif executed:
        assert executed == {"before": "1"}
    proxy.plan([])
    assert (await written(client, name, after="2"))["data"] == {"after": "2"}
    assert [planned.fault for planned in proxy.happened] == [fault]


async def test_expired_certificate_is_refused_until_the_valid_one_is_back(proxy: FaultProxy, client: Client) -> None:
    await client.list(CONFIG_MAPS)
    proxy.plan(at(Fault.EXPIRED_CERTIFICATE, "list"))

    with pytest.raises(Unreachable, match="cannot be reached"):
        await client.list(CONFIG_MAPS)  # on the connection that was open before
    with pytest.raises(Unreachable, match="certificate has expired"):
        await client.list(CONFIG_MAPS)
    proxy.plan([])
    await client.list(CONFIG_MAPS)


async def test_stale_read_returns_the_answer_before_the_last_change(proxy: FaultProxy, client: Client) -> None:
    for number in ("1", "2"):
        await written(client, "fault-stale", number=number)
        await client.get(CONFIG_MAPS, "fault-stale", "default")
    proxy.plan(at(Fault.STALE, "get"))

    assert (await client.get(CONFIG_MAPS, "fault-stale", "default"))["data"] == {"number": "1"}
    assert (await client.get(CONFIG_MAPS, "fault-stale", "default"))["data"] == {"number": "2"}


async def test_expired_list_begins_again_and_expired_watch_raises(proxy: FaultProxy, client: Client) -> None:
    proxy.plan([*at(Fault.GONE, "list"), *at(Fault.GONE, "watch")])

    version = (await client.list(CONFIG_MAPS)).resource_version
    with pytest.raises(Expired):
        await anext(client.watch(CONFIG_MAPS, resource_version=version))


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault.STALLED_WATCH, "no data for 4 s"),
        (Fault.RESET_IN_BODY, "the connection was lost|Connection reset"),
        (Fault.TRUNCATED, "the connection was lost|in the middle of an event"),
    ],
    ids=["stalled", "reset", "truncated"],
)
async def test_watch_ends_with_the_planned_fault(
    proxy: FaultProxy, client: Client, pool: Pool, fault: Fault, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube_client, "IDLE_TIMEOUT", SHORT)
    version = (await client.list(CONFIG_MAPS)).resource_version
    await written(client, "fault-watch", fault=fault)
    proxy.plan(at(fault, "watch"))

    watching = client_of(proxy, pool, SHORT if fault in LASTING else ENOUGH)
    with pytest.raises(Unreachable, match=message):
        await anext(watching.watch(CONFIG_MAPS, "default", resource_version=version))


async def test_duplicated_events_arrive_twice(proxy: FaultProxy, client: Client) -> None:
    version = (await client.list(CONFIG_MAPS)).resource_version
    await written(client, "fault-twice", number="1")
    proxy.plan(at(Fault.DUPLICATED_EVENTS, "watch"))
    events = client.watch(CONFIG_MAPS, "default", resource_version=version)

    assert await anext(events) == await anext(events)
    await events.aclose()


async def test_fault_happens_at_the_planned_request_only(proxy: FaultProxy, client: Client) -> None:
    proxy.plan(at(Fault.UNAVAILABLE, "list", number=2))

    await client.list(CONFIG_MAPS)
    with pytest.raises(Unreachable, match="503"):
        await client.list(CONFIG_MAPS)
    await client.list(CONFIG_MAPS)


def test_schedule_of_a_seed_is_bounded_and_always_the_same() -> None:
    seen: set[Fault] = set()
    for seed in range(1000):
        schedule = random_schedule(seed, phases := random_phases(seed))
        assert schedule == random_schedule(seed, phases)
        assert FAULTS[0] <= len(schedule) <= 2 * FAULTS[0] + FAULTS[1]
        assert {planned.phase for planned in schedule} <= set(phases)
        seen |= {planned.fault for planned in schedule}
    assert seen == set(Fault)


async def test_shrunk_schedule_has_only_the_faults_that_are_needed() -> None:
    schedule = [
        PlannedFault(Phase.INSTALL, Server.WORKLOAD, fault, number)
        for number, fault in enumerate((Fault.LATE, Fault.STALE, Fault.LATE, Fault.CONFLICT, Fault.LATE), start=1)
    ]
    needed = {schedule[1], schedule[3]}

    async def fails(faults: Sequence[PlannedFault]) -> bool:
        return needed <= set(faults)

    assert set(await shrunk(schedule, fails)) == needed
