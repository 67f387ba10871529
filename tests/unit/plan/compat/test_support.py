"""Dates at which versions leave support; today is always given."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest

from clusterstacks.model.semver import SemVer
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.plan.compat.library import facts
from clusterstacks.plan.compat.support import (
    SOON_DAYS,
    SupportEnd,
    SupportState,
    Uses,
    calendar,
    supported_version,
)
from clusterstacks.plan.compat.support_facts import kubernetes_facts, support_ends
from tests.support.planner_oracle import candidate

DAY = date(2026, 10, 27)
END = SupportEnd(DAY, "https://example.org/1.34", "2026-11-20")
OLD, MIDDLE, NEW, UNHEARD = (KubernetesMinor(1, minor) for minor in (34, 35, 36, 99))
MINORS = {OLD: END, MIDDLE: replace(END, day=date(2027, 2, 28)), NEW: replace(END, day=date(2027, 6, 28))}


@pytest.mark.parametrize(
    ("left", "state", "told"),
    [
        (400, SupportState.SUPPORTED, "leaves support on 2026-10-27 (in 400 days)"),
        (SOON_DAYS + 1, SupportState.SUPPORTED, "leaves support on 2026-10-27 (in 61 days)"),
        (SOON_DAYS, SupportState.ENDS_SOON, "leaves support on 2026-10-27 (in 60 days)"),
        (1, SupportState.ENDS_SOON, "leaves support on 2026-10-27 (in 1 day)"),
        (0, SupportState.ENDS_SOON, "leaves support on 2026-10-27 (today)"),
        (-1, SupportState.ENDED, "left support on 2026-10-27 (1 day ago)"),
        (-40, SupportState.ENDED, "left support on 2026-10-27 (40 days ago)"),
    ],
)
def test_state_and_words_depend_on_the_days_that_are_left(left: int, state: SupportState, told: str) -> None:
    today = DAY - timedelta(days=left)
    assert (END.days(today), END.state(today), END.told(today)) == (left, state, told)


def test_words_without_the_distance_change_only_after_the_end() -> None:
    words = [END.dated(DAY + timedelta(days=day)) for day in range(-500, 500)]
    assert len({*words[:501]}) == len({*words[501:]}) == 1
    assert len({*words}) == 2


def component(version: str, name: str = "cilium") -> Any:
    stated = {"kubernetes": ">=1.30", "components": [{"name": name, "addon": "cni", "version": version}]}
    compatibility = candidate("p-s-1-34-v1", "v1.34.2", stated).compatibility
    assert compatibility is not None
    (found,) = compatibility.of_addon("cni")
    return found


def test_the_calendar_has_each_version_once_the_first_to_end_first_and_unknown_ones_last() -> None:
    uses = [
        Uses("team/b", MIDDLE, (component("1.17.2"),)),
        Uses("team/a", OLD, (component("1.17.2"), component("3.0.0", "mine"))),
        Uses("team/c", OLD),
        Uses("team/d", UNHEARD),
        Uses("team/e", None),
    ]

    found = calendar(uses, MINORS, lambda name, _: replace(END, day=date(2027, 1, 1)) if name == "cilium" else None)

    assert [(one.told(DAY), one.used(), one.users) for one in found] == [
        ("Kubernetes 1.34 leaves support on 2026-10-27 (today)", "2 Clusters", ("team/a", "team/c")),
        ("cilium 1.17.2 leaves support on 2027-01-01 (in 66 days)", "2 Clusters", ("team/b", "team/a")),
        ("Kubernetes 1.35 leaves support on 2027-02-28 (in 124 days)", "1 Cluster", ("team/b",)),
        ("Kubernetes 1.99: no fact is known", "1 Cluster", ("team/d",)),
        ("mine 3.0.0: no fact is known", "1 Cluster", ("team/a",)),
    ]
    assert found[-1].document(DAY)["state"] == "Unknown"
    assert found[0].document(DAY) == {
        "name": "Kubernetes",
        "version": "1.34",
        "state": "SupportEndsSoon",
        "supportEnds": "2026-10-27",
        "days": 0,
        "source": "https://example.org/1.34",
        "read": "2026-11-20",
        "usedBy": ["team/a", "team/c"],
    }


@pytest.mark.parametrize(
    ("offered", "today", "nearest"),
    [
        pytest.param(["v1.34.2", "v1.35.1", "v1.35.4", "v1.36.3"], date(2026, 11, 1), "v1.35.4", id="newest patch"),
        pytest.param(["v1.35.4", "v1.36.3"], date(2027, 2, 1), "v1.36.3", id="1.35 ends soon as well"),
        pytest.param(["v1.34.9", "v1.99.0"], date(2026, 11, 1), None, id="no fact about a minor"),
        pytest.param(["v1.35.4", "v1.36.3"], date(2028, 1, 1), None, id="all have left"),
    ],
)
def test_the_way_leads_to_the_nearest_minor_that_stays_supported(
    offered: list[str], today: date, nearest: str | None
) -> None:
    versions = tuple(map(KubernetesVersion.parse, offered))
    listed = replace(candidate("p-s-1-34-v1", "v1.34.2", None), class_versions=versions)

    found = supported_version(OLD, [listed], MINORS, today)

    assert (found.text if found else None) == nearest


def test_every_released_minor_has_an_end_with_a_source_and_its_day() -> None:
    ends = support_ends()
    assert len(ends) == len(kubernetes_facts()["releases"])
    for end in ends.values():
        assert end.source.startswith("https://")
        assert date.fromisoformat(end.read) <= date(2100, 1, 1)
    assert ends[OLD].day == DAY


def test_the_end_of_an_addon_is_that_of_its_series_by_the_source_of_its_life_cycle() -> None:
    known = facts()
    end = known.support_end("cert-manager", SemVer.parse("1.19.2"))
    assert end is not None
    assert (end.day, end.source.startswith("https://")) == (date(2026, 7, 8), True)
    assert known.support_end("cert-manager", SemVer.parse("1.21.0")) is None
    assert known.support_end("unheard-of", SemVer.parse("1.0.0")) is None
