"""A workload cluster whose requests take long is left alone for longer."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.controllers.workload_clients import (
    FREE_TIME,
    REST_FACTOR,
    WORKLOAD_BOUNDS,
    WorkloadNotReachable,
    Workloads,
    _Connected,
    rest_after,
)
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.kube.client import Client
from clusterstacks.kube.connection import Connection
from clusterstacks.kube.limits import BusyTime
from clusterstacks.kube.transport import Pool
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

CLUSTER = ObjectKey("team", "slow")


@pytest.mark.parametrize(
    ("busy", "rest"),
    [(timedelta(), timedelta()), (FREE_TIME, timedelta()), (timedelta(minutes=4), timedelta(minutes=16))],
)
def test_sec_3_d_a_long_reconcile_is_followed_by_a_longer_rest(busy: timedelta, rest: timedelta) -> None:
    assert rest_after(busy) == rest


def test_a_cluster_that_uses_all_its_time_holds_a_worker_for_a_fifth_of_it() -> None:
    assert WORKLOAD_BOUNDS.busy_time is not None
    whole = WORKLOAD_BOUNDS.busy_time + rest_after(WORKLOAD_BOUNDS.busy_time)
    assert whole == (REST_FACTOR + 1) * WORKLOAD_BOUNDS.busy_time


@in_virtual_time
async def test_sec_3_d_a_slow_cluster_rests_whatever_its_kubeconfig_says() -> None:
    now = 0.0
    async with Pool() as pool:
        workloads = Workloads(FakeApi(), pool)
        client = Client(Connection("http://127.0.0.1:1"), pool)
        client._transport.busy = busy = BusyTime(None, lambda: now)
        workloads._connected[CLUSTER] = _Connected("1", client)
        workloads._check_rest(CLUSTER)
        with busy.request():
            now = 100.0
        with pytest.raises(
            WorkloadNotReachable, match=r"Cluster team/slow took longer than 60 s .* next attempt is in 500 s"
        ):
            workloads._check_rest(CLUSTER)
        await workloads._disconnect(CLUSTER)
        with pytest.raises(WorkloadNotReachable, match="next attempt is in 500 s"):
            workloads._check_rest(CLUSTER)
        await workloads.forget(CLUSTER)
        workloads._check_rest(CLUSTER)


def clock(*times: float) -> Callable[[], float]:
    left = iter(times)
    return lambda: next(left)


def test_requests_at_the_same_time_count_once() -> None:
    busy = BusyTime(timedelta(seconds=10), clock(0, 3, 5, 6))
    with busy.request(), busy.request():
        pass
    with busy.request():
        pass

    assert busy.seconds == 4
    assert busy.left == 6
    assert busy.ended == 6
