"""The addons' state on the Cluster, whose conditions Cluster API writes at the same time."""

from __future__ import annotations

from datetime import UTC, datetime

from clusterstacks.controllers.clusteraddon.mirror import mirror, withdraw
from clusterstacks.domain.conditions import Condition
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.domain.outcomes import Settled
from clusterstacks.kube.resources import Resource
from tests.support.fake_api import FakeApi

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
NOW = datetime(2026, 11, 21, tzinfo=UTC)


async def raced(**changed: int) -> tuple[FakeApi, Manifest]:
    """Return a server and a Cluster as it was read just before Cluster API wrote to it."""
    api = FakeApi(CLUSTERS)
    read = await api.create(
        CLUSTERS,
        {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {"name": "one", "namespace": "team", "generation": 1},
        },
    )
    patch = {"metadata": changed, "status": {"conditions": [{"type": "Available", "status": "True"}]}}
    await api.merge_patch(CLUSTERS, "one", patch, "team")
    return api, read


def conditions(api: FakeApi) -> dict[str, str]:
    cluster = api.objects(CLUSTERS)[ObjectKey("team", "one")]
    return {one["type"]: one["status"] for one in cluster["status"]["conditions"]}


async def test_a_condition_that_cluster_api_writes_meanwhile_costs_us_neither_it_nor_ours() -> None:
    api, read = await raced()

    await mirror(api, read, Settled(), NOW)
    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}

    await withdraw(api, read | {"status": {"conditions": [{"type": "ClusterStackAddonsReady", "status": "True"}]}})
    assert conditions(api) == {"Available": "True"}


async def test_nothing_is_said_about_a_specification_that_nobody_has_looked_at() -> None:
    api, read = await raced(generation=2)

    await mirror(api, read, Settled(), NOW)

    assert conditions(api) == {"Available": "True"}


async def test_what_speaks_against_the_versions_is_told_beside_in_one_write_and_only_while_it_does() -> None:
    api, read = await raced()
    outside = Condition("WithinRanges", "False", "OutsideRanges", "cilium leaks")

    await mirror(api, read, Settled(), NOW, outside)
    ours = {"ClusterStackAddonsReady": "True", "ClusterStackWithinRanges": "False"}
    assert conditions(api) == {"Available": "True", **ours}
    written = api.objects(CLUSTERS)[ObjectKey("team", "one")]

    await mirror(api, written, Settled(), NOW, outside)
    assert api.objects(CLUSTERS)[ObjectKey("team", "one")] == written

    await mirror(api, written, Settled(), NOW, Condition("WithinRanges", "True"))
    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}
