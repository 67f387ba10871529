"""The objects of the class chart: rendered, listed in status, applied, reported one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.meta import ResourceEntry
from clusterstacks.api.names import Reason, ReleaseCondition, ResourceStatus
from clusterstacks.apply.delivery_plan import RecordedObject
from clusterstacks.apply.waves import CLASS_KIND
from clusterstacks.controllers.resource_list import complaints, entries, listed
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import ObjectId, object_id, split_api_version
from clusterstacks.domain.outcomes import Waiting
from clusterstacks.render.release_charts import class_request

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.apply.class_applier import Applier
    from clusterstacks.apply.results import ObjectResult
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.releases.release import Release
    from clusterstacks.render.renderer import Renderer


async def apply_class_chart(
    draft: StatusPatch, release: Release, renderer: Renderer, applier: Applier
) -> Sequence[ObjectResult]:
    """Render the class chart and apply its objects; the condition HelmChartApplied is True when all are in place.

    The objects are listed in status before the first one is applied, so that a crash in between leaves none that the
    deletion of the release would not find (D3).

    Raises:
        SpecError: The chart cannot be rendered or holds what a class may not hold.
        DependencyError: The API server or a render worker failed.
    """
    with draft.failing_condition(ReleaseCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
        rendered = await renderer.chart(
            class_request(
                release.class_chart(), release.name, release.metadata.kubernetes, namespace=draft.key.namespace
            )
        )
        manifests = applier.checked(rendered, draft.key.namespace)
        _check_class(manifests, release.name)
        known = {one.id: one for one in known_objects(draft.status)}
        await _announce(draft, manifests, known)
        results = await applier.apply_all(manifests, default_namespace=draft.key.namespace, known=known)
    draft.status["resources"] = _with_details(results)
    failed = sum(not result.synced for result in results)
    if failed:
        message = f"{failed} of {len(results)} objects not applied: {complaints(results)}"
        draft.false(ReleaseCondition.CHART_APPLIED, Reason.OBJECTS_APPLYING_ONGOING, message)
    else:
        draft.true(ReleaseCondition.CHART_APPLIED)
    return results


def known_objects(status: Manifest) -> list[RecordedObject]:
    """Read ``status.resources``: what was applied for a release, also by the Go operator, which notes no uid."""
    resources = [ResourceEntry.model_validate(document) for document in status.get("resources") or []]
    return [
        RecordedObject(ObjectId(one.group, one.kind, one.namespace, one.name), one.version, one.uid, one.digest)
        for one in resources
    ]


def _check_class(manifests: Sequence[Manifest], name: ReleaseName) -> None:
    """Refuse a chart that would be applied again and again because the class it should bring never appears."""
    identities = [object_id(manifest) for manifest in manifests]
    classes = [one.name for one in identities if (one.group, one.kind) == CLASS_KIND]
    if name.class_name not in classes:
        found = f"only {', '.join(classes)}" if classes else "none at all"
        raise SpecError(
            "ClusterClassMissing",
            f"the class chart of {name} renders no ClusterClass {name.class_name}, but {found}; correct name and "
            "version of the chart and publish another release",
        )


async def _announce(draft: StatusPatch, manifests: Sequence[Manifest], known: dict[ObjectId, RecordedObject]) -> None:
    planned = []
    for manifest in manifests:
        identity = object_id(manifest)
        if not identity.namespace:
            identity = ObjectId(identity.group, identity.kind, draft.key.namespace, identity.name)
        if identity not in known:
            _, version = split_api_version(manifest["apiVersion"])
            planned.append(listed(identity, version, ResourceStatus.NOT_SYNCED))
    if planned:
        draft.status["resources"] = [*(draft.status.get("resources") or []), *planned]
        await draft.checkpoint(Waiting(Reason.OBJECTS_APPLYING_ONGOING, "the objects of the class are being applied"))


def _with_details(results: Sequence[ObjectResult]) -> list[Manifest]:
    return [
        {**entry, **{key: value for key, value in _details(result).items() if value}}
        for entry, result in zip(entries(results), results, strict=True)
    ]


def _details(result: ObjectResult) -> Manifest:
    generation = result.mark.generation if result.mark else 0
    return {"uid": result.uid, "digest": result.digest, "generation": generation}
