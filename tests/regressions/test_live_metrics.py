"""Metrics report objects that need attention, and requests by target."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import API_VERSION, Kind
from tests.support.builders.stacks import config_map, templates
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.running.world import World


@pytest.mark.regression("LIVE-M1")
async def test_requests_are_counted_by_target(world: World) -> None:
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {"cni": templates(config_map(world.namespace))}))
    async with world.operator() as operator:
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        before = operator._metrics.expose().decode()
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        after = operator._metrics.expose().decode()

    assert 'target="management"' in before
    assert 'target="workload"' not in before
    assert 'clusterstacks_api_requests_total{code="201",method="PATCH",target="workload"}' in after
    assert world.namespace not in after


@pytest.mark.regression("LIVE-M1")
async def test_stalled_release_is_in_the_metrics_and_logged_once(world: World) -> None:
    metadata = {"name": "nonsense", "namespace": world.namespace}
    async with world.operator() as operator:
        made = await world.create({"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK_RELEASE, "metadata": metadata})
        await world.says(Kind.CLUSTER_STACK_RELEASE, "nonsense", "Ready", "IssueWithReleaseAssets")
        await world.look_again(operator, "clusterstackrelease", made)

        async def shown() -> bool:
            lines = operator._metrics.expose().decode().splitlines()
            assert 'clusterstacks_not_ready_objects{kind="ClusterStackRelease"} 1.0' in lines
            assert 'clusterstacks_stalled_objects{controller="clusterstackrelease"} 1.0' in lines
            assert 'clusterstacks_reconcile_total{controller="clusterstackrelease",result="success"} 0.0' in lines
            assert 'clusterstacks_not_ready_since_timestamp_seconds{kind="ClusterAddon"} 0.0' in lines
            return True

        await eventually(shown, about="the metrics")
