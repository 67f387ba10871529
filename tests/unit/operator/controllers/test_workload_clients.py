"""Kubeconfig Secrets, and pauses for slow workload clusters."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.limits import BusyTime
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.workload_clients import (
    FREE_TIME,
    REST_FACTOR,
    WORKLOAD_BOUNDS,
    WorkloadNotReachable,
    Workloads,
    _Connected,
    is_cluster_apis,
    rest_after,
)
from tests.support.fakes.api_server import FakeApi
from tests.support.fakes.scripted_server import ScriptedServer, says
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import Manifest

CLUSTER = ObjectKey("team", "slow")


@pytest.mark.regression("SEC-3")
@pytest.mark.parametrize(
    ("busy", "rest"),
    [(timedelta(), timedelta()), (FREE_TIME, timedelta()), (timedelta(minutes=4), timedelta(minutes=16))],
)
def test_d_long_reconcile_is_followed_by_a_longer_pause(busy: timedelta, rest: timedelta) -> None:
    assert rest_after(busy) == rest


def test_cluster_at_its_time_limit_uses_a_worker_a_fifth_of_the_time() -> None:
    assert WORKLOAD_BOUNDS.busy_time is not None
    whole = WORKLOAD_BOUNDS.busy_time + rest_after(WORKLOAD_BOUNDS.busy_time)
    assert whole == (REST_FACTOR + 1) * WORKLOAD_BOUNDS.busy_time


@pytest.mark.regression("SEC-3")
@in_virtual_time
async def test_d_slow_cluster_pauses_even_with_a_new_kubeconfig() -> None:
    now = 0.0
    async with Pool() as pool:
        workloads = Workloads(FakeApi())
        client = Client(Connection("http://127.0.0.1:1"), pool)
        client._transport.busy = busy = BusyTime(None, lambda: now)
        workloads._connected[CLUSTER] = _Connected("1", client, pool)
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


async def test_connections_of_a_cluster_that_is_gone_are_closed_at_once() -> None:
    async with ScriptedServer.started() as server:
        server.plays(says({}))
        workloads, pool = Workloads(FakeApi()), Pool()
        workloads._connected[CLUSTER] = _Connected("1", Client(Connection(server.url), pool), pool)
        await (await workloads.connect_again(CLUSTER)).ready()
        session = pool.session

        await workloads.forget(CLUSTER)

        assert session.closed


def clock(*times: float) -> Callable[[], float]:
    left = iter(times)
    return lambda: next(left)


def test_concurrent_requests_count_once_as_busy_time() -> None:
    busy = BusyTime(timedelta(seconds=10), clock(0, 3, 5, 6))
    with busy.request(), busy.request():
        pass
    with busy.request():
        pass

    assert busy.seconds == 4
    assert busy.left == 6
    assert busy.ended == 6


SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)


def secret(kind: str = "Opaque", **metadata: Any) -> Manifest:
    return {"metadata": {"name": "one-kubeconfig", "namespace": "team", **metadata}, "type": kind}


def owned(api_version: str) -> Manifest:
    return secret(ownerReferences=[{"apiVersion": api_version, "kind": "Any", "name": "one", "uid": "1"}])


@pytest.mark.parametrize(
    ("manifest", "marked"),
    [
        (secret("cluster.x-k8s.io/secret"), True),
        (secret(labels={"cluster.x-k8s.io/cluster-name": "one"}), True),
        (owned("cluster.x-k8s.io/v1beta1"), True),
        (owned("controlplane.cluster.x-k8s.io/v1alpha1"), True),
        (secret(), False),
        (secret("kubernetes.io/service-account-token"), False),
        (secret(labels={"cluster.x-k8s.io/cluster-name": "other"}), False),
        (owned("v1"), False),
        (owned("apps/v1"), False),
        (owned("evilcluster.x-k8s.io/v1"), False),
    ],
)
def test_secret_is_accepted_by_type_label_or_owner(manifest: Manifest, *, marked: bool) -> None:
    assert is_cluster_apis(manifest, "one") is marked


@pytest.mark.regression("SEC-15")
async def test_unmarked_secret_is_rejected_with_the_label_command() -> None:
    api = FakeApi(SECRETS)
    await api.create(SECRETS, secret())
    with pytest.raises(SpecError, match=r"label secret one-kubeconfig cluster\.x-k8s\.io/cluster-name=one"):
        await Workloads(api).connect(ObjectKey("team", "one"))


async def test_cluster_of_another_shard_gets_no_client() -> None:
    api = FakeApi(SECRETS)
    await api.create(SECRETS, secret("cluster.x-k8s.io/secret"))
    workloads = Workloads(api, is_ours=lambda _: False)

    for connect in (workloads.connect, workloads.connect_again):
        with pytest.raises(WorkloadNotReachable, match="Cluster team/one belongs to another shard of the operator"):
            await connect(ObjectKey("team", "one"))
