"""Decides whether the objects of a source are in the state that the sources after it wait for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.delivery import RECORD_NAMESPACE
from clusterstacks.model.kinds.names import Reason
from clusterstacks.model.objects import object_id
from clusterstacks.operator.controllers.resource_list import describe_failures

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.deliver.apply.health import HealthReport
    from clusterstacks.deliver.apply.results import DeliveryReport, ObjectResult
    from clusterstacks.deliver.apply.source_objects import SourceObjects

RETRY: Final = timedelta(seconds=5)
"""Interval at which a source that others wait for is looked at. Arbitrary."""


@dataclass(frozen=True, slots=True)
class SourceWait:
    """Why the sources after a source are not delivered yet."""

    reason: Reason
    message: str


def wait_for_delivery(source: SourceObjects, report: DeliveryReport) -> SourceWait | None:
    """Return what is not delivered of a source; None if all of it is."""
    if source.faults:
        return SourceWait(Reason.SOURCE_INCOMPLETE, source.faults[0])
    objects = _results(source, report)
    failed = [one for one in objects if not one.synced]
    if not failed:
        return None
    message = f"{len(failed)} of {len(objects)} objects not applied: {describe_failures(failed)}"
    return SourceWait(Reason.OBJECTS_APPLYING_ONGOING, message)


def wait_for_health(source: SourceObjects, report: DeliveryReport, health: HealthReport | None) -> SourceWait | None:
    """Return which objects of a source are not healthy, None if all are; ``health`` is None if it cannot be read."""
    if health is None:
        return SourceWait(Reason.HEALTH_UNKNOWN, "their health cannot be read; see the condition Healthy")
    objects = {one.id for one in _results(source, report)}
    health = replace(health, unhealthy=tuple(one for one in health.unhealthy if one.id in objects))
    if not health.unhealthy:
        return None
    reason = Reason.OBJECTS_FAILED if health.failed else Reason.OBJECTS_IN_PROGRESS
    message = f"{len(health.unhealthy)} of {len(objects)} objects are not healthy yet: {health.message}"
    return SourceWait(reason, message)


def _results(source: SourceObjects, report: DeliveryReport) -> Sequence[ObjectResult]:
    """Return the results of the objects of a source, which have their final namespaces there."""
    written = [object_id(manifest) for manifest in source.manifests]
    placed = {one._replace(namespace=one.namespace or RECORD_NAMESPACE) for one in written}
    cluster_wide = {one._replace(namespace="") for one in written}
    return [one for one in report.objects if one.id in (placed if one.id.namespace else cluster_wide)]
