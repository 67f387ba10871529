"""Looks at Clusters for an upgrade, in the caches of the operator: what comes next, and why it does not come yet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.model.documents import at, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, UPGRADE_STEP_ANNOTATION
from clusterstacks.model.names import parse_target, release_named
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.clusteraddon.snapshot import read_control_plane
from clusterstacks.operator.controllers.clusterupgrade.step_record import StepRecord, other_writer
from clusterstacks.operator.controllers.clusterupgrade.stepper import Blocked, Patch, Unsettled, next_action, obstacle
from clusterstacks.operator.controllers.object_reader import LiveReader
from clusterstacks.plan.clusters.context import UpgradeContext, state_of
from clusterstacks.plan.clusters.hold_annotation import is_held
from clusterstacks.plan.clusters.live_cluster import check_plannable, live_cluster, reported_workers
from clusterstacks.plan.clusters.offered_stacks import offered_by
from clusterstacks.plan.compat.library import facts
from clusterstacks.plan.compat.world import World
from clusterstacks.plan.planner.budget import Budget

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.model.files.compatibility import Rule
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds
    from clusterstacks.operator.controllers.clusterupgrade.stepper import Action
    from clusterstacks.plan.clusters.live_cluster import LiveCluster
    from clusterstacks.plan.compat.remote_statements import RemoteStatements
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock

MOST_LOOKS: Final = 2_000_000
"""Combinations that the planner examines for a step, about 5 s in a thread. Arbitrary: of the order of csctl's."""

REFUSED_SECONDS: Final = 300.0
"""Time after which a patch that was refused is sent again, if nothing has changed. Arbitrary."""

REMEMBERED: Final = 4096
"""Number of looks that are remembered (arbitrary); a look that was forgotten is repeated."""

_Seen: TypeAlias = tuple[object, ...]
"""The versions of everything that a look depends on."""


@dataclass(slots=True, kw_only=True)
class ClusterLooks:
    """Looks at Clusters; nothing is planned again before something has changed, and one plan is made at a time."""

    client: Client
    clock: Clock
    contracts: ContractKinds
    addons: ObjectCache
    stacks: ObjectCache
    releases: ObjectCache
    classes: ObjectCache
    statements: RemoteStatements
    rules: Callable[[ReleaseName, Mapping[str, str]], tuple[Rule, ...] | None]
    _known: dict[tuple[str, str], tuple[_Seen, float, Action]] = field(default_factory=dict, init=False)
    _planning: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    async def look(self, upgrade: str, view: ClusterView, to: str, *, may_plan: bool) -> Action | None:
        """Return what comes next for a Cluster; None if that needs a plan, and none may be made now.

        Args:
            upgrade: UID of the ClusterUpgrade.
            view: The Cluster.
            to: The target.
            may_plan: Whether a plan may be made now.

        Raises:
            DependencyError: The control plane object cannot be read.
        """
        notices: list[str] = []
        try:
            release = check_plannable(view)
            cluster = await self._cluster(view, notices)
        except SpecError as error:
            return Blocked(error.message)
        if (found := obstacle(cluster)) is not None:
            return found
        seen = self._seen(cluster, to)
        known = self._known.get((upgrade, view.uid))
        if known is not None and known[0] == seen and self.clock.monotonic() < known[1]:
            return known[2]
        if not may_plan:
            return None
        rules = self.rules(release, view.labels)
        if rules is None:
            return Unsettled("the CompatibilityRules have not been read yet")
        try:
            context = self._context(cluster, rules, notices)
            async with self._planning:
                action = await asyncio.to_thread(next_action, context, parse_target(to), Budget(MOST_LOOKS))
        except SpecError as error:
            action = Blocked(error.message)
        if isinstance(action, Patch):
            action = await self._unless_set_back(upgrade, view, to, action)
        self._remember((upgrade, view.uid), (seen, float("inf"), action))
        return action

    def refused(self, upgrade: str, view: ClusterView, to: str, why: str) -> None:
        """Note that the patch of a Cluster was refused."""
        known = self._known.get((upgrade, view.uid))
        if known is not None:
            until = self.clock.monotonic() + REFUSED_SECONDS
            self._remember((upgrade, view.uid), (known[0], until, Blocked(f"the step to {to} was refused: {why}")))

    def newest(self, view: ClusterView, *, same_minor: bool) -> str:
        """Return the newest ready release of the stack of a Cluster; that of its class if it is not older."""
        own = check_plannable(view)
        ready = [
            name
            for manifest in self.releases.all()
            if text(manifest, "metadata", "namespace") == view.class_namespace
            and (name := release_named(text(manifest, "metadata", "name"))) is not None
            and name.same_stack(own)
            and (not same_minor or name.kubernetes == own.kubernetes)
            and at(manifest, "status", "ready") is True
        ]
        return max([own, *ready]).release

    async def _cluster(self, view: ClusterView, notices: list[str]) -> LiveCluster:
        control_plane: Manifest | None = None
        if not view.control_plane_versions or is_held(view.raw):
            control_plane = await read_control_plane(LiveReader(self.client, {}), view, self.contracts)
        addon = self.addons.get(ObjectKey(view.namespace, addon_name(view.name))) or {}
        return live_cluster(view, addon, control_plane or {}, reported_workers(view), notices)

    def _context(self, cluster: LiveCluster, rules: tuple[Rule, ...], notices: list[str]) -> UpgradeContext:
        namespace = cluster.view.class_namespace
        stacks, releases, classes = (self._within(namespace, cache) for cache in self._offers)
        offered = offered_by(namespace, cluster.release, (stacks, releases, classes), notices)
        candidates = {**self.statements.known(offered.stacks), **offered.facts}
        candidates = {
            name: replace(one, class_versions=offered.class_versions.get(name.class_name, ()))
            for name, one in candidates.items()
            if name.same_stack(cluster.release)
        }
        world = World(tuple(candidates.values()), rules, facts())
        return UpgradeContext(cluster, offered, world, state_of(cluster, candidates, notices), tuple(notices))

    async def _unless_set_back(self, upgrade: str, view: ClusterView, to: str, patch: Patch) -> Action:
        record = StepRecord.of(view, upgrade, to)
        if not (record.set_backs and record.set_back(view)):
            return patch
        clusters = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        live = await self.client.find(clusters, view.name, view.namespace) or {}
        return Blocked(
            f"somebody has set back a step twice, last step {record.number} (field manager {other_writer(live)}): "
            "have it write what the upgrade does, or leave it alone; then remove annotation "
            f"{UPGRADE_STEP_ANNOTATION} of the Cluster"
        )

    def _seen(self, cluster: LiveCluster, to: str) -> _Seen:
        namespace = cluster.view.class_namespace
        objects = [cluster.view.raw, cluster.addon]
        objects += [one for cache in self._offers for one in self._within(namespace, cache)]
        return (to, self.rules(cluster.release, cluster.view.labels), *(_revision(one) for one in objects))

    @property
    def _offers(self) -> tuple[ObjectCache, ObjectCache, ObjectCache]:
        return self.stacks, self.releases, self.classes

    @staticmethod
    def _within(namespace: str, cache: ObjectCache) -> list[Manifest]:
        return [one for one in cache.all() if text(one, "metadata", "namespace") == namespace]

    def _remember(self, key: tuple[str, str], known: tuple[_Seen, float, Action]) -> None:
        if len(self._known) >= REMEMBERED:
            self._known.clear()
        self._known[key] = known


def _revision(manifest: Manifest) -> str:
    return text(manifest, "metadata", "resourceVersion")
