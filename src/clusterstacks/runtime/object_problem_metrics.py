"""Metrics of objects that need attention: their number, and within a bound the objects themselves.

They are computed at each scrape. An alert can name the object, and the number of series is bounded.
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
"""Reasons by kind and problem; the rest is counted as other. Kinds have fewer, but every writer of a status can invent
reasons."""

REASON_CHARACTERS: Final = 64
"""Longest reason in a label (arbitrary; ours have 40 at most)."""

NOT_READY: Final = "Ready"


class ObjectProblem(NamedTuple):
    """A condition of one object that is not True, or another problem with a fixed name."""

    namespace: str
    name: str
    problem: str
    reason: str
    since: float
    """Unix time; 0 if it is not known."""


class ObjectProblemMetrics(Collector):
    """Collects the problems of the objects of all kinds."""

    def __init__(self) -> None:
        self._finders: dict[str, Callable[[], Iterable[ObjectProblem]]] = {}

    def watch(self, kind: str, find: Callable[[], Iterable[ObjectProblem]]) -> None:
        """Call ``find`` for the problems of a kind at each scrape, from another thread."""
        self._finders[kind] = find

    def describe(self) -> Iterator[Metric]:
        """Return the metrics without series: registration must not call the finders."""
        yield from _families()

    def collect(self) -> Iterator[Metric]:
        """Return the metrics with their series; calls the finders."""
        not_ready, not_ready_since, by_reason, named = families = _families()
        for kind, find in self._finders.items():
            problems = [problem._replace(reason=problem.reason[:REASON_CHARACTERS]) for problem in find()]
            unready = [problem for problem in problems if problem.problem == NOT_READY]
            not_ready.add_metric((kind,), len(unready))
            not_ready_since.add_metric(
                (kind,), min((problem.since for problem in unready if problem.since), default=0.0)
            )
            for (problem_type, reason), number in _by_reason(problems).items():
                by_reason.add_metric((kind, problem_type, reason), number)
            for problem in _longest(problems):
                labels = (kind, problem.namespace, problem.name, problem.problem, problem.reason)
                named.add_metric(labels, problem.since)
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
    """Count the objects by problem and reason; rare reasons of a problem are counted together."""
    counts = Counter((problem.problem, problem.reason) for problem in problems)
    bounded: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    for (problem, reason), number in counts.most_common():
        reasons[problem] += 1
        bounded[problem, reason if reasons[problem] <= REASONS else "other"] += number
    return bounded


def _longest(problems: Iterable[ObjectProblem]) -> list[ObjectProblem]:
    """Return the problems that get series of their own: those that have existed longest."""
    return heapq.nsmallest(NAMED_OBJECTS, problems, key=attrgetter("since"))
