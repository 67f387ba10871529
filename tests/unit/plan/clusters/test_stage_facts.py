"""What a management cluster shows about a release."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.names import parse_release
from clusterstacks.plan.clusters.stage_facts import observe_stage
from clusterstacks.release.signing.stage_evidence import StageFacts

NAME = parse_release("local-demo-1-35-v2")
OLD = "local-demo-1-35-v1"
DIGEST = f"sha256:{'a' * 64}"
DAY = "2026-11-2{}T12:00:00Z"
RELEASE = {"metadata": {"name": NAME.release, "namespace": "team"}, "status": {"digest": DIGEST}}


def cluster(name: str, class_name: str = NAME.class_name, running: str = "v1.35.4") -> dict[str, Any]:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"topology": {"classRef": {"name": class_name}, "version": "v1.35.4"}},
        "status": {"controlPlane": {"versions": [{"version": running}]}},
    }


def addon(
    name: str, *history: tuple[str, int], day: int = 1, delivered: str = NAME.class_name, **conditions: str
) -> dict[str, Any]:
    """Return a ClusterAddon; ``history`` has releases and days, newest first, each from the one below it."""
    entries = [
        {"release": release, "ended": DAY.format(on), "result": "Delivered", "fromRelease": before}
        for (release, on), (before, _) in zip(history, (*history[1:], ("", 0)), strict=False)
    ]
    states = {"Ready": "True", "Healthy": "True", "InSync": "True"} | conditions
    return {
        "metadata": {"name": f"cluster-addon-{name}", "namespace": "team"},
        "spec": {"clusterRef": {"name": name}, "clusterStack": delivered},
        "status": {
            "history": entries,
            "conditions": [
                {"type": kind, "status": status, "reason": "Why", "lastTransitionTime": DAY.format(day)}
                for kind, status in states.items()
                if status
            ],
        },
    }


def observed(
    *pairs: tuple[dict[str, Any], dict[str, Any]], releases: Any = (RELEASE,), digest: str = DIGEST
) -> StageFacts:
    clusters, addons = ([*one] for one in zip(*pairs, strict=True)) if pairs else ([], [])
    return observe_stage(NAME, digest, clusters=clusters, addons=addons, releases=[*releases], not_read=["secret"])


def test_all_clusters_of_the_release_are_counted_since_the_last_became_well() -> None:
    facts = observed(
        (cluster("one"), addon("one", (NAME.release, 3), (OLD, 1))),
        (cluster("two", running="v1.35.5"), addon("two", day=5)),
        (cluster("other", OLD), addon("other", (OLD, 1), delivered=OLD, Ready="False")),
    )

    assert facts == StageFacts(
        clusters={"v1.35.4": 1, "v1.35.5": 1},
        since=DAY.format(5),
        upgrades={(OLD, NAME.release, "Delivered"): 1},
        not_read=("secret",),
    )


@pytest.mark.parametrize(
    ("history", "since"),
    [
        ([(NAME.release, 4), (OLD, 1)], 4),
        # A later delivery of other values does not begin anew, a return to the release does.
        ([(NAME.release, 6), (NAME.release, 4), (OLD, 1)], 4),
        ([(NAME.release, 6), (OLD, 5), (NAME.release, 2)], 6),
        # After clusterctl move there is no history, and the conditions are new.
        ([], 3),
    ],
)
def test_time_on_another_release_does_not_count(history: list[tuple[str, int]], since: int) -> None:
    """The conditions stayed True during the upgrade."""
    assert observed((cluster("one"), addon("one", *history, day=3))).since == DAY.format(max(since, 3))


@pytest.mark.parametrize(
    ("its_addon", "trouble"),
    [
        (addon("one", Ready="False"), "team/one: Ready is False: Why"),
        (addon("one", Healthy="False"), "team/one: Healthy is False: Why"),
        (addon("one", InSync="Unknown"), "team/one: InSync is Unknown: Why"),
        (addon("one", InSync=""), "team/one: InSync is not reported"),
        (addon("one", delivered=OLD), "team/one: the addons of the release are not delivered yet"),
    ],
)
def test_one_cluster_that_is_not_well_ends_the_soak_of_all(its_addon: dict[str, Any], trouble: str) -> None:
    facts = observed((cluster("one"), its_addon), (cluster("two"), addon("two")))

    assert facts.troubles == (trouble,)
    assert facts.since == ""
    assert facts.clusters == {"v1.35.4": 2}


def test_clusters_that_run_other_files_of_the_release_are_no_proof() -> None:
    moved = observed((cluster("one"), addon("one")), digest="sha256:other")
    unread = observed((cluster("one"), addon("one")), releases=())

    assert moved.troubles == (f"team/one: its ClusterStackRelease has the content {DIGEST}",)
    assert unread.troubles == ("team/one: its ClusterStackRelease cannot be read",)


def test_release_without_clusters_has_no_soak() -> None:
    facts = observed()

    assert (facts.clusters, facts.since, facts.troubles) == ({}, "", ())
