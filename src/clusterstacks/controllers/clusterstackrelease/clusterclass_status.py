"""Whether Cluster API has accepted the release's class."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.clusterapi import cluster_class_view, template_references
from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, ReleaseCondition
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.outcomes import Outcome, Settled, Waiting
from clusterstacks.kube.errors import KindNotServed

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest, ObjectId
    from clusterstacks.kube.client import Client

RECHECK = timedelta(seconds=30)
"""A change of the class wakes the reconciler anyway; this only bounds a lost event. Arbitrary."""


async def class_outcome(
    draft: StatusPatch, name: ReleaseName, client: Client, may_read: Callable[[ObjectId], bool]
) -> Outcome:
    """Settled once Cluster API has reconciled the class without complaint.

    ``may_read`` tells whether the operator reads an object that a class refers to.

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
    cause = await _missing_template(manifest, client, may_read) or view.cause
    severity = Severity.ERROR if view.refused else Severity.INFO
    draft.false(ReleaseCondition.CLASS_ACCEPTED, "ClusterClassNotAccepted", cause, severity)
    return Waiting("ClusterClassNotAccepted", cause, RECHECK)


async def _missing_template(cluster_class: Manifest, client: Client, may_read: Callable[[ObjectId], bool]) -> str:
    """Name a template that the class refers to and that does not exist, for Cluster API's own message does not."""
    metadata = cluster_class["metadata"]
    title = f"ClusterClass {metadata['namespace']}/{metadata['name']}"
    for reference in template_references(cluster_class):
        named = f"{title} refers to {reference.kind} {reference.name}"
        if not may_read(reference):
            continue  # the class is written by others, the rights are the operator's
        try:
            resource = await client.resource(reference.group, reference.kind)
        except KindNotServed:
            return f"{named}, but the API server does not serve this kind: install its provider"
        if await client.find_metadata(resource, reference.name, reference.namespace) is None:
            return f"{named}, which does not exist: create it, or publish a release whose class chart contains it"
    return ""
