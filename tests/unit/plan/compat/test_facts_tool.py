"""``make facts``: what is stale, and what can be derived."""

from __future__ import annotations

from datetime import date

import pytest

from clusterstacks.model.semver import SemVer
from clusterstacks.plan.compat.library import facts
from tools.facts import Newest, proposal, state_of


@pytest.mark.parametrize(
    ("component", "newest", "today", "state"),
    [
        ("flux", Newest(SemVer(2, 9, 5)), date(2026, 11, 28), "1 days"),
        ("flux", Newest(SemVer(2, 10, 0)), date(2026, 11, 28), "1 days; no statement about 2.10.0"),
        ("openstack-resource-controller", Newest(SemVer(2, 6, 1)), date(2026, 11, 28), "1 days"),
        ("flux", "no registry has it", date(2027, 3, 1), "stale, 94 days; no registry has it"),
    ],
)
def test_state_names_the_age_and_the_release_that_is_missing(
    component: str, newest: Newest | str, today: date, state: str
) -> None:
    assert state_of(facts().components[component], newest, today) == state


def test_proposal_has_what_the_chart_says() -> None:
    newest = Newest(SemVer(3, 8, 0), chart="42.0.0", kubernetes=">=1.27")

    entries = proposal(facts().components["argo-cd"], newest)

    assert entries["charts"] == [{"map": [{"chart": "42.0.0", "app": "3.8.0"}]}]
    assert entries["versions"] == [
        {
            "version": "3.8",
            "kind": "documented",
            "kubernetesHard": ">=1.27",
            "hardSource": "chart",
            "source": "READ THE PROJECT'S PAGE",
        }
    ]
    assert proposal(facts().components["flux"], Newest(SemVer(2, 9, 5)))["versions"] == []
