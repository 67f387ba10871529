"""USER-3: csctl gives the same reasons as the webhook to users with few rights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND
from tests.regressions.test_csctl import NEW, OLD, csctl, offered, user
from tests.support.running.admission import guarded, refusal

if TYPE_CHECKING:
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("USER-3")


@pytest.mark.regression("USER-3")
async def test_csctl_explains_the_denial_of_the_webhook(world: World) -> None:
    async with guarded(world):
        first, second = await offered(world)
        await world.cluster("one", first.class_name, version=OLD)
        await world.addons_ready("one", first.class_name)
        upgrade = {"spec": {"topology": {"version": NEW}}}
        refused = await refusal(world.patch(await world.get(CLUSTER_KIND, "one"), upgrade))
        kubeconfig = await user(world)

        code, told, notices = await csctl(kubeconfig, "why", f"{world.namespace}/one", NEW)
        planned, plan, _ = await csctl(kubeconfig, "plan", f"{world.namespace}/one", "--to", NEW)

    fact = "cilium 1.17.2 works with Kubernetes >=1.30 <1.36"
    assert fact in refused
    assert f"csctl plan {world.namespace}/one --to {NEW}" in refused
    assert (code, notices) == (0, "")
    assert fact in told
    assert planned == 0
    assert plan.startswith(f"1. update addon cilium from 1.17.2 to 1.18.0 (from release {second})\n")
