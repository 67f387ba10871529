"""Electors with clocks of their own, on networks that lose, delay and freeze requests, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.runtime.leader_election import LEASES, LeaderElector, LeaseLostError
from tests.support.virtual_time import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.runtime.leases import LeaseDurations
    from tests.support.fakes.api_server import FakeApi

T = TypeVar("T")

LEASE = ObjectKey("home", "clusterstack.x-k8s.io")
REQUEST_SECONDS = 5.0
"""What an elector's client has for one request: half of the renew deadline."""

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Journey:
    """The fate of one request: seconds to the server, seconds back, and losses.

    The server does a late request all the same, also when nobody waits for it any more.
    """

    there: float = 0.01
    back: float = 0.01
    arrives: bool = True
    answered: bool = True


class Line(Client):
    """The client of one process; a frozen process sends and receives nothing."""

    def __init__(self, api: FakeApi, journey: Callable[[], Journey]) -> None:
        self._api = api
        self._journey = journey
        self._thawed = asyncio.Event()
        self._thawed.set()

    async def freeze(self, seconds: float) -> None:
        self._thawed.clear()
        await asyncio.sleep(seconds)
        self._thawed.set()

    async def thawed(self) -> None:
        await self._thawed.wait()

    async def find(self, resource: Resource, name: str, namespace: str = "") -> Manifest | None:
        return await self._travel(lambda: self._api.find(resource, name, namespace))

    async def create(self, resource: Resource, manifest: Manifest, namespace: str = "", **_: Any) -> Manifest:
        return await self._travel(lambda: self._api.create(resource, manifest, namespace))

    async def merge_patch(
        self, resource: Resource, name: str, patch: Mapping[str, Any], namespace: str = "", **_: Any
    ) -> Manifest:
        return await self._travel(lambda: self._api.merge_patch(resource, name, patch, namespace))

    async def _travel(self, request: Callable[[], Awaitable[T]]) -> T:
        await self.thawed()
        under_way = asyncio.create_task(_answered(self._journey(), request))
        under_way.add_done_callback(lambda task: task.cancelled() or task.exception())  # it may be waited for no more
        done, _ = await asyncio.wait({under_way}, timeout=REQUEST_SECONDS)
        await self.thawed()
        if not done:
            raise Unreachable("no answer within the deadline")
        return under_way.result()


async def _answered(journey: Journey, request: Callable[[], Awaitable[T]]) -> T:
    await asyncio.sleep(journey.there)
    if not journey.arrives:
        raise Unreachable("the connection broke")
    answer = await request()
    await asyncio.sleep(journey.back)
    if not journey.answered:
        raise Unreachable("the answer was lost")
    return answer


class _FreezingClock(VirtualClock):
    def __init__(self, line: Line) -> None:
        self._line = line

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._line.thawed()


class Replica:
    """A replica whose process is restarted when it ends, as kubelet does.

    Args:
        api: The server.
        durations: Of the lease.
        journey: Gives what becomes of the next request.
        rate: How fast its clock runs.
        identity: Used again after a restart; empty for another one each time.
    """

    def __init__(  # parameters of a simulation
        self,
        api: FakeApi,
        durations: LeaseDurations,
        journey: Callable[[], Journey] = Journey,
        *,
        rate: float = 1.0,
        identity: str = "",
    ) -> None:
        self._api = api
        self._durations = durations
        self._journey = journey
        self._rate = rate
        self._offset = 1000.0 * next(_numbers)
        self._identity = identity
        self.lost = 0
        self.reports: list[bool] = []
        self.line: Line
        self.elector: LeaderElector
        self._running: asyncio.Task[None]
        self.start()

    def start(self) -> None:
        identity = self._identity or f"replica-{next(_numbers)}"
        self.line = Line(self._api, self._journey)
        self.elector = LeaderElector(
            self.line,
            LEASE,
            identity,
            durations=self._durations,
            report=self.reports.append,
            clock=_FreezingClock(self.line),
            now=self.now,
        )
        self._running = asyncio.create_task(self.elector.run(), name=identity)

    def now(self) -> float:
        return self._offset + self._rate * asyncio.get_running_loop().time()

    @property
    def writes(self) -> bool:
        return self.elector.gate.is_open

    @property
    def ended(self) -> bool:
        return self._running.done()

    async def stop(self) -> None:
        """Stop it as SIGTERM does."""
        self._running.cancel()
        await self._end()

    async def kill(self) -> None:
        """Stop it as kill -9 does; requests under way still arrive."""

        async def nothing() -> None:
            return

        self.elector.gate.close()
        self.elector._release = nothing  # type: ignore[method-assign]
        self._running.cancel()
        await self._end()

    async def restart_if_lost(self) -> None:
        if self.ended:
            await self._end()
            self.start()

    async def _end(self) -> None:
        try:
            await self._running
        except LeaseLostError:
            self.lost += 1
        except asyncio.CancelledError:
            pass


def lease_of(api: FakeApi) -> Manifest:
    return api.objects(LEASES)[LEASE]
