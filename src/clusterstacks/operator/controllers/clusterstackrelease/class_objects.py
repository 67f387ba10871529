"""Applies the objects of the class chart, and reports whether Cluster API accepts the class."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND, check_class_objects
from clusterstacks.deliver.apply.delivery_plan import Mark, RecordedObject
from clusterstacks.deliver.apply.object_applier import ObjectStep
from clusterstacks.deliver.apply.orc_images import (
    ignored_fields,
    is_image,
    orc_images,
    unverified_images,
    with_live_url,
)
from clusterstacks.deliver.apply.results import ObjectResult
from clusterstacks.deliver.apply.targets import digest_of, documents, resolve
from clusterstacks.deliver.apply.wave_applier import WaveApplier
from clusterstacks.deliver.apply.waves import CLASS_KIND
from clusterstacks.deliver.render.renderer import class_request
from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.files.definitions import field_path
from clusterstacks.model.kinds.clusterapi import cluster_class_view, template_references
from clusterstacks.model.kinds.clusterstackrelease import ClusterStackRelease
from clusterstacks.model.kinds.meta import ResourceEntry
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_CLASS_KIND,
    Reason,
    ReleaseCondition,
    ResourceStatus,
)
from clusterstacks.model.objects import ObjectId
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.operator.controllers.resource_list import OBJECTS_SHOWN, describe_failures, entries, listed
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from clusterstacks.deliver.apply.class_object_rules import GroupKind
    from clusterstacks.deliver.apply.targets import ApplyTarget
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.files.node_images import NodeImages
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release

ImageURL: TypeAlias = Callable[[str], Awaitable[str]]
"""Returns the URL of a file by its digest ``sha256:<hex>``."""


async def apply_class_chart(
    patch: StatusPatch,
    release: Release,
    renderer: Renderer,
    client: Client,
    extra_kinds: Collection[GroupKind],
    image_url: ImageURL,
) -> Sequence[ObjectResult]:
    """Render the class chart and apply its objects; the condition HelmChartApplied is True when all are in place.

    The node images of node-images.yaml are objects as well, and delivered, listed and deleted like those of the chart.

    An object that is in place is not sent again: each write of a ClusterClass in an older API version raises its
    generation, even one that changes nothing, and Cluster API then reconciles all Clusters of the class. The objects
    are listed in status before the first one is applied, so that after a crash the deletion of the release finds all of
    them. ``extra_kinds`` are the kinds of ``--class-kinds``; ``image_url`` returns the URL at which the operator serves
    a file that is published with the release.

    Raises:
        SpecError: The chart cannot be rendered, or a class may not contain one of its objects.
        DependencyError: The API server or a render worker failed.
    """
    namespace = patch.key.namespace
    with patch.failing_condition(ReleaseCondition.CHART_APPLIED, Reason.FAILED_TO_APPLY_OBJECTS):
        rendered = await renderer.chart(
            class_request(release.class_chart(), release.name, release.metadata.kubernetes, namespace=namespace)
        )
        provider = ClusterStackRelease.parse(patch.manifest).spec.provider_ref
        images = release.node_images() if provider is None else None  # a provider object makes the images itself
        images = await _with_urls(patch, images, image_url)
        objects = [*rendered, *orc_images(images, rendered)]
        targets = await class_targets(client, objects, namespace, extra_kinds)
        _check_class(targets, release.name)
        known = {one.id: one for one in recorded_objects(patch.status, namespace)}
        await _record_planned(patch, [target for target in targets if target.id not in known])
        steps = await gather(partial(_step, client, known), targets)
        pending = [step for step in steps if not _is_in_place(step)]
        applied = {one.id: one for one in await WaveApplier(client).apply_objects(pending)}
    judge_images(patch, images, objects)
    results = [applied.get(step.target.id) or _unchanged(step) for step in steps]
    patch.status["resources"] = _with_details(results)
    failed = sum(not result.synced for result in results)
    if failed:
        message = f"{failed} of {len(results)} objects not applied: {describe_failures(results)}"
        missing = [one for one in results if one.code in ("NotServed", "KindNotServed")]  # from discovery, or by a 404
        if any((one.id.group, one.id.kind) == IMAGE_KIND for one in missing):
            message += "; install the OpenStack Resource Controller (ORC), which makes node images"
        patch.false(ReleaseCondition.CHART_APPLIED, Reason.OBJECTS_APPLYING_ONGOING, message)
    else:
        patch.true(ReleaseCondition.CHART_APPLIED)
    return results


async def _with_urls(patch: StatusPatch, images: NodeImages | None, image_url: ImageURL) -> NodeImages | None:
    """Return node images with the URLs of the files that are published with the release, and list these in status."""
    patch.status.pop("nodeImageFiles", None)
    if images is None or not images.artifacts:
        return images
    urls = {digest: await image_url(digest) for digest in images.artifacts}
    patch.status["nodeImageFiles"] = [*urls]
    listed = (replace(one, url=urls[one.checksum]) if one.file else one for one in images.open_stack_node_images)
    return replace(images, open_stack_node_images=tuple(listed))


def judge_images(patch: StatusPatch, listed: NodeImages | None, objects: Iterable[Manifest]) -> None:
    """Report what is uncertain about node images; the release can be used nevertheless."""
    images = list(filter(is_image, objects))
    ignored = [field_path(path) for path in ignored_fields(listed.open_stack_node_images)] if listed else []
    if unverified := unverified_images(images):
        message = (
            f"no hash verifies the download of Image {and_more(unverified, OBJECTS_SHOWN)}: publish a release with "
            "another image name and a hash, as checksum in node-images.yaml or in the Image of the class chart"
        )
        patch.false(ReleaseCondition.NODE_IMAGES_AS_STATED, Reason.IMAGE_NOT_VERIFIED, message, Severity.WARNING)
    elif ignored:
        message = f"node-images.yaml: {and_more(ignored, OBJECTS_SHOWN)}: ORC has no field for this, so it is ignored"
        patch.false(ReleaseCondition.NODE_IMAGES_AS_STATED, Reason.PROPERTY_NOT_SUPPORTED, message, Severity.WARNING)
    elif images:
        patch.true(ReleaseCondition.NODE_IMAGES_AS_STATED)
    else:
        patch.drop(ReleaseCondition.NODE_IMAGES_AS_STATED)


async def _step(client: Client, known: Mapping[ObjectId, RecordedObject], target: ApplyTarget) -> ObjectStep:
    """Return the step of an object, which is read if it was applied before; an Image keeps the URL that it has."""
    recorded, identity = known.get(target.id), target.id
    of_image = is_image(target.manifest)
    if target.resource is None or (recorded is None and not of_image):
        return ObjectStep(target, recorded)
    live = None
    with suppress(ClusterStacksError):  # then it is applied, which tells what is wrong with this object
        live = await client.find(target.resource, identity.name, identity.namespace)
    if live is not None and of_image:
        manifest = with_live_url(target.manifest, live)
        target = replace(target, manifest=manifest, digest=digest_of(manifest))
    return ObjectStep(target, recorded, before=live if recorded else None)


def _is_in_place(step: ObjectStep) -> bool:
    """Return whether the object is in place: applied with this content, and neither changed nor deleted since."""
    known, live = step.known, step.before
    if known is None or known.mark is None or live is None or known.digest != step.target.digest:
        return False
    metadata = live["metadata"]
    state = (metadata["uid"], metadata.get("generation"), metadata.get("deletionTimestamp"))
    return state == (known.uid, known.mark.generation, None)


def _unchanged(step: ObjectStep) -> ObjectResult:
    """Return the result of an object that is in place."""
    mark = step.known.mark if step.known else None
    target, uid = step.target, step.uid
    return ObjectResult(target.id, target.version, synced=True, uid=uid, digest=target.digest, mark=mark)


async def class_targets(
    client: Client, manifests: Iterable[Manifest], namespace: str, extra_kinds: Collection[GroupKind] = ()
) -> list[ApplyTarget]:
    """Prepare the objects of a class for the namespace of its release, the only one that is allowed.

    Raises:
        SpecError: A document is not an object, or a class may not contain the object.
        DependencyError: Discovery failed.
    """
    objects = list(documents(manifests))
    check_class_objects(objects, namespace=namespace, extra_kinds=extra_kinds)
    targets = await resolve(client, objects, default_namespace=namespace)
    for target in targets:
        if target.resource and not target.resource.namespaced:
            raise SpecError(
                "ObjectNotAllowed",
                f"{target.id} is cluster-scoped, but a cluster class contains namespaced objects only: remove it",
            )
    return targets


def recorded_objects(status: Manifest, namespace: str) -> list[RecordedObject]:
    """Return the objects in ``status.resources`` of a release in a namespace.

    An entry without a namespace is in that of the release. Entries of the Go operator have no uid and no mark.
    """
    entries = [ResourceEntry.model_validate(document) for document in status.get("resources") or []]
    return [
        RecordedObject(
            ObjectId(one.group, one.kind, one.namespace or namespace, one.name),
            one.version,
            one.uid,
            one.digest,
            Mark(one.generation, "", "") if one.generation else None,
        )
        for one in entries
    ]


def _check_class(targets: Iterable[ApplyTarget], name: ReleaseName) -> None:
    """Reject a chart without the ClusterClass of the release, which would be applied again and again."""
    classes = [target.id.name for target in targets if (target.id.group, target.id.kind) == CLASS_KIND]
    if name.class_name not in classes:
        found = f"only {', '.join(classes)}" if classes else "none at all"
        raise SpecError(
            "ClusterClassMissing",
            f"the class chart of {name} renders no ClusterClass {name.class_name}, but {found}; correct name and "
            "version of the chart and publish another release",
        )


async def _record_planned(patch: StatusPatch, targets: Sequence[ApplyTarget]) -> None:
    if targets:
        planned = [listed(target.id, target.version, ResourceStatus.NOT_SYNCED) for target in targets]
        patch.status["resources"] = [*(patch.status.get("resources") or []), *planned]
        await patch.checkpoint(Waiting(Reason.OBJECTS_APPLYING_ONGOING, "the objects of the class are being applied"))


def _with_details(results: Sequence[ObjectResult]) -> list[Manifest]:
    details = [
        {"uid": one.uid, "digest": one.digest, "generation": one.mark.generation if one.mark else 0} for one in results
    ]
    return [
        {**entry, **{key: value for key, value in more.items() if value}}
        for entry, more in zip(entries(results), details, strict=True)
    ]


RECHECK = timedelta(seconds=30)
"""Interval that bounds the effect of a lost event: a change of the class enqueues the release. Arbitrary."""


async def class_outcome(
    patch: StatusPatch, name: ReleaseName, client: Client, may_read: Callable[[ObjectId], bool]
) -> Outcome:
    """Return Settled when Cluster API has accepted the class.

    ``may_read`` returns whether the operator may read an object that a class refers to.

    If the class was deleted manually, the release is not ready and its objects are applied again.
    """
    classes = await client.resource(CLUSTER_API_GROUP, CLUSTER_CLASS_KIND)
    manifest = await client.find(classes, name.class_name, patch.key.namespace)
    title = f"ClusterClass {patch.key.namespace}/{name.class_name}"
    if manifest is None:
        message = f"{title} is gone; it is applied again"
        patch.false(ReleaseCondition.CHART_APPLIED, "ClusterClassMissing", message)
        patch.drop(ReleaseCondition.CLASS_ACCEPTED)
        return Waiting("ClusterClassMissing", message, timedelta(seconds=1))
    view = cluster_class_view(manifest)
    if view.ready:
        patch.true(ReleaseCondition.CLASS_ACCEPTED)
        return Settled()
    cause = await _missing_template(manifest, client, may_read) or view.cause
    severity = Severity.ERROR if view.refused else Severity.INFO
    patch.false(ReleaseCondition.CLASS_ACCEPTED, "ClusterClassNotAccepted", cause, severity)
    return Waiting("ClusterClassNotAccepted", cause, RECHECK)


async def _missing_template(cluster_class: Manifest, client: Client, may_read: Callable[[ObjectId], bool]) -> str:
    """Name a missing template that the class refers to, because Cluster API's message does not name it."""
    metadata = cluster_class["metadata"]
    title = f"ClusterClass {metadata['namespace']}/{metadata['name']}"
    for reference in template_references(cluster_class):
        named = f"{title} refers to {reference.kind} {reference.name}"
        if not may_read(reference):
            continue  # users write the class, but the operator's permissions would be used
        try:
            resource = await client.resource(reference.group, reference.kind)
        except KindNotServed:
            return f"{named}, but the API server does not serve this kind: install its provider"
        if await client.find_metadata(resource, reference.name, reference.namespace) is None:
            return f"{named}, which does not exist: create it, or publish a release whose class chart contains it"
    return ""
