"""Takes the steps of an upgrade, one when the Cluster has settled after the one before."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.shared.cluster_options import read_cluster_context
from clusterstacks.csctl.shared.management_objects import served
from clusterstacks.csctl.shared.plan_output import SEARCH_SECONDS, search_effort
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND
from clusterstacks.plan.planner.step_titles import step_title

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Action, Arrived, Blocked, Patch
    from clusterstacks.plan.planner.model_builder import Target

MANAGER: Final = "clusterupgrade"
"""Field manager of the patches."""

LOOK_SECONDS: Final = 5.0
"""Interval at which the Cluster is looked at when nobody calls :meth:`UpgradeWalk.look`. Arbitrary."""


@dataclass(slots=True)
class UpgradeWalk:
    """The way of a Cluster to a target; nothing of it is kept but the Cluster."""

    cluster: ObjectKey
    target: Target
    releases: Path | None = None
    """Directory with releases that neither the management cluster nor a source provides."""
    search_seconds: float = SEARCH_SECONDS
    """Time limit of each search for a plan."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event, init=False)

    def look(self) -> None:
        """Look at the Cluster now, because it may have changed."""
        self._changed.set()

    async def run(self, client: Client, say: Callable[[str], None]) -> Arrived | Blocked:
        """Take steps until the Cluster has the target, or somebody has to act; ``say`` gets each step and wait.

        Raises:
            SpecError: The Cluster does not exist any more, or has no class of a cluster stack.
            ApiError: The API server or a webhook refuses a patch.
        """
        from clusterstacks.operator.controllers.clusterupgrade.stepper import Arrived, Blocked, Patch

        told = ""
        while True:
            self._changed.clear()
            action = await self._next(client)
            if isinstance(action, Arrived | Blocked):
                return action
            if isinstance(action, Patch):
                say(f"Step, {len(action.steps)} left: {step_title(action.steps[0])}")
                await self._patch(client, action)
            elif action.what != told:
                told = action.what
                say(f"Waiting: {told}")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), LOOK_SECONDS)

    async def _next(self, client: Client) -> Action:
        from clusterstacks.operator.controllers.clusterupgrade.stepper import Unsettled, next_action, obstacle

        try:
            # Without the target, no source is read while the Cluster has not settled.
            present = await read_cluster_context(client, self.cluster, self.releases)
            wait = obstacle(present.cluster)
            if wait is not None:
                return wait
            context = await read_cluster_context(client, self.cluster, self.releases, self.target)
        except DependencyError as error:  # the management cluster may be away for a while
            return Unsettled(error.message)
        return next_action(context, self.target, search_effort(self.search_seconds))

    async def _patch(self, client: Client, action: Patch) -> None:
        """Patch the Cluster, unless it changed after it was looked at."""
        from clusterstacks.net.kube.errors import Conflict, Unreachable

        patch = action.patch
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": action.resource_version}
        clusters = await served(client, CLUSTER_API_GROUP, CLUSTER_KIND)
        with suppress(Conflict, Unreachable):  # the next look tells whether it was written
            await client.merge_patch(clusters, self.cluster.name, patch, self.cluster.namespace, manager=MANAGER)
