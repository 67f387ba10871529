"""The metrics tell that something waits for a person, without naming objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.names import API_VERSION, Kind
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.operating import World


async def test_live_m1_a_stalled_release_is_in_the_metrics_and_once_in_the_log(world: World) -> None:
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

        await eventually(shown, seconds=10, about="the metrics")
