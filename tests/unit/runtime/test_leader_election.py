"""One elector: acquisition, renewal, release and log of its lease."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.runtime.leader_election import LEASES, LeaseLostError
from clusterstacks.runtime.leases import LeaseDurations
from tests.support.fakes.api_server import FakeApi, unreachable
from tests.support.fakes.electors import LEASE, Journey, Replica, lease_of
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

DURATIONS = LeaseDurations()


def now() -> float:
    return asyncio.get_running_loop().time()


def spec_of(api: FakeApi) -> Manifest:
    spec: Manifest = lease_of(api)["spec"]
    return spec


async def held_by_another(api: FakeApi, holder: str = "go", **spec: object) -> None:
    times = {"acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z"}
    lease = {
        "metadata": {"name": LEASE.name, "namespace": LEASE.namespace},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 7, **times, **spec},
    }
    await api.create(LEASES, lease)


async def edit(api: FakeApi, **spec: object) -> None:
    await api.merge_patch(LEASES, LEASE.name, {"spec": spec}, LEASE.namespace)


@in_virtual_time
async def test_a_free_lease_is_held_at_once_and_renewed_every_two_seconds() -> None:
    api = FakeApi(LEASES)
    one = Replica(api, DURATIONS, identity="one")
    await asyncio.sleep(1)
    spec = spec_of(api)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("one", 15, 0)
    assert one.writes
    await asyncio.sleep(20)
    assert api.count("merge_patch") == 10
    assert api.count("get") == 1, "a renewal needs no read"
    assert spec_of(api) == {**spec, "renewTime": spec_of(api)["renewTime"]} != spec
    await one.stop()


@in_virtual_time
async def test_a_released_lease_is_free_at_once() -> None:
    api = FakeApi(LEASES)
    one = Replica(api, DURATIONS)
    await asyncio.sleep(1)
    other = Replica(api, DURATIONS, identity="other")
    await asyncio.sleep(1)
    await one.stop()
    spec = spec_of(api)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("", 1)
    await asyncio.sleep(DURATIONS.retry + 0.1)
    assert other.writes
    assert (one.reports, other.reports) == ([True, False], [True])
    assert (spec_of(api)["holderIdentity"], spec_of(api)["leaseTransitions"]) == ("other", 1)
    await other.stop()


@in_virtual_time
async def test_the_lease_of_a_killed_process_is_free_after_its_duration() -> None:
    api = FakeApi(LEASES)
    await held_by_another(api, strategy="OldestEmulationVersion")
    one = Replica(api, DURATIONS, identity="one")
    await asyncio.sleep(14.9)
    assert not one.writes
    await asyncio.sleep(0.3)
    assert one.writes
    assert spec_of(api)["leaseTransitions"] == 8
    assert spec_of(api)["strategy"] == "OldestEmulationVersion", "what we do not know stays"
    await one.stop()


@in_virtual_time
async def test_a_process_with_the_same_identity_has_its_lease_back_at_once() -> None:
    api = FakeApi(LEASES)
    one = Replica(api, DURATIONS, identity="csctl-dev")
    await asyncio.sleep(1)
    await one.kill()
    acquired = spec_of(api)["acquireTime"]
    one.start()
    await asyncio.sleep(0.1)
    assert one.writes
    assert (spec_of(api)["acquireTime"], spec_of(api)["leaseTransitions"]) == (acquired, 0)
    await one.stop()


@in_virtual_time
async def test_writes_stop_five_seconds_before_the_lease_can_be_taken() -> None:
    api = FakeApi(LEASES)
    broken: list[Journey] = []
    one = Replica(api, DURATIONS, lambda: broken[0] if broken else Journey())
    await asyncio.sleep(1)
    renewed = now() - 1
    broken.append(Journey(there=100))
    last = now()
    while not one.ended:
        if one.writes:
            last = now()
        await asyncio.sleep(0.05)
    assert last - renewed == pytest.approx(DURATIONS.renew_deadline, abs=0.1)
    assert now() - renewed == pytest.approx(DURATIONS.renew_deadline, abs=0.2)
    await one.kill()
    assert (one.lost, one.reports) == (1, [True, False])


@in_virtual_time
async def test_an_answer_that_comes_after_a_long_stop_opens_nothing() -> None:
    """The server did what was asked long ago: the lease may have run out since."""
    api = FakeApi(LEASES)
    one = Replica(api, DURATIONS, lambda: Journey(there=1, back=1))
    await asyncio.sleep(2.5)  # the lease is asked for
    assert api.count("create") == 0
    freezing = asyncio.create_task(one.line.freeze(10.5))
    await asyncio.sleep(10.6)
    assert api.count("create") == 1
    assert not one.writes, "it began 10.5 seconds ago"
    await asyncio.sleep(8)
    assert one.writes, "it was asked for again"
    await freezing
    await one.stop()


@pytest.mark.parametrize(("holder", "reason"), [("go", "go took it"), ("", "it was released by another process")])
def test_a_holder_that_sees_another_one_stops_at_once(holder: str, reason: str) -> None:
    @in_virtual_time
    async def check() -> None:
        api = FakeApi(LEASES)
        one = Replica(api, DURATIONS)
        await asyncio.sleep(1)
        await edit(api, holderIdentity=holder)
        await asyncio.sleep(2 * DURATIONS.retry + 0.1)
        assert one.ended
        assert not one.writes
        with pytest.raises(LeaseLostError, match=f"Lease home/clusterstack.x-k8s.io is lost: {reason}"):
            await one._running
        assert spec_of(api)["holderIdentity"] == holder

    check()


@in_virtual_time
async def test_an_edit_that_does_not_concern_the_holder_changes_nothing() -> None:
    api = FakeApi(LEASES)
    one = Replica(api, DURATIONS)
    await asyncio.sleep(1)
    await api.merge_patch(LEASES, LEASE.name, {"metadata": {"labels": {"a": "b"}}}, LEASE.namespace)
    await asyncio.sleep(10)
    assert one.reports == [True]
    await api.delete(LEASES, LEASE.name, LEASE.namespace)
    await asyncio.sleep(10)
    assert (one.writes, one.reports) == (True, [True])
    await one.stop()


@in_virtual_time
async def test_services_run_only_while_the_lease_is_held_and_end_before_it_is_released() -> None:
    api = FakeApi(LEASES)
    await held_by_another(api)
    one = Replica(api, DURATIONS, identity="one")
    notes: list[str] = []

    async def service() -> None:
        notes.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(12)
            notes.append(f"ended while {spec_of(api)['holderIdentity']} holds it, may write: {one.writes}")

    running = asyncio.create_task(one.elector.while_held(service)())
    await asyncio.sleep(14)
    assert notes == []
    await asyncio.sleep(2)
    assert notes == ["began"]
    running.cancel()
    await one.stop()
    assert notes == ["began", "ended while one holds it, may write: True"]
    assert spec_of(api)["holderIdentity"] == ""


@in_virtual_time
async def test_a_waiting_process_that_is_stopped_leaves_the_lease_alone() -> None:
    api = FakeApi(LEASES)
    await held_by_another(api)
    one = Replica(api, DURATIONS)
    waiting = asyncio.create_task(one.elector.while_held(one.stop)())
    await asyncio.sleep(3)
    before = lease_of(api)
    await one.stop()
    assert lease_of(api) == before
    waiting.cancel()


@in_virtual_time
async def test_a_failed_release_is_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(LEASES)
    one = Replica(api, DURATIONS)
    await asyncio.sleep(1)
    api.fail("get", unreachable("no route"))
    await one.stop()
    assert caplog.messages[-1] == "Lease home/clusterstack.x-k8s.io is not released: no route"
    assert not one.writes


@in_virtual_time
async def test_a_renewal_under_way_does_not_keep_the_lease_from_being_released() -> None:
    api = FakeApi(LEASES)
    one = Replica(api, DURATIONS, lambda: Journey(there=0.5, back=0.5))
    await asyncio.sleep(4.6)
    assert api.count("merge_patch") == 1, "the second renewal is on its way"
    await one.stop()
    assert spec_of(api)["holderIdentity"] == ""


@in_virtual_time
async def test_a_waiting_process_logs_the_holder_once_in_ten_minutes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    api = FakeApi(LEASES)
    await held_by_another(api, "go-1")
    one = Replica(api, DURATIONS)
    for number in range(2 * 660):
        await edit(api, renewTime=f"2026-01-01T00:00:00.{number:06d}Z")
        await asyncio.sleep(0.5)
    says = "Lease home/clusterstack.x-k8s.io is held by {}: this process writes nothing and waits for it"
    assert caplog.messages == [says.format("go-1")] * 2, "every ten minutes"
    await edit(api, holderIdentity="go-2")
    await asyncio.sleep(3)
    assert caplog.messages[2:] == [says.format("go-2")]
    assert one.elector.problem() == ""
    await one.stop()


@in_virtual_time
async def test_lease_that_cannot_be_read_is_logged_and_not_ready(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    api = FakeApi(LEASES)
    refused = Forbidden("get Lease.coordination.k8s.io home/x: 403", status=403, reason="Forbidden")
    api.fail("get", refused, refused, refused)
    one = Replica(api, DURATIONS)
    assert one.elector.problem() == "Lease home/clusterstack.x-k8s.io has not been read yet"
    await asyncio.sleep(3)
    assert one.elector.problem() == "get Lease.coordination.k8s.io home/x: 403"
    await asyncio.sleep(4)
    assert one.elector.problem() == ""
    assert one.writes
    lease = "Lease home/clusterstack.x-k8s.io"
    assert caplog.messages[:2] == [
        f"{lease} cannot be read or written: get Lease.coordination.k8s.io home/x: 403; retrying",
        f"{lease} can be read and written again",
    ]
    await one.stop()
