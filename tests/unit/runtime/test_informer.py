from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.app import sync_problem
from clusterstacks.runtime.component_health import FAILURE_TOLERANCE, REPEAT_INTERVAL
from clusterstacks.runtime.informer import OWN_WRITE_SECONDS, CacheChange, Informer
from tests.support.fakes.api_server import FakeApi, too_many, unreachable
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.objects import Manifest

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)


def widget(name: str, color: str = "red") -> Manifest:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "ns", "managedFields": [{"manager": "kubectl"}]},
        "spec": {"color": color},
    }


def key(name: str) -> ObjectKey:
    return ObjectKey("ns", name)


@dataclass
class World:
    """A server, an informer that follows it, and what a subscriber saw as ``+name``, ``~name`` and ``-name``."""

    api: FakeApi
    informer: Informer
    seen: list[str] = field(default_factory=list)

    def note(self, change: CacheChange) -> None:
        sign = "+" if change.old is None else "-" if change.new is None else "~"
        self.seen.append(sign + change.key.name)

    async def create(self, name: str) -> None:
        await self.api.create(WIDGETS, widget(name))

    async def paint(self, name: str, color: str) -> None:
        await self.api.merge_patch(WIDGETS, name, {"spec": {"color": color}}, "ns")

    async def delete(self, name: str) -> None:
        await self.api.delete(WIDGETS, name, "ns")

    def take_seen(self) -> list[str]:
        seen, self.seen = self.seen, []
        return seen


@asynccontextmanager
async def following(*names: str, api: FakeApi | None = None, **options: Any) -> AsyncIterator[World]:
    """Start an informer on a server that has objects of these names; it is synced and what it saw is forgotten."""
    api = api or FakeApi(WIDGETS)
    for name in names:
        await api.create(WIDGETS, widget(name))
    world = World(api, Informer(api, "example.com", "Widget", **options))
    world.informer.subscribe(world.note)
    task = asyncio.create_task(world.informer.run())
    try:
        yield world
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def passing(seconds: float) -> None:
    await asyncio.sleep(seconds)


@in_virtual_time
async def test_first_list_yields_added_objects() -> None:
    async with following("a", "b") as world:
        assert not world.informer.is_synced
        await world.informer.synced()

        assert world.take_seen() == ["+a", "+b"]
        assert world.informer.resource == WIDGETS
        assert len(world.informer.cache) == 2


@in_virtual_time
async def test_before_it_is_synced_there_is_no_resource() -> None:
    with pytest.raises(LookupError, match=r"Widget\.example\.com"):
        _ = Informer(FakeApi(), "example.com", "Widget").resource


@in_virtual_time
async def test_changes_have_the_old_and_the_new_object() -> None:
    changes: list[CacheChange] = []
    async with following("a") as world:
        await world.informer.synced()
        world.informer.subscribe(changes.append)
        await world.paint("a", "blue")
        await world.delete("a")
        await passing(0.1)

        assert [
            (old and old["spec"]["color"], new and new["spec"]["color"]) for _, old, new in map(parts, changes)
        ] == [
            (None, "red"),
            ("red", "blue"),
            ("blue", None),
        ]
        assert changes[0].new is changes[1].old
        assert len(world.informer.cache) == 0


def parts(change: CacheChange) -> tuple[ObjectKey, Manifest | None, Manifest | None]:
    return change.key, change.old, change.new


@in_virtual_time
async def test_late_subscriber_gets_existing_objects_and_none_after_it_leaves() -> None:
    async with following("a") as world:
        await world.informer.synced()
        late = World(world.api, world.informer)
        leave = world.informer.subscribe(late.note)
        await world.create("b")
        await passing(0.1)
        leave()
        await world.create("c")
        await passing(0.1)

        assert late.seen == ["+a", "+b"]
        assert world.seen == ["+a", "+b", "+c"]


@in_virtual_time
async def test_managed_fields_are_not_kept_and_the_trim_can_be_chosen() -> None:
    async with following("a") as world, following(api=world.api, trim=lambda it: it | {"spec": None}) as other:
        await world.informer.synced()
        await other.informer.synced()
        kept, other_kept = world.informer.cache.get(key("a")), other.informer.cache.get(key("a"))

        assert kept is not None
        assert "managedFields" not in kept["metadata"]
        assert kept["spec"] == {"color": "red"}
        assert other_kept is not None
        assert other_kept["spec"] is None


@in_virtual_time
async def test_deletions_in_a_gap_are_seen_after_410() -> None:
    async with following("stays", "goes", "changes", "is-replaced") as world:
        await passing(0.1)
        world.take_seen()
        world.api.end_watches(unreachable())
        await passing(0.1)  # nobody watches now
        await world.delete("goes")
        await world.paint("changes", "blue")
        await world.delete("is-replaced")
        await world.create("is-replaced")
        await world.create("comes")
        world.api.compact()
        await passing(10)

        assert sorted(world.seen, key=lambda text: text[1:]) == [
            "~changes",
            "+comes",
            "-goes",
            "-is-replaced",
            "+is-replaced",
        ]
        assert set(world.informer.cache) == set(world.api.objects(WIDGETS))


@in_virtual_time
async def test_a_broken_watch_goes_on_where_it_was_without_another_list() -> None:
    async with following("a") as world:
        await passing(0.1)
        world.api.end_watches(unreachable())
        await passing(0.1)
        await world.create("b")
        await passing(5)

        assert world.seen == ["+a", "+b"]
        assert world.api.count("list") == 1


@in_virtual_time
async def test_a_watch_the_server_ends_after_a_while_is_opened_again_at_once() -> None:
    async with following("a") as world:
        await passing(300)
        before = world.api.count("watch")
        world.api.end_watches()
        await passing(0.1)

        assert world.api.count("watch") == before + 1
        assert world.api.count("list") == 1


@in_virtual_time
async def test_bookmarks_carry_a_quiet_watch_over_a_compaction() -> None:
    async with following("a") as world:
        await passing(0.1)
        for _ in range(3):
            await world.api.create(Resource("", "v1", "Pod", "pods", namespaced=True), widget(f"noise-{_}"))
        world.api.bookmark()
        await passing(0.1)
        world.api.compact()
        world.api.end_watches()
        await passing(10)

        assert world.api.count("list") == 1


@in_virtual_time
async def test_quiet_watch_after_an_outage_counts_as_a_success_before_its_first_event() -> None:
    async with following("a") as world:
        await passing(0.1)
        world.api.fail("watch", unreachable(), unreachable())
        world.api.end_watches(unreachable())
        await passing(1)
        assert world.informer.health.is_failing
        await passing(10)
        assert not world.informer.health.is_failing
        assert world.api.count("list") == 1


@in_virtual_time
async def test_a_silent_watch_is_replaced_and_nothing_is_missed() -> None:
    async with following("a") as world:
        await passing(0.1)
        world.api.silence()
        await world.delete("a")
        await passing(80)

        assert world.seen == ["+a", "-a"]


@in_virtual_time
async def test_a_server_that_ends_every_watch_at_once_is_listed_again() -> None:
    async with following("a") as world:
        await passing(2)
        world.api.instant_ends = 3
        world.api.end_watches()
        await world.delete("a")
        await passing(30)

        assert world.api.count("list") == 2
        assert world.seen == ["+a", "-a"]


@in_virtual_time
async def test_failures_are_retried_with_growing_pauses_of_up_to_half_a_minute() -> None:
    api = FakeApi(WIDGETS)
    api.fail("list", *[unreachable()] * 1000)
    async with following(api=api):
        await passing(31)
        early = api.count("list")
        await passing(3600)

        assert 4 <= early <= 6
        assert 110 <= api.count("list") - early <= 160


@in_virtual_time
async def test_too_many_requests_are_waited_out() -> None:
    api = FakeApi(WIDGETS)
    api.fail("list", too_many(timedelta(seconds=1)))
    async with following("a", api=api) as world:
        await passing(5)

        assert world.seen == ["+a"]


@in_virtual_time
async def test_informer_waits_for_a_kind_that_is_not_served_yet() -> None:
    api = FakeApi()
    async with following(api=api) as world:
        await passing(600)
        assert not world.informer.is_synced
        api.serve(WIDGETS)
        await world.create("a")
        await passing(31)

        assert world.seen == ["+a"]


@in_virtual_time
async def test_cache_is_kept_while_the_kind_is_not_served_and_follows_it_to_another_version() -> None:
    async with following("a") as world:
        await passing(2)
        world.api.unserve(WIDGETS)
        await passing(120)
        assert len(world.informer.cache) == 1
        newer = Resource("example.com", "v2", "Widget", "widgets", namespaced=True)
        world.api.serve(newer)
        await world.api.create(newer, widget("b"))
        await passing(31)

        assert world.informer.resource == newer
        assert world.seen == ["+a", "-a", "+b"]
        assert world.api.count("forget_discovery") == 1


@in_virtual_time
async def test_the_same_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    forbidden = Forbidden("list widgets: no", status=403, reason="Forbidden")
    api = FakeApi(WIDGETS)
    api.fail("list", *[forbidden] * 5, unreachable("no route"), forbidden)
    async with following(api=api):
        await passing(200)
        api.bookmark()
        await passing(1)

    texts = [record.message.partition(": ")[2] for record in caplog.records]
    assert texts == [
        "list widgets: no; trying again",
        "no route; trying again",
        "list widgets: no; trying again",
        "watching again",
    ]


@in_virtual_time
async def test_a_bug_is_logged_with_its_trace_and_the_informer_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi(WIDGETS)
    api.fail("watch", ZeroDivisionError("oops"))
    async with following("a", api=api) as world:
        await passing(5)
        await world.create("b")
        await passing(1)

        assert world.seen == ["+a", "+b"]
    assert "ZeroDivisionError: oops" in caplog.text


@in_virtual_time
async def test_a_subscriber_that_fails_stops_neither_the_informer_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(change: CacheChange) -> None:
        raise ZeroDivisionError(change.key.name)

    informer = Informer(api := FakeApi(WIDGETS), "example.com", "Widget")
    informer.subscribe(broken)
    world = World(api, informer)
    informer.subscribe(world.note)
    task = asyncio.create_task(informer.run())
    await world.create("a")
    await informer.synced()
    await world.create("b")
    await passing(1)
    task.cancel()

    assert world.seen == ["+a", "+b"]
    assert "ZeroDivisionError: b" in caplog.text


@in_virtual_time
async def test_an_object_that_cannot_be_trimmed_is_cached_completely(caplog: pytest.LogCaptureFixture) -> None:
    def trim(manifest: Manifest) -> Manifest:
        if manifest["metadata"]["name"] == "odd":
            raise KeyError("spec")
        return manifest

    async with following("a", "odd", "z", trim=trim) as world:
        await passing(1)

        assert world.seen == ["+a", "+odd", "+z"]
    assert "ns/odd cannot be trimmed" in caplog.text


@in_virtual_time
async def test_namespace_labels_and_metadata_only_reach_the_server() -> None:
    async with following("a", namespace="ns", labels="color=red", metadata_only=True) as world:
        await passing(1)
        kept = world.informer.cache.get(key("a"))
        calls = {verb: arguments for verb, arguments in world.api.calls if verb in {"list_metadata", "watch"}}

    assert kept is not None
    assert set(kept) == {"apiVersion", "kind", "metadata"}
    assert [(call["namespace"], call["labels"]) for call in calls.values()] == [("ns", "color=red")] * 2


@in_virtual_time
async def test_cache_has_the_indexes() -> None:
    async with following("a", "b", indexes={"color": lambda it: [it["spec"]["color"]]}) as world:
        await world.informer.synced()
        await world.paint("b", "blue")
        await passing(0.1)

        assert [found["metadata"]["name"] for found in world.informer.cache.by_index("color", "blue")] == ["b"]


DEEP = {"spec": {"unreadable": "is nested too deep"}}
"""Nothing of its spec is left."""

LESS_DEEP = {"spec": {"unreadable": "is nested too deep", "color": None, "size": 1}}


@pytest.mark.regression("SEC-1")
@in_virtual_time
async def test_an_unreadable_object_keeps_its_last_readable_version_and_affects_no_other() -> None:
    found = asyncio.Event()
    async with following("a", "b") as world:
        world.informer.on_unreadable = found.set
        await passing(1)
        world.take_seen()
        await world.api.merge_patch(WIDGETS, "a", {"spec": {"color": None, **DEEP["spec"]}}, "ns")
        await world.paint("b", "blue")
        await passing(1)

        assert world.take_seen() == ["~b"]
        assert world.informer.cache.get(key("a"))["spec"] == {"color": "red"}  # type: ignore[index]
        assert {name: one.why for name, one in world.informer.unreadable.items()} == {key("a"): "is nested too deep"}
        assert found.is_set()
        assert world.api.count("list") == 1

        await world.api.merge_patch(WIDGETS, "a", {"spec": {"unreadable": None, "color": "green"}}, "ns")
        await passing(1)
        assert world.take_seen() == ["~a"]
        assert not world.informer.unreadable


@pytest.mark.regression("SEC-1")
@in_virtual_time
async def test_a_list_with_an_unreadable_object_is_a_list() -> None:
    api = FakeApi(WIDGETS)
    await api.create(WIDGETS, widget("odd") | DEEP)
    async with following("a", api=api) as world:
        await world.informer.synced()

        assert world.seen == ["+a"]
        assert list(world.informer.unreadable) == [key("odd")]
        await world.delete("odd")
        await passing(1)
        assert not world.informer.unreadable
        assert world.seen == ["+a"]


@pytest.mark.regression("SEC-1")
@in_virtual_time
async def test_the_readable_part_of_an_object_is_cached_with_keep_unreadable() -> None:
    api = FakeApi(WIDGETS)
    await api.create(WIDGETS, widget("odd") | LESS_DEEP)
    await api.create(WIDGETS, widget("hopeless") | DEEP)
    indexes = {"size": lambda it: [str(it["spec"]["size"])]}
    async with following("a", api=api, keep_unreadable=True, indexes=indexes) as world:
        await world.informer.synced()

        assert world.take_seen() == ["+a", "+odd"]
        assert [found["metadata"]["name"] for found in world.informer.cache.by_index("size", "1")] == ["odd"]
        assert set(world.informer.unreadable) == {key("odd"), key("hopeless")}
        world.api.compact()
        world.api.end_watches()
        await passing(10)
        assert world.take_seen() == []
        await world.delete("odd")
        await passing(1)
        assert world.take_seen() == ["-odd"]


@pytest.mark.regression("SEC-1")
@in_virtual_time
async def test_another_object_under_the_name_of_an_unreadable_one_ends_the_old_one() -> None:
    async with following("a") as world:
        await passing(1)
        world.api.end_watches(unreachable())
        await passing(0.1)
        await world.delete("a")
        await world.api.create(WIDGETS, widget("a") | DEEP)
        world.api.compact()
        await passing(10)

        assert world.seen == ["+a", "-a"]
        assert list(world.informer.unreadable) == [key("a")]


@pytest.mark.regression("SEC-14")
@in_virtual_time
async def test_informer_that_fails_for_minutes_is_not_ready_and_is_logged_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = FakeApi(WIDGETS)
    async with following("a", api=api, clock=VirtualClock()) as world:
        await passing(100)
        assert sync_problem(world.informer) == ""
        api.fail("watch", *[unreachable("no route")] * 1000)
        api.end_watches()
        await passing(FAILURE_TOLERANCE.total_seconds() - 10)
        assert sync_problem(world.informer) == ""
        await passing(20)
        assert "no route" in sync_problem(world.informer)
        await passing(3 * REPEAT_INTERVAL.total_seconds())
        assert caplog.text.count("no route; trying again") == 4
        api.heal()
        await passing(60)
        api.bookmark()
        await passing(1)
        assert sync_problem(world.informer) == ""


def edited(manifest: Manifest, color: str, by: int) -> Manifest:
    """Return an object as a write returns it, so many resource versions later."""
    version = str(int(manifest["metadata"]["resourceVersion"]) + by)
    return {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": version}, "spec": {"color": color}}


@in_virtual_time
async def test_a_reader_sees_our_own_write_before_the_watch_does_and_no_older_version_afterwards() -> None:
    async with following("a") as world:
        await passing(1)
        world.take_seen()
        ours = edited(world.api.objects(WIDGETS)[key("a")], "blue", 10)

        world.informer.written(ours)
        await world.paint("a", "green")  # the watch is behind our write
        await passing(1)

        cached = world.informer.cache.get(key("a"))
        assert cached is not None
        assert cached["spec"] == {"color": "blue"}
        assert world.take_seen() == ["~a"]


@in_virtual_time
async def test_the_response_of_a_write_that_the_watch_has_passed_does_not_bring_a_deleted_object_back() -> None:
    async with following("a") as world:
        await passing(1)
        ours = edited(world.api.objects(WIDGETS)[key("a")], "blue", 1)
        await world.paint("a", "blue")
        await world.delete("a")
        await passing(1)

        world.informer.written(ours)

        assert world.informer.cache.get(key("a")) is None


@in_virtual_time
async def test_the_end_of_a_predecessor_does_not_end_the_object_that_we_created_in_its_place() -> None:
    async with following("a") as world:
        await passing(1)
        old = world.api.objects(WIDGETS)[key("a")]
        new = edited(old, "blue", 10)
        new["metadata"]["uid"] = "new"
        world.take_seen()

        world.informer.written(new)
        await world.delete("a")  # the watch sees it now
        await passing(1)

        assert world.informer.cache.get(key("a")) is not None
        assert world.take_seen() == ["-a", "+a"]


@in_virtual_time
async def test_own_write_is_as_good_as_a_read_for_a_moment_and_until_somebody_else_changes_the_object() -> None:
    async with following("a", "b", "c") as world:
        await passing(1)
        assert world.informer.just_written(key("a")) is None
        written = {name: edited(world.api.objects(WIDGETS)[key(name)], "blue", 10) for name in "abc"}
        for manifest in written.values():
            world.informer.written(manifest)
        assert world.informer.just_written(key("a")) == written["a"]

        for number in range(12):  # the versions of the server pass those of our writes
            await world.paint("b", f"red{number}")
        await world.delete("c")
        await passing(1)
        assert world.informer.just_written(key("b")) is None
        assert world.informer.just_written(key("c")) is None
        assert world.informer.just_written(key("a")) == written["a"]
        await passing(OWN_WRITE_SECONDS)
        assert world.informer.just_written(key("a")) is None


@in_virtual_time
async def test_an_object_that_cannot_be_read_or_is_elsewhere_is_not_followed() -> None:
    api = FakeApi(WIDGETS)
    await api.create(WIDGETS, widget("odd") | DEEP)
    async with following("a", api=api, namespace="ns") as world:
        assert not world.informer.follows(key("a"))
        await passing(1)
        assert world.informer.follows(key("a"))
        assert world.informer.follows(key("missing"))
        assert not world.informer.follows(key("odd"))
        assert not world.informer.follows(ObjectKey("elsewhere", "a"))
