"""ClusterUpgrades as the command line names them."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.csctl.shared.upgrade_objects import UpgradeRequest, parse_labels, parse_window
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterupgrade import ClusterUpgrade


def request(**given: Any) -> UpgradeRequest:
    return UpgradeRequest(**{"namespace": "team", "to": "v1.36.3", **given})


@pytest.mark.parametrize(
    ("written", "window"),
    [
        (
            "Sat,Sun 02:00+4h Europe/Berlin",
            {"days": ["Sat", "Sun"], "start": "02:00", "duration": "4h", "timeZone": "Europe/Berlin"},
        ),
        ("02:00+4h", {"start": "02:00", "duration": "4h"}),
        ("23:30+1h30m UTC", {"start": "23:30", "duration": "1h30m", "timeZone": "UTC"}),
        (" Mon  00:00+168h ", {"days": ["Mon"], "start": "00:00", "duration": "168h"}),
    ],
)
def test_window_is_written_in_one_word(written: str, window: dict[str, object]) -> None:
    assert parse_window(written) == window
    ClusterUpgrade.parse(request(cluster="prod", window=written).manifest())


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("Sat", "is not understood (expected days, start, duration and time zone"),
        ("Sat 02:00", "is not understood"),
        ("Sat 02:00-06:00", "is not understood"),
        ("Sat 25:00+4h", "start"),
        ("Sat 02:00+0h", "more than zero"),
        ("Sat 02:00+169h", "at most a week"),
        ("Sat 02:00+4h Europe/Berln", "did you mean Europe/Berlin"),
        ("Sunday 02:00+4h", "Sun"),
        ("Sat 02:00+4days", "duration"),
    ],
)
def test_window_that_cannot_be_used_is_refused_with_what_can(written: str, words: str) -> None:
    with pytest.raises(SpecError) as refused:
        request(cluster="prod", window=written).manifest()
    assert words in refused.value.message


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ("ring=canary", {"ring": "canary"}),
        ("ring=canary, example.org/team=", {"ring": "canary", "example.org/team": ""}),
    ],
)
def test_selector_is_a_list_of_labels(written: str, labels: dict[str, str]) -> None:
    assert parse_labels(written) == labels
    ClusterUpgrade.parse(request(labels=written).manifest())


@pytest.mark.parametrize("written", ["a in (b)", "a!=b", "!a", "a=b,", "=b", "a>1", "a b", "a=b=c"])
def test_selector_that_is_not_understood_names_the_part_and_an_example(written: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_labels(written)
    assert "expected for example ring=canary,team=a" in refused.value.message


@pytest.mark.parametrize("to", ["latest1", "1-36", "v1", "newest", "openstack-scs"])
def test_target_that_is_neither_release_nor_version_is_refused(to: str) -> None:
    with pytest.raises(SpecError):
        request(cluster="prod", to=to).manifest()


@pytest.mark.parametrize("to", ["latest", "latestPatch", "v1.36.3", "openstack-scs-1-36-v2"])
def test_targets_of_the_kind_are_accepted(to: str) -> None:
    assert request(cluster="prod", to=to).manifest()["spec"] == {"clusters": {"names": ["prod"]}, "to": to}


def test_name_is_readable_and_the_same_for_the_same_clusters_and_target() -> None:
    assert request(cluster="prod").name == "prod-v1.36.3"
    assert request(cluster="prod", to="latestPatch").name == "prod-latestpatch"
    assert request(labels="ring=canary").name == "ring-canary-v1.36.3"
    odd = [request(labels=labels).name for labels in ("a=B", "a=b", "a=b_", "a=-b", "a/b=c", "x" * 300 + "=1")]
    assert len(set(odd)) == len(odd)
    assert all(len(name) <= 100 for name in odd)
    assert odd[0] == request(labels="a=B").name


def test_number_of_clusters_and_window_are_written_only_if_given() -> None:
    spec = request(labels="ring=canary", most=5, window="02:00+4h").manifest()["spec"]
    assert spec == {
        "clusters": {"selector": {"matchLabels": {"ring": "canary"}}},
        "to": "v1.36.3",
        "maxConcurrent": 5,
        "window": {"start": "02:00", "duration": "4h"},
    }
