"""Whether Cluster API has accepted the release's class."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.clusterapi import cluster_class_view
from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, ReleaseCondition
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.outcomes import Outcome, Settled, Waiting

if TYPE_CHECKING:
    from clusterstacks.controllers.base import Draft
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.kube.client import Client

RECHECK = timedelta(seconds=30)
"""A change of the class wakes the reconciler anyway; this only bounds a lost event. Arbitrary."""


async def class_outcome(draft: Draft, name: ReleaseName, client: Client) -> Outcome:
    """Settled once Cluster API has reconciled the class without complaint.

    A class that was deleted by hand takes its release back to not ready; the objects are applied anew.
    """
    classes = await client.resource(CLUSTER_API_GROUP, CLUSTER_CLASS_KIND)
    manifest = await client.find(classes, name.class_name, draft.key.namespace)
    title = f"ClusterClass {draft.key.namespace}/{name.class_name}"
    if manifest is None:
        message = f"{title} is gone; it is applied again"
        draft.false(ReleaseCondition.CHART_APPLIED, "ClusterClassMissing", message)
        draft.drop(ReleaseCondition.CLASS_ACCEPTED)
        return Waiting("ClusterClassMissing", message, timedelta(seconds=1))
    view = cluster_class_view(manifest)
    if view.ready:
        draft.true(ReleaseCondition.CLASS_ACCEPTED)
        return Settled()
    severity = Severity.ERROR if view.refused else Severity.INFO
    draft.false(ReleaseCondition.CLASS_ACCEPTED, "ClusterClassNotAccepted", view.cause, severity)
    return Waiting("ClusterClassNotAccepted", view.cause, RECHECK)
