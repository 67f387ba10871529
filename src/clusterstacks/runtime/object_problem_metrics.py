"""Metrics of objects that need attention: their number, and within a bound the objects themselves.

They are computed at each scrape. An alert can name the object, and the number of series has a limit however many
objects there are.
"""

from __future__ import annotations

import heapq
from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client import Metric

NAMED_OBJECTS: Final = 100
"""Series that name an object, by kind: those of the objects that have had a problem longest. Arbitrary: more than a
person reads in an alert."""

REASONS: Final = 20
"""Reasons by kind and problem; the rest is counted as other. A kind has fewer; but who may write the status of an
object chooses the reason."""

REASON_CHARACTERS: Final = 64
"""Longest reason in a label (arbitrary; ours have 40 at most)."""

NOT_READY: Final = "Ready"
"""The problem of an object that is not ready."""


class ObjectProblem(NamedTuple):
    """A problem of one object.

    Args:
        namespace: Namespace of the object.
        name: Its name.
        problem: Type of the condition that is not True, or another of a few fixed names.
        reason: Why.
        since: Unix time since when; 0 if that is not known.
    """

    namespace: str
    name: str
    problem: str
    reason: str
    since: float


class ObjectProblemMetrics(Collector):
    """The problems of the objects of all kinds."""

    def __init__(self) -> None:
        self._finders: dict[str, Callable[[], Iterable[ObjectProblem]]] = {}

    def watch(self, kind: str, find: Callable[[], Iterable[ObjectProblem]]) -> None:
        """Call ``find`` at each scrape, from another thread."""
        self._finders[kind] = find

    def describe(self) -> Iterator[Metric]:
        """Return the metrics without series: registering must not call the finders."""
        yield from _families()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        not_ready, not_ready_since, problems, named = families = _families()
        for kind, find in self._finders.items():
            found = [one._replace(reason=one.reason[:REASON_CHARACTERS]) for one in find()]
            unready = [one for one in found if one.problem == NOT_READY]
            not_ready.add_metric((kind,), len(unready))
            not_ready_since.add_metric((kind,), min((one.since for one in unready if one.since), default=0.0))
            for (problem, reason), number in _by_reason(found).items():
                problems.add_metric((kind, problem, reason), number)
            for one in _longest(found):
                named.add_metric((kind, one.namespace, one.name, one.problem, one.reason), one.since)
        yield from families


def _families() -> tuple[GaugeMetricFamily, ...]:
    return (
        GaugeMetricFamily(
            "clusterstacks_not_ready_objects", "Objects whose condition Ready is not True, by kind.", labels=("kind",)
        ),
        GaugeMetricFamily(
            "clusterstacks_not_ready_since_timestamp_seconds",
            "Unix time since which the oldest object of a kind that is not ready is not ready; 0 if all are ready.",
            labels=("kind",),
        ),
        GaugeMetricFamily(
            "clusterstacks_object_problems",
            "Objects with a problem by kind, problem and reason: a condition (Ready, Healthy, InSync, WithinRanges) "
            "that is not True, or UpgradeHeld while it holds an upgrade. Reasons beyond the "
            f"{REASONS} most frequent are other.",
            labels=("kind", "problem", "reason"),
        ),
        GaugeMetricFamily(
            "clusterstacks_object_problem_since_timestamp_seconds",
            "Unix time since which an object has a problem, 0 if not known; at most "
            f"{NAMED_OBJECTS} series of each kind, those that have had one longest.",
            # A Prometheus that scrapes pods gives its own labels "namespace" and "pod" to every series.
            labels=("kind", "object_namespace", "object_name", "problem", "reason"),
        ),
    )


def _by_reason(problems: Iterable[ObjectProblem]) -> Counter[tuple[str, str]]:
    """Count the objects by problem and reason."""
    found = Counter((one.problem, one.reason) for one in problems)
    bounded: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    for (problem, reason), number in found.most_common():
        reasons[problem] += 1
        bounded[problem, reason if reasons[problem] <= REASONS else "other"] += number
    return bounded


def _longest(problems: Iterable[ObjectProblem]) -> list[ObjectProblem]:
    """Return the problems that get series of their own."""
    return heapq.nsmallest(NAMED_OBJECTS, problems, key=attrgetter("since"))
