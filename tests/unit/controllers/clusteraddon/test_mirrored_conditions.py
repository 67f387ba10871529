"""The addons' state on the Cluster, whose conditions Cluster API writes at the same time."""

from __future__ import annotations

from datetime import UTC, datetime

from clusterstacks.controllers.clusteraddon.mirrored_conditions import mirror, withdraw
from clusterstacks.domain.conditions import Condition
from clusterstacks.domain.objects import Manifest, ObjectKey
from clusterstacks.domain.outcomes import Settled, Waiting
from clusterstacks.kube.errors import NotFound
from clusterstacks.kube.resources import Resource
from tests.support.fakes.api_server import FakeApi

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
NOW = datetime(2026, 11, 21, tzinfo=UTC)
BEGINNING = Waiting("RollingOut", "the addons of class a give way to those of b")


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


async def both(**changed: int) -> tuple[FakeApi, Manifest]:
    """Return a server and a Cluster with our condition, as it was read just before Cluster API wrote another one."""
    api, _ = await raced()
    read, _ = await mirror(api, api.objects(CLUSTERS)[ObjectKey("team", "one")], BEGINNING, NOW)
    available, ours = read["status"]["conditions"]
    patch = {"metadata": changed, "status": {"conditions": [available | {"status": "False"}, ours]}}
    await api.merge_patch(CLUSTERS, "one", patch, "team")
    api.calls.clear()
    return api, read


async def test_a_condition_that_is_there_is_replaced_in_one_request_whatever_cluster_api_writes_meanwhile() -> None:
    api, read = await both()

    after, is_news = await mirror(api, read, Settled(), NOW)

    assert is_news
    assert after == api.objects(CLUSTERS)[ObjectKey("team", "one")]
    assert conditions(api) == {"Available": "False", "ClusterStackAddonsReady": "True"}
    assert [verb for verb, _ in api.calls] == ["resource", "json_patch"]


async def test_a_condition_that_has_another_place_meanwhile_is_found_there() -> None:
    api, read = await both()
    moved = [{"type": "AddedFirst", "status": "True"}, *read["status"]["conditions"]]
    await api.merge_patch(CLUSTERS, "one", {"status": {"conditions": moved}}, "team")

    await mirror(api, read, Settled(), NOW)

    assert conditions(api) == {"AddedFirst": "True", "Available": "True", "ClusterStackAddonsReady": "True"}


async def test_a_condition_that_is_there_is_kept_when_the_specification_changed() -> None:
    api, read = await both(generation=2)

    after, is_news = await mirror(api, read, Settled(), NOW)

    assert (after, is_news) == (read, False)
    assert conditions(api) == {"Available": "False", "ClusterStackAddonsReady": "False"}


async def test_a_condition_is_not_written_to_a_successor_of_the_cluster() -> None:
    api, read = await both()
    api.fail("get", NotFound("get Cluster: not found", status=404, reason="NotFound"))

    await mirror(api, read | {"metadata": {**read["metadata"], "uid": "another"}}, Settled(), NOW)

    assert conditions(api) == {"Available": "False", "ClusterStackAddonsReady": "False"}


async def test_what_was_taken_back_at_the_beginning_is_said_again_in_the_old_api_version() -> None:
    """Conditions of v1beta1 have no generation, so the Cluster as it was first read says the same as the outcome."""
    api, first = await raced()
    first, _ = await mirror(api, first | {"apiVersion": "cluster.x-k8s.io/v1beta1"}, Settled(), NOW)

    begun, _ = await mirror(api, first, BEGINNING, NOW)
    _, is_news = await mirror(api, begun, Settled(), NOW)

    assert is_news
    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}


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
