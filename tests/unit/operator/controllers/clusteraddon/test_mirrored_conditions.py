"""Addon conditions on the Cluster, which Cluster API writes at the same time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from clusterstacks.model.conditions import Condition
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.outcomes import Settled, Waiting
from clusterstacks.net.kube.errors import NotFound
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusteraddon.mirrored_conditions import WARNINGS, mirror, withdraw
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


async def test_concurrent_write_of_cluster_api_keeps_both_conditions() -> None:
    api, read = await raced()

    await mirror(api, read, Settled(), NOW)
    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}

    await withdraw(api, read | {"status": {"conditions": [{"type": "ClusterStackAddonsReady", "status": "True"}]}})
    assert conditions(api) == {"Available": "True"}


async def test_no_condition_is_written_for_an_unobserved_generation() -> None:
    api, read = await raced(generation=2)

    await mirror(api, read, Settled(), NOW)

    assert conditions(api) == {"Available": "True"}


async def test_first_condition_is_added_in_one_request_despite_concurrent_writes() -> None:
    api, read = await raced()
    listed = {**read, "status": {"conditions": [{"type": "Available", "status": "False"}]}}
    api.calls.clear()

    await mirror(api, listed, Settled(), NOW)

    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}
    assert [verb for verb, _ in api.calls] == ["resource", "json_patch"]


async def test_a_condition_that_was_added_before_the_cache_showed_it_is_not_added_twice() -> None:
    api, read = await raced()
    listed = {**read, "status": {"conditions": [{"type": "Available", "status": "True"}]}}
    await mirror(api, listed, BEGINNING, NOW)

    await mirror(api, listed, Settled(), NOW)

    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}


async def both(**changed: int) -> tuple[FakeApi, Manifest]:
    """Return a server and a Cluster with our condition, as it was read just before Cluster API wrote another one."""
    api, _ = await raced()
    read, _ = await mirror(api, api.objects(CLUSTERS)[ObjectKey("team", "one")], BEGINNING, NOW)
    available, ours = read["status"]["conditions"]
    patch = {"metadata": changed, "status": {"conditions": [available | {"status": "False"}, ours]}}
    await api.merge_patch(CLUSTERS, "one", patch, "team")
    api.calls.clear()
    return api, read


async def test_existing_condition_is_replaced_in_one_request_despite_concurrent_writes() -> None:
    api, read = await both()

    after, is_news = await mirror(api, read, Settled(), NOW)

    assert is_news
    assert after == api.objects(CLUSTERS)[ObjectKey("team", "one")]
    assert conditions(api) == {"Available": "False", "ClusterStackAddonsReady": "True"}
    assert [verb for verb, _ in api.calls] == ["resource", "json_patch"]


async def test_condition_moved_to_another_index_is_found() -> None:
    api, read = await both()
    moved = [{"type": "AddedFirst", "status": "True"}, *read["status"]["conditions"]]
    await api.merge_patch(CLUSTERS, "one", {"status": {"conditions": moved}}, "team")

    await mirror(api, read, Settled(), NOW)

    assert conditions(api) == {"AddedFirst": "True", "Available": "True", "ClusterStackAddonsReady": "True"}


async def test_existing_condition_is_kept_when_the_spec_changed() -> None:
    api, read = await both(generation=2)

    after, is_news = await mirror(api, read, Settled(), NOW)

    assert (after, is_news) == (read, False)
    assert conditions(api) == {"Available": "False", "ClusterStackAddonsReady": "False"}


async def test_a_condition_is_not_written_to_a_successor_of_the_cluster() -> None:
    api, read = await both()
    api.fail("get", NotFound("get Cluster: not found", status=404, reason="NotFound"))

    await mirror(api, read | {"metadata": {**read["metadata"], "uid": "another"}}, Settled(), NOW)

    assert conditions(api) == {"Available": "False", "ClusterStackAddonsReady": "False"}


async def test_v1beta1_condition_reset_at_the_start_is_written_again() -> None:
    """Conditions of v1beta1 have no generation, so the Cluster as it was first read says the same as the outcome."""
    api, first = await raced()
    first, _ = await mirror(api, first | {"apiVersion": "cluster.x-k8s.io/v1beta1"}, Settled(), NOW)

    begun, _ = await mirror(api, first, BEGINNING, NOW)
    _, is_news = await mirror(api, begun, Settled(), NOW)

    assert is_news
    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}


@pytest.mark.regression("LIVE-LV-8")
@pytest.mark.parametrize("status", ["False", "Unknown"])
@pytest.mark.parametrize("kind", WARNINGS)
async def test_a_warning_is_set_and_cleared_in_the_same_status_write(kind: str, status: str) -> None:
    api, read = await raced()
    outside = Condition("Any", status, "OutsideRanges", "cilium leaks")

    await mirror(api, read, Settled(), NOW, {kind: outside})
    ours = {"ClusterStackAddonsReady": "True", kind: status}
    assert conditions(api) == {"Available": "True", **ours}
    written = api.objects(CLUSTERS)[ObjectKey("team", "one")]

    await mirror(api, written, Settled(), NOW, {kind: outside})
    assert api.objects(CLUSTERS)[ObjectKey("team", "one")] == written

    await mirror(api, written, Settled(), NOW, {kind: Condition("Any", "True")})
    assert conditions(api) == {"Available": "True", "ClusterStackAddonsReady": "True"}
