"""Objects of a sweep that are compared, and lists that need not be read again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.live_members import LiveMembers
from clusterstacks.deliver.apply.sweep import SweepMemory, fingerprint
from clusterstacks.model.objects import ObjectId

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.model.objects import Manifest

DNS = ObjectId("apps", "Deployment", "system", "dns")
PROXY = ObjectId("apps", "Deployment", "system", "proxy")
SETTINGS = ObjectId("", "ConfigMap", "system", "settings")
SETUP = ObjectId("batch", "Job", "system", "setup")
OBJECTS = dict.fromkeys((DNS, PROXY, SETTINGS, SETUP), "addon")
DEPLOYMENTS, CONFIG_MAPS, JOBS = ("apps", "Deployment"), ("", "ConfigMap"), ("batch", "Job")
DIGESTS = {DEPLOYMENTS: b"1", CONFIG_MAPS: b"2", JOBS: b"3"}


def live(**metadata: Any) -> Manifest:
    return {"metadata": {"uid": "1", "generation": 1, **metadata}}


LIVE = dict.fromkeys(OBJECTS, live())


def compared(without: Collection[ObjectId] = ()) -> SweepMemory:
    """Return the memory after a comparison of all objects but some."""
    return SweepMemory(OBJECTS, {one: fingerprint(live()) for one in OBJECTS if one not in without})


SETTLED: dict[str, tuple[SweepMemory, LiveMembers, list[ObjectId], set[tuple[str, str]]]] = {
    "all as they should be": (compared(), LiveMembers(LIVE, {}, digests=DIGESTS), [], set(DIGESTS)),
    "one not compared": (compared([DNS]), LiveMembers(LIVE, {}, digests=DIGESTS), [], {CONFIG_MAPS, JOBS}),
    "one changed": (
        compared(),
        LiveMembers(LIVE | {SETTINGS: live(uid="2")}, {}, digests=DIGESTS),
        [],
        {DEPLOYMENTS, JOBS},
    ),
    "one missing": (
        compared(),
        LiveMembers({one: live() for one in OBJECTS if one != PROXY}, {}, digests=DIGESTS),
        [],
        {CONFIG_MAPS, JOBS},
    ),
    "a Job has ended": (
        compared(),
        LiveMembers({one: live() for one in OBJECTS if one != SETUP}, {}, digests=DIGESTS),
        [],
        set(DIGESTS),
    ),
    "one not healthy": (compared(), LiveMembers(LIVE, {}, digests=DIGESTS), [DNS], {CONFIG_MAPS, JOBS}),
    "one unreadable": (compared(), LiveMembers(LIVE, {}, {SETTINGS}, DIGESTS), [], {DEPLOYMENTS, JOBS}),
    "no digest": (compared(), LiveMembers(LIVE, {}, digests={JOBS: b"3"}), [], {JOBS}),
    "unchanged kinds": (
        compared([DNS]),
        LiveMembers({SETTINGS: live()}, {}, digests=DIGESTS, unchanged={DEPLOYMENTS, JOBS}),
        [],
        set(DIGESTS),
    ),
}


@pytest.mark.parametrize(("memory", "members", "unhealthy", "settled"), SETTLED.values(), ids=SETTLED)
def test_a_list_is_settled_if_all_its_objects_are_as_they_should_be(
    memory: SweepMemory, members: LiveMembers, unhealthy: list[ObjectId], settled: set[tuple[str, str]]
) -> None:
    memory.settle(members, unhealthy)

    assert memory.settled == {kind: DIGESTS[kind] for kind in settled}


def test_a_list_that_stops_to_be_settled_is_read_again() -> None:
    memory = compared()
    memory.settle(LiveMembers(LIVE, {}, digests=DIGESTS), [])

    memory.settle(LiveMembers(LIVE | {DNS: live(generation=2)}, {}, digests=DIGESTS | {DEPLOYMENTS: b"4"}), [])

    assert DEPLOYMENTS not in memory.settled


def test_objects_of_unchanged_lists_are_no_suspects() -> None:
    memory = compared([DNS, SETTINGS])

    members = LiveMembers({SETTINGS: live()}, {}, digests=DIGESTS, unchanged={DEPLOYMENTS, JOBS})

    assert set(memory.suspects(members)) == {SETTINGS}


def test_forgotten_objects_are_compared_again() -> None:
    memory = compared()
    memory.settle(LiveMembers(LIVE, {}, digests=DIGESTS), [])

    memory.forget()

    assert memory.settled == {}
    assert set(memory.suspects(LiveMembers(LIVE, {}))) == set(OBJECTS)
