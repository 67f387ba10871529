"""Random schedules of faults between the operator and its API servers, and their reduction to what is needed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

READS = frozenset({"get", "list"})
WATCHES = frozenset({"watch"})
WRITES = frozenset({"create", "patch", "update", "delete"})
ALL = READS | WATCHES | WRITES


class Fault(StrEnum):
    """Faults that the proxy knows, each with the text that a schedule prints."""

    RESET_BEFORE = "reset before the request is sent"
    RESET_AFTER = "reset after the request was executed"
    RESET_IN_BODY = "reset in the body"
    TRUNCATED = "body ends early"
    SLOW_BODY = "one byte per second"
    LATE = "answer is delayed after success"
    STALE = "old answer"
    CONFLICT = "409"
    GONE = "410"
    TOO_MANY = "429"
    TOO_MANY_WAIT = "429 with Retry-After"
    INTERNAL_ERROR = "500"
    UNAVAILABLE = "503"
    STALLED_WATCH = "watch without data"
    DUPLICATED_EVENTS = "every event twice"
    EXPIRED_CERTIFICATE = "expired certificate"
    BLACK_HOLE = "black hole"

    @property
    def verbs(self) -> frozenset[str]:
        """Verbs of the requests that it can affect, as the authorizer names them."""
        return _VERBS.get(self, ALL)


_VERBS = {
    Fault.RESET_AFTER: READS | WRITES,
    Fault.SLOW_BODY: READS | WRITES,
    Fault.LATE: READS | WRITES,
    Fault.STALE: READS,
    Fault.CONFLICT: WRITES - {"create"},  # a creation can only conflict with an object that exists
    Fault.GONE: frozenset({"list", "watch"}),
    Fault.STALLED_WATCH: WATCHES,
    Fault.DUPLICATED_EVENTS: WATCHES,
}


class Server(StrEnum):
    """The clusters of a scenario."""

    MANAGEMENT = "management"
    WORKLOAD = "workload"


class Phase(StrEnum):
    """The parts of a scenario; each begins with the faults planned for it."""

    INSTALL = "install"
    UPGRADE = "upgrade"
    ROLLBACK = "rollback"
    DRIFT = "drift"


ALWAYS = (Phase.INSTALL, Phase.UPGRADE)
"""The phases of every schedule."""


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """A fault that happens once: at the ``number``-th request of a phase (from 1) that matches verb and resource.

    An empty verb or resource matches all that the fault can affect.
    """

    phase: Phase
    server: Server
    fault: Fault
    number: int
    verb: str = ""
    resource: str = ""

    def __str__(self) -> str:
        request = " ".join(filter(None, (self.verb, self.resource))) or "request"
        return f"{self.phase}, {self.server}, {request} {self.number}: {self.fault}"

    def matches(self, verb: str, resource: str) -> bool:
        """Return whether a request counts for it; probes have no resource."""
        return verb in self.fault.verbs and self.verb in {"", verb} and self.resource in {"", resource}


_KINDS = (
    "clusterstacks",
    "clusterstackreleases",
    "clusteraddons",
    "clusters",
    "clusterclasses",
    "tinyclustertemplates",
)
_CHANGES = {
    Server.MANAGEMENT: (
        *(f"watch {kind}" for kind in _KINDS),
        "get clusteraddons",
        "get clusters",
        "get clusterstackreleases",
        "get secrets",
        "create events",
        "patch clusteraddons",
        "patch clusteraddons/status",
        "patch clusters/status",
    ),
    Server.WORKLOAD: (
        "get ",
        "list configmaps",
        "list secrets",
        "patch configmaps",
        "patch secrets",
        "delete configmaps",
        "delete secrets",
    ),
}
REQUESTS = {
    (Phase.INSTALL, Server.MANAGEMENT): (
        *(f"{verb} {kind}" for verb in ("list", "watch") for kind in _KINDS),
        "get clusteraddons",
        "get clusterclasses",
        "get clusters",
        "get clusterstackreleases",
        "get secrets",
        "create clusteraddons",
        "create clusterstackreleases",
        "create events",
        "patch clusteraddons",
        "patch clusteraddons/status",
        "patch clusterclasses",
        "patch clusters/status",
        "patch clusterstackreleases",
        "patch clusterstackreleases/status",
        "patch clusterstacks/status",
        "patch tinyclustertemplates",
    ),
    (Phase.INSTALL, Server.WORKLOAD): (
        "get ",
        "list secrets",
        "create secrets",
        "patch secrets",
        "patch configmaps",
    ),
    (Phase.UPGRADE, Server.MANAGEMENT): _CHANGES[Server.MANAGEMENT],
    (Phase.UPGRADE, Server.WORKLOAD): _CHANGES[Server.WORKLOAD],
    (Phase.ROLLBACK, Server.MANAGEMENT): _CHANGES[Server.MANAGEMENT],
    (Phase.ROLLBACK, Server.WORKLOAD): (*_CHANGES[Server.WORKLOAD], "list deployments", "delete deployments"),
    (Phase.DRIFT, Server.MANAGEMENT): (
        "watch clusteraddons",
        "watch clusters",
        "get clusteraddons",
        "get secrets",
        "create events",
        "patch clusteraddons/status",
    ),
    (Phase.DRIFT, Server.WORKLOAD): (
        "get ",
        "get configmaps",
        "list configmaps",
        "list secrets",
        "patch configmaps",
        "patch secrets",
    ),
}
"""Requests of the operator in each phase, verb and resource; discovery and probes have none."""

FAULTS = (2, 10)
"""Minimum and maximum number of faults of an installation and an upgrade: bounded, so the operator must converge.
Each other phase has the minimum."""
LATEST_OF_ALL, LATEST_OF_KIND = 12, 3
"""Maximum number of a request among all that the fault can affect, and among those of one verb and resource. Without
faults a phase sends 12 to 60 requests to a server, and most kinds of them up to three times."""


def random_phases(seed: int) -> tuple[Phase, ...]:
    """Return the phases of a seed: every second one has drift and every fourth a rollback, which take seconds."""
    optional = {Phase.ROLLBACK: seed % 4 == 3, Phase.DRIFT: seed % 2 == 1}
    return tuple(phase for phase in Phase if optional.get(phase, True))


def random_schedule(seed: int, phases: Sequence[Phase]) -> tuple[PlannedFault, ...]:
    """Return the schedule of a seed: the same one on every machine."""
    random = Random(seed)
    schedule = [_random_fault(random, random.choice(ALWAYS)) for _ in range(random.randint(*FAULTS))]
    for phase in phases:
        if phase not in ALWAYS:
            schedule += [_random_fault(random, phase) for _ in range(FAULTS[0])]
    return tuple(schedule)


def _random_fault(random: Random, phase: Phase) -> PlannedFault:
    fault = random.choice(list(Fault))
    servers = [one for one in Server if _requests(phase, one, fault)]
    server = random.choice(servers)
    if random.random() < 0.3:
        return PlannedFault(phase, server, fault, random.randint(1, LATEST_OF_ALL))
    verb, _, resource = random.choice(_requests(phase, server, fault)).partition(" ")
    return PlannedFault(phase, server, fault, random.randint(1, LATEST_OF_KIND), verb, resource)


def _requests(phase: Phase, server: Server, fault: Fault) -> list[str]:
    return [one for one in REQUESTS[phase, server] if one.partition(" ")[0] in fault.verbs]


def range_of(text: str) -> range:
    """Read a number, or the first one and the end as ``0:500``."""
    first, _, end = text.partition(":")
    return range(int(first), int(end or int(first) + 1))


def listed(schedule: Sequence[PlannedFault]) -> str:
    """Return one line for each fault."""
    return "\n".join(f"  {planned}" for planned in schedule) or "  no fault"


async def shrunk(
    schedule: Sequence[PlannedFault], fails: Callable[[Sequence[PlannedFault]], Awaitable[bool]]
) -> tuple[PlannedFault, ...]:
    """Remove faults one by one as long as the rest still fails.

    Args:
        schedule: A schedule that fails.
        fails: Runs a schedule.
    """
    kept = tuple(schedule)
    for planned in schedule:
        without = tuple(one for one in kept if one is not planned)
        if await fails(without):
            kept = without
    return kept
