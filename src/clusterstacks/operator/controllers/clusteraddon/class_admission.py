"""Admits a Cluster to the releases of its addons before anything of them is opened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.clusteraddon import Admitted
from clusterstacks.model.kinds.names import AddonCondition, Reason
from clusterstacks.operator.class_offer import OfferState
from clusterstacks.operator.controllers.class_access import CLASS_NOT_OFFERED

if TYPE_CHECKING:
    from clusterstacks.model.kinds.clusteraddon import ClusterAddon
    from clusterstacks.operator.controllers.class_access import ClassAccess
    from clusterstacks.operator.controllers.clusteraddon.snapshot import ClusterSnapshot
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch


@dataclass(frozen=True, slots=True)
class ClassAdmission:
    """Checks that a Cluster may use its class and releases, and notes it in the status, which users cannot write."""

    access: ClassAccess

    async def admit(self, patch: StatusPatch, addon: ClusterAddon, snapshot: ClusterSnapshot) -> None:
        """Check that the Cluster may use its addons, unless the status says so for the same ones.

        The spec does not prove it, because users write it. During a rollout it is checked in each reconcile. Raises a
        SpecError for a class or release that is not offered, DependencyError for one without a required signature.
        """
        admitted, known = _admitted(snapshot), addon.status.admitted
        # Earlier versions did not record the uid; the digest contains it.
        is_known = known is not None and known.model_copy(update={"cluster_uid": admitted.cluster_uid}) == admitted
        if is_known and addon.spec.cluster_stack == snapshot.cluster.class_name:
            patch.status["admitted"] = admitted.document()
            return
        await self.check_offer(patch, snapshot)
        if unproven := snapshot.unproven:
            patch.false(AddonCondition.CHART_FOUND, Reason.CHART_MISSING, unproven.message)
            raise DependencyError(unproven.reason, unproven.message)
        if not snapshot.release_missing:
            patch.status["admitted"] = admitted.document()

    async def check_offer(self, patch: StatusPatch, snapshot: ClusterSnapshot) -> None:
        """Raise a SpecError if the class or a release is not offered to the Cluster."""
        offer = await self.access.decide(snapshot.cluster, snapshot.objects)
        if offer.state is not OfferState.OFFERED:
            patch.false(AddonCondition.CLUSTER_READY, CLASS_NOT_OFFERED, offer.message)
            raise SpecError(CLASS_NOT_OFFERED, offer.message)


def _admitted(snapshot: ClusterSnapshot) -> Admitted:
    """Return the note in status that a Cluster was admitted; another Cluster with its name is checked again."""
    digest = sha256_digest(f"{snapshot.cluster.uid} {snapshot.digest}".encode())
    name, namespace = snapshot.cluster.class_name, snapshot.cluster.class_namespace
    values = {"class": name, "classNamespace": namespace, "clusterUid": snapshot.cluster.uid, "digest": digest}
    return Admitted.model_validate(values)
