from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import Expired
from clusterstacks.net.kube.resources import Resource
from clusterstacks.runtime.informer import CacheChange, Informer
from tests.support.fakes.api_server import FakeApi, too_many, unreachable
from tests.support.virtual_time import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from clusterstacks.model.objects import Manifest

WIDGETS = Resource("example.com", "v1", "Widget", "widgets", namespaced=True)
NAMES = st.sampled_from("abc")
COLORS = st.sampled_from(["red", "green", "blue"])
FAULTS = st.sampled_from(
    [
        too_many(timedelta(seconds=1)),
        unreachable(),
        Expired("too old", status=410, reason="Expired"),
        RuntimeError("a bug"),
    ]
)


def color_of(manifest: Manifest) -> list[str]:
    return [manifest["spec"]["color"]]


class InformerMachine(RuleBasedStateMachine):
    """Under any faults, notifications are consistent, and the settled cache equals the server."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner(loop_factory=VirtualLoop)
        self.api = FakeApi(WIDGETS)
        self.informer = Informer(self.api, "example.com", "Widget", indexes={"color": color_of})
        self.told: dict[ObjectKey, Manifest] = {}
        self.mistakes: list[CacheChange] = []
        self.informer.subscribe(self.check)
        self.task = self.run(self.start())

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)

    async def start(self) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.informer.run())

    def check(self, change: CacheChange) -> None:
        """Apply what was told to a copy; the informer would survive a failing subscriber, so mistakes are kept."""
        old, new = change.old, change.new
        if self.told.get(change.key) is not old or old is new:
            self.mistakes.append(change)
        if old is not None and new is not None:
            before, after = old["metadata"], new["metadata"]
            if before["uid"] != after["uid"] or before["resourceVersion"] == after["resourceVersion"]:
                self.mistakes.append(change)
        if new is None:
            self.told.pop(change.key, None)
        else:
            self.told[change.key] = new

    def exists(self, name: str) -> bool:
        return ObjectKey("ns", name) in self.api.objects(WIDGETS)

    @rule(name=NAMES, color=COLORS)
    def write(self, name: str, color: str) -> None:
        if self.exists(name):
            self.run(self.api.merge_patch(WIDGETS, name, {"spec": {"color": color}}, "ns"))
        else:
            metadata = {"name": name, "namespace": "ns"}
            self.run(self.api.create(WIDGETS, {"metadata": metadata, "spec": {"color": color}}))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if self.exists(name):
            self.run(self.api.delete(WIDGETS, name, "ns"))

    @rule(name=NAMES, color=COLORS)
    def another_object_takes_the_name_in_a_gap(self, name: str, color: str) -> None:
        self.api.end_watches(unreachable())
        self.run(asyncio.sleep(0.1))
        self.delete(name)
        self.write(name, color)
        self.api.compact()

    @rule(faults=st.lists(FAULTS, min_size=1, max_size=3), verb=st.sampled_from(["list", "watch", "resource"]))
    def calls_will_fail(self, faults: list[Exception], verb: str) -> None:
        self.api.fail(verb, *faults)

    @rule(error=st.none() | FAULTS)
    def watches_end(self, error: Exception | None) -> None:
        self.api.end_watches(error)

    @rule(number=st.integers(1, 5))
    def watches_will_end_at_once(self, number: int) -> None:
        self.api.instant_ends += number

    @rule()
    def watches_fall_silent(self) -> None:
        self.api.silence()

    @rule()
    def the_server_forgets_its_events(self) -> None:
        self.api.compact()

    @rule()
    def a_bookmark_comes(self) -> None:
        self.api.bookmark()

    @rule()
    def the_kind_goes(self) -> None:
        self.api.unserve(WIDGETS)

    @rule()
    def the_kind_comes_back(self) -> None:
        self.api.serve(WIDGETS)

    @rule(duration=st.sampled_from([0.0, 0.5, 3.0, 40.0, 100.0]))
    def time_passes(self, duration: float) -> None:
        self.run(asyncio.sleep(duration))

    @rule()
    def it_comes_to_rest(self) -> None:
        self.api.heal()
        self.api.serve(WIDGETS)
        self.run(asyncio.sleep(200))  # longer than a silence and the longest pause together

        server = self.api.objects(WIDGETS)
        assert {key: self.informer.cache.get(key) for key in self.informer.cache} == server
        assert self.informer.is_synced

    @invariant()
    def subscriber_and_store_agree(self) -> None:
        assert not self.task.done()
        assert not self.mistakes
        assert self.told == {key: self.informer.cache.get(key) for key in self.informer.cache}
        for color in ("red", "green", "blue"):
            found = self.informer.cache.by_index("color", color)
            assert len(found) == sum(color_of(manifest) == [color] for manifest in self.told.values())

    def teardown(self) -> None:
        try:
            self.it_comes_to_rest()
            self.subscriber_and_store_agree()
        finally:
            self.runner.close()


TestInformer = InformerMachine.TestCase
