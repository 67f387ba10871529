"""Dispatch of requests by kind, the metric of decisions and the event of an overridden denial."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.webhooks.cluster_validator import ClusterValidator
from clusterstacks.operator.webhooks.dispatch import EVENTS as MOST_EVENTS
from clusterstacks.operator.webhooks.dispatch import REFUSALS_LOGGED, Validator
from clusterstacks.operator.webhooks.suggestions import Suggester
from clusterstacks.plan.clusters.provider_rules import ProviderRules
from clusterstacks.plan.compat.verdicts import NOTHING_KNOWN
from clusterstacks.runtime.cache import ObjectCache
from clusterstacks.runtime.events import EventRecorder
from tests.support.builders.admission import (
    GROUP,
    Given,
    Noon,
    cluster,
    own_kinds,
    put,
    review,
    stack,
    stored,
)
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import Manifest


EVENTS = Resource("", "v1", "Event", "events", namespaced=True)
ESCAPED = {"allow-incompatible": "drill"}


def let_through(uid: str = "u7", generation: int = 1, name: str = "one") -> Manifest:
    """A Cluster that only the escape annotation lets through."""
    found = cluster(version="v1.36.1", **ESCAPED)
    found["metadata"] |= {"name": name, "uid": uid, "generation": generation}
    return found


async def events_of(
    suggester: Suggester,
    *asked: Manifest,
    live: ObjectCache,
    between: Callable[[], None] = lambda: None,
    pause: float = 60,
) -> list[Manifest]:
    """Validate each Cluster, with pauses in between, and return the events written until a minute after the last."""
    api, clock = FakeApi(EVENTS), VirtualClock()
    clusters = ClusterValidator(
        releases=Given(), rules=ProviderRules(Noon()).counting, upstream=NOTHING_KNOWN, suggester=suggester
    )
    recorder = EventRecorder(api, "operator", clock=clock)
    validator = Validator(await own_kinds(), clusters, recorder, live, clock)
    for one in asked:
        question = replace(review(one, cluster(), CLUSTER_KIND), group=CLUSTER_API_GROUP)
        assert (await validator.validate(question)).excused
        await asyncio.sleep(0.1)
        between()
        await asyncio.sleep(pause)
    await asyncio.sleep(60)
    await validator.close()
    return list(api.objects(EVENTS).values())


@in_virtual_time
async def test_overridden_denial_is_an_event_once_the_cluster_is_written(suggester: Suggester) -> None:
    live = ObjectCache()
    found = let_through()

    events = await events_of(suggester, found, live=live, between=lambda: put(live, found))

    assert [(one["reason"], one["involvedObject"]["uid"]) for one in events] == [("IncompatibleAllowed", "u7")]
    assert "drill" in events[0]["message"]


@pytest.mark.regression("SEC-6")
@pytest.mark.parametrize(
    "there",
    [
        None,
        let_through("another"),
        {**let_through(), "metadata": {**let_through()["metadata"], "annotations": {}}},
        {**let_through(), "spec": cluster()["spec"]},
    ],
)
@in_virtual_time
async def test_forged_review_writes_no_event(suggester: Suggester, there: Manifest | None) -> None:
    assert await events_of(suggester, let_through(), live=stored(*([there] if there else []))) == []


@pytest.mark.regression("SEC-6")
@in_virtual_time
async def test_repeated_review_writes_one_event(suggester: Suggester) -> None:
    live = stored(let_through())

    events = await events_of(suggester, *[let_through()] * 5, let_through(generation=2), live=live)
    assert len(events) == 1
    put(live, let_through(generation=3))
    assert len(await events_of(suggester, let_through(generation=3), live=live)) == 1


@pytest.mark.regression("SEC-6")
@in_virtual_time
async def test_flood_of_allowed_clusters_writes_a_limited_number_of_events(suggester: Suggester) -> None:
    flood = [let_through(f"u{number}", name=f"c{number}") for number in range(3 * MOST_EVENTS)]

    events = await events_of(suggester, *flood, live=stored(*flood), pause=0)

    assert MOST_EVENTS <= len(events) < 2 * MOST_EVENTS


async def test_close_cancels_pending_events(suggester: Suggester) -> None:
    clusters = ClusterValidator(
        releases=Given(), rules=ProviderRules(Noon()).counting, upstream=NOTHING_KNOWN, suggester=suggester
    )
    validator = Validator(await own_kinds(), clusters, EventRecorder(FakeApi(EVENTS), "operator"), ObjectCache())
    assert (
        await validator.validate(replace(review(let_through(), cluster(), CLUSTER_KIND), group=CLUSTER_API_GROUP))
    ).excused

    await asyncio.wait_for(validator.close(), 30)  # the event would be awaited for a minute


@pytest.mark.regression("USER-18")
async def test_a_refusal_is_logged_and_a_flood_of_them_is_not(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clusters = ClusterValidator(
        releases=Given(), rules=ProviderRules(Noon()).counting, upstream=NOTHING_KNOWN, suggester=Suggester()
    )
    validator = Validator(await own_kinds(), clusters, EventRecorder(FakeApi(EVENTS), "operator"), ObjectCache())
    refused = replace(review(stack("x", noProvider=False)), group=GROUP, kind="ClusterStack")
    for _ in range(3 * REFUSALS_LOGGED):
        assert (await validator.validate(refused)).refusal

    assert REFUSALS_LOGGED <= len(caplog.messages) < 2 * REFUSALS_LOGGED
    assert caplog.messages[0].startswith(f"{refused.operation} of ClusterStack ")
    assert "x is refused: " in caplog.messages[0]


@pytest.mark.regression("LIVE-M1")
async def test_decisions_are_counted_only_for_reviewed_kinds() -> None:
    clusters = ClusterValidator(
        releases=Given(), rules=ProviderRules(Noon()).counting, upstream=NOTHING_KNOWN, suggester=Suggester()
    )
    decided: list[tuple[str, str]] = []
    events = EventRecorder(FakeApi(EVENTS), "operator")
    own = await own_kinds(seen=(stack(),))
    validator = Validator(
        own, clusters, events, ObjectCache(), decided=lambda kind, decision: decided.append((kind, decision))
    )
    for name, manifest in (("ClusterStack", stack("twin")), ("ClusterStack", stack("x", noProvider=False))):
        await validator.validate(replace(review(manifest), group=GROUP, kind=name))
    await validator.validate(replace(review(stack("other", provider="q")), group=GROUP, kind="ClusterStack"))
    await validator.validate(replace(review(stack()), group="example.org", kind="Made-up"))

    assert decided == [("ClusterStack", "warned"), ("ClusterStack", "refused"), ("ClusterStack", "allowed")]
