"""An upgrade begins after its stages, in whatever order the user, Cluster API and the operator read and write."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from clusterstacks.model.kinds.clusterapi import ClusterView, cluster_view
from clusterstacks.model.kinds.names import PENDING_HOOKS_ANNOTATION, UPGRADE_HOLD_ANNOTATION
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Target
from clusterstacks.operator.controllers.clusteraddon.upgrade_hold import (
    HoldAction,
    HoldDecision,
    HoldFacts,
    HoldState,
    UpgradeHold,
    awaits_upgrade,
    decide_hold,
    hooks_pending,
)
from clusterstacks.operator.controllers.clusteraddon.upgrade_state import UpgradeState

INSTALLED, UPGRADED = "AfterControlPlaneInitialized", "AfterClusterUpgrade"


@dataclass(frozen=True)
class Cluster:
    """A Cluster as the API server or a cache has it."""

    wanted: int = 1
    held: bool = False
    pending: frozenset[str] = frozenset({INSTALLED})

    @property
    def view(self) -> ClusterView:
        annotations = {UPGRADE_HOLD_ANNOTATION: ""} if self.held else {}
        annotations |= {PENDING_HOOKS_ANNOTATION: ",".join(sorted(self.pending))} if self.pending else {}
        return cluster_view({"metadata": {"name": "one", "namespace": "tenant", "annotations": annotations}})


@dataclass
class Status:
    """The status of the ClusterAddon; ``complete`` are the versions whose stages before the upgrade are done."""

    delivered: int = 1
    complete: set[int] = field(default_factory=lambda: {1})
    note: UpgradeHold | None = None


def version(patch: int) -> str:
    return f"v1.36.{patch}"


class Orders(RuleBasedStateMachine):
    """Cluster API acts on cached copies; the operator reads the Cluster first, and its control plane object later."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster, self.ordered = Cluster(), 1
        self.cached = self.cluster
        self.read, self.read_ordered = self.cluster, self.ordered
        self.status = Status()
        self.by_hand: set[int] = set()
        self.unheld: set[int] = set()

    # --- the user

    @rule()
    @precondition(lambda self: self.cluster.wanted == self.ordered)
    def hold_is_lost(self) -> None:
        self.cluster = replace(self.cluster, held=False)

    @rule()
    @precondition(lambda self: UPGRADED not in self.cluster.pending)
    def user_wants_the_next_version(self) -> None:
        if not self.cluster.held:
            self.unheld.add(self.cluster.wanted + 1)
        self.cluster = replace(self.cluster, wanted=self.cluster.wanted + 1)

    @rule()
    @precondition(lambda self: self.cluster.held and self.cluster.wanted != self.ordered)
    def user_releases_by_hand(self) -> None:
        self.cluster = replace(self.cluster, held=False)
        self.by_hand.add(self.cluster.wanted)

    # --- Cluster API; ``fresh``: its cache has the newest Cluster

    def _see(self, *, fresh: bool) -> Cluster:
        if fresh:
            self.cached = self.cluster
        return self.cached

    @rule(hook=st.sampled_from([INSTALLED, UPGRADED]), fresh=st.booleans())
    def cluster_api_removes_a_hook(self, hook: str, *, fresh: bool) -> None:
        """Remove it as Cluster API does: from a copy without other annotations, it removes all annotations.

        An installation and an upgrade take longer than the copy lags behind.
        """
        seen = self._see(fresh=fresh)
        lags = not seen.held and seen != self.cluster
        if hook not in seen.pending or lags or (hook == UPGRADED and seen.wanted != self.ordered):
            return
        left = seen.pending - {hook}
        held = self.cluster.held and (seen.held or bool(left))
        self.cluster = replace(self.cluster, pending=self.cluster.pending - {hook}, held=held)

    @rule(fresh=st.booleans())
    def cluster_api_begins_an_upgrade(self, *, fresh: bool) -> None:
        seen = self._see(fresh=fresh)
        if seen.wanted == self.ordered or seen.held or UPGRADED in seen.pending:
            return
        assert seen.wanted in self.status.complete | self.by_hand | self.unheld, "the upgrade begins before its stages"
        self.cluster = replace(self.cluster, pending=self.cluster.pending | {UPGRADED})

    @rule(fresh=st.booleans())
    def cluster_api_orders_the_version(self, *, fresh: bool) -> None:
        seen = self._see(fresh=fresh)
        if UPGRADED in seen.pending:
            self.ordered = seen.wanted

    # --- the operator

    @rule()
    def operator_reads_the_cluster(self) -> None:
        self.read = self.cluster

    @rule(fresh=st.booleans(), stages_end=st.booleans(), killed=st.booleans())
    def operator_acts(self, *, fresh: bool, stages_end: bool, killed: bool) -> None:
        if fresh:
            self.read_ordered = self.ordered
        wanted = self.read.wanted
        begun = self._decide()
        if begun.action is HoldAction.NOTHING:
            self.status.note = begun.note  # before the stages run
        if stages_end:
            self.status.complete.add(wanted)
        decision = self._decide()
        if decision.action is HoldAction.REMOVE and not self._awaits(self.ordered):
            decision = self._decide(awaited=False)
        if decision.action is HoldAction.REMOVE and self.cluster.wanted != wanted:
            return  # the patch tests the generation
        if decision.action is not HoldAction.NOTHING:
            self.cluster = replace(self.cluster, held=decision.action is HoldAction.SET)
        is_current = fresh and self.read.wanted == self.cluster.wanted
        if is_current and self._awaits(self.ordered) and wanted not in self.status.complete | self.by_hand:
            assert self.cluster.held, "the operator holds every upgrade that no user released"
        if killed:
            return
        self.status.note = decision.note
        if wanted in self.status.complete and self.read_ordered == wanted and UPGRADED not in self.read.pending:
            self.status.delivered = wanted

    def _decide(self, *, awaited: bool | None = None) -> HoldDecision:
        wanted, status = self.read.wanted, self.status
        facts = HoldFacts(
            target=Target("stack-v1", version(wanted)),
            enabled=True,
            is_set=self.read.held,
            awaited=self._awaits(self.read_ordered) if awaited is None else awaited,
            honours=hooks_pending(self.read.view),
            moves=status.delivered != wanted,
            complete=wanted in status.complete,
            last=status.note,
        )
        return decide_hold(facts, "2026-05-06T07:08:09Z")

    def _awaits(self, ordered: int) -> bool:
        state = UpgradeState(
            control_plane=(), wanted=KubernetesVersion.parse(version(self.read.wanted)), topology_reconciled=True
        )
        return awaits_upgrade(self.read.view, {"spec": {"version": version(ordered)}}, state)

    # --- once all act in turn again

    def teardown(self) -> None:
        for _ in range(6):
            self.operator_reads_the_cluster()
            self.operator_acts(fresh=True, stages_end=True, killed=False)
            for hook in (INSTALLED, UPGRADED):
                self.cluster_api_removes_a_hook(hook, fresh=True)
            self.cluster_api_begins_an_upgrade(fresh=True)
            self.cluster_api_orders_the_version(fresh=True)
        assert self.ordered == self.cluster.wanted == self.status.delivered, "every upgrade ends"
        assert self.cluster.held, "the next upgrade is held"
        note = self.status.note
        assert note is None or note.state is not HoldState.NOT_HONOURED, "Cluster API honours the hold"


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
