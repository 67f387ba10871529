from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.names import ReleaseName, parse_release
from clusterstacks.plan.clusters.cluster_summary import ClusterSummary, summarize
from clusterstacks.plan.clusters.release_groups import group_by_release, newer_releases


def release(name: str, *, ready: bool = True) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "status": {"ready": ready, "kubernetesVersion": "v1.35.4"},
    }


def cluster(name: str, wanted: str, delivered: str = "", namespace: str = "team-a") -> ClusterSummary:
    topology = {"classRef": {"name": wanted, "namespace": "default"}, "version": "v1.35.4"}
    manifest = {"metadata": {"name": name, "namespace": namespace}, "spec": {"topology": topology}}
    return summarize(manifest, {"spec": {"clusterRef": {"name": name}, "clusterStack": delivered}})


V1, V2, V3 = (f"local-demo-1-35-v{number}" for number in (1, 2, 3))


def test_each_cluster_is_in_the_row_of_the_release_that_it_has() -> None:
    clusters = [
        cluster("stays", V1, V1),
        cluster("moves", V3, V1),
        cluster("new", V3),
        cluster("mine", "my-class"),
        cluster("orphan", "local-gone-1-35-v1", "local-gone-1-35-v1"),
    ]

    found = group_by_release([release(V1), release(V2, ready=False), release(V3)], clusters)

    assert [
        (
            one.name.release,
            one.exists,
            one.ready,
            one.kubernetes,
            one.newer_versions(),
            [cluster.key.name for cluster in one.clusters],
        )
        for one in found
    ] == [
        (V1, True, True, "v1.35.4", ["v3"], ["moves", "stays"]),
        (V2, True, False, "v1.35.4", ["v3"], []),
        (V3, True, True, "v1.35.4", [], ["new"]),
        ("local-gone-1-35-v1", False, False, "", [], ["orphan"]),
    ]


@pytest.mark.parametrize(
    ("own", "ready", "newer"),
    [
        (V1, [V1], []),
        (V1, [V3, V2], [V3]),
        (V3, [V1, V2], []),
        (V2, ["local-demo-1-36-v1", "local-demo-1-37-v9", V3], [V3, "local-demo-1-36-v1"]),
        (V1, ["local-other-1-35-v2", "local-demo-1-35-v2-beta-1", "other-demo-1-35-v2"], []),
    ],
)
def test_newest_release_of_the_same_and_of_the_next_minor_is_newer(
    own: str, ready: list[str], newer: list[str]
) -> None:
    names = [parse_release(one) for one in ready]

    assert [one.release for one in newer_releases(parse_release(own), names)] == newer


NAMES = st.builds(
    lambda minor, version: parse_release(f"local-demo-1-{minor}-v{version}"), st.integers(30, 33), st.integers(1, 9)
)


@given(NAMES, st.lists(NAMES))
def test_newer_releases_are_ready_and_at_most_one_for_each_minor(own: ReleaseName, ready: list[ReleaseName]) -> None:
    newer = newer_releases(own, ready)

    assert {*newer} <= {*ready} - {own}
    assert len({one.kubernetes for one in newer}) == len(newer) <= 2
