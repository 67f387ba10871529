"""Reconciles ClusterStackReleases: downloads a release, applies its class, and reports whether it can be used."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.model.kinds.clusterapi import cluster_class_view
from clusterstacks.model.kinds.clusterstackrelease import ClusterStackRelease
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION, RELEASE_FINALIZER, EventReason, Reason, ReleaseCondition
from clusterstacks.model.names import ReleaseName, parse_release
from clusterstacks.model.objects import ObjectKey, split_api_version
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import apply_class_chart, class_outcome
from clusterstacks.operator.controllers.clusterstackrelease.deletion import delete_release
from clusterstacks.operator.controllers.clusterstackrelease.image_wait import wait_for_images
from clusterstacks.operator.controllers.clusterstackrelease.source_check import (
    set_signatures_unclear,
    set_tag_moved,
    set_unsigned,
)
from clusterstacks.operator.controllers.provider_objects import own_provider_object
from clusterstacks.operator.controllers.status_reconciler import add_finalizer
from clusterstacks.release.charts.dependencies import CHART_ERRORS
from clusterstacks.release.errors import DigestMismatch, images_not_held
from clusterstacks.release.signing.errors import SignaturesUnclear
from clusterstacks.release.sources.pinned_digests import PinnedDigests
from clusterstacks.release.sources.verification import Unsigned
from clusterstacks.release.sources.verified_content import VerifiedContent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from clusterstacks.deliver.apply.class_object_rules import GroupKind
    from clusterstacks.deliver.render.renderer import Renderer
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.class_access import ClassAccess
    from clusterstacks.operator.controllers.clusterstackrelease.drift import DriftDetector
    from clusterstacks.operator.controllers.clusterstackrelease.facts_status import StatusFacts
    from clusterstacks.operator.controllers.clusterstackrelease.source_check import SourceCheck
    from clusterstacks.operator.controllers.provider_objects import ProviderObjects
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import FetchedRelease, ReleaseFetcher
    from clusterstacks.runtime.clock import Clock
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.metrics import Metrics

PROVIDER_RECHECK = timedelta(minutes=5)
"""Interval for provider objects with another name than the release, whose changes do not enqueue it."""

RESYNC = timedelta(minutes=5)
"""Interval at which a settled release is compared with its class objects, as the Go operator's resync."""

OF_CONTENT = (
    ReleaseCondition.DOWNLOADED,
    ReleaseCondition.SOURCE_UNCHANGED,
    ReleaseCondition.SIGNATURE_VERIFIED,
    ReleaseCondition.STAGES_PASSED,
    ReleaseCondition.DEPENDENCIES_RESOLVED,
    ReleaseCondition.FACTS_KEPT,
    ReleaseCondition.CHART_APPLIED,
    ReleaseCondition.CLASS_ACCEPTED,
    ReleaseCondition.NODE_IMAGES_AVAILABLE,
    ReleaseCondition.NODE_IMAGES_AS_STATED,
)
"""Conditions of the verified content, which do not hold for the content that a changed pin names."""

CHANGED_SHOWN = 3
"""Changed objects that a message names; arbitrary."""


class ReleaseUnusable(DependencyError):
    """The content of the source cannot be used. Its author must repair it; no event reports that, so it is retried."""

    def __init__(self, cause: SpecError) -> None:
        super().__init__(cause.code, cause.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReconciler:
    """Downloads and verifies a release, waits for the provider, applies the class, waits for Cluster API and images.

    A release whose objects are all applied is not opened again, so a restart downloads and renders nothing; only
    provider, class and node images are checked, and ``ready`` follows them. The exception is a release whose facts are
    missing in its status, or whose addons lack charts that they depend on: its class can be used, and is not applied
    again.
    """

    client: Client
    fetcher: ReleaseFetcher
    source_check: SourceCheck
    drift: DriftDetector
    renderer: Renderer
    access: ClassAccess
    class_kinds: Collection[GroupKind]
    """Kinds that a class may contain besides Cluster API's, from ``--class-kinds``."""
    image_url: Callable[[ObjectKey], Awaitable[str]] | None
    """Returns the URL at which the operator serves a node image, by namespace and digest; None if it serves none."""
    providers: ProviderObjects
    events: EventRecorder
    facts: StatusFacts
    metrics: Metrics
    clock: Clock

    async def work(self, patch: StatusPatch) -> Outcome | None:
        """Reconcile one release; None while ``clusterctl move`` moves its class."""
        if patch.deleting:
            patch.require_live()
            self.facts.forget(patch.key)
            return await delete_release(patch, self.client, self.access, self.events, self.class_kinds)
        with patch.failing_condition(ReleaseCondition.DOWNLOADED, Reason.ISSUE_WITH_RELEASE):
            name = parse_release(patch.key.name)
        await add_finalizer(patch, RELEASE_FINALIZER, self.client)
        if VerifiedContent.of(patch.status).digest not in ("", patch.annotation(DIGEST_ANNOTATION)):
            for condition in OF_CONTENT:
                patch.drop(condition)
        changed = await self._changed(patch)
        if changed is None:
            return None
        outcome = await self._advance(patch, name, changed)
        # The Go operator's condition for an available source, which scripts wait for.
        if patch.holds(ReleaseCondition.DOWNLOADED):
            patch.true(ReleaseCondition.ASSETS_CLIENT_AVAILABLE)
        else:
            patch.drop(ReleaseCondition.ASSETS_CLIENT_AVAILABLE)
        patch.status["ready"] = isinstance(outcome, Settled)
        return outcome

    async def _advance(self, patch: StatusPatch, name: ReleaseName, changed: list[str]) -> Outcome:
        release = None
        if changed:
            patch.require_live()
            pause = self.drift.repairs.pause(patch.key)
            if pause:
                return Waiting(Reason.CLASS_OBJECTS_CHANGED, _repeated(changed), pause)
            self.drift.repairs.repaired(patch.key)
            message = f"{_named(changed)}; will be applied again"
            patch.false(ReleaseCondition.CHART_APPLIED, Reason.CLASS_OBJECTS_CHANGED, message)
        parts = map(patch.condition, (ReleaseCondition.DOWNLOADED, ReleaseCondition.DEPENDENCIES_RESOLVED))
        whole = all(part is None or part.status == "True" for part in parts)
        applied = patch.holds(ReleaseCondition.CHART_APPLIED) and patch.annotation(DIGEST_ANNOTATION)
        if not (whole and applied):
            release = await self._open(patch, name)
            if release is None:
                return Waiting(Reason.RELEASE_NOT_DOWNLOADED_YET, f"release {name} is being downloaded", None)
        else:
            await self.facts.restore(patch, name)
        refused = await self.source_check.check(patch, name)
        if refused is not None:
            return refused
        waiting = await self._provider(patch)
        if waiting is not None:
            return waiting
        if release is not None and not applied:
            failed = await self._apply(patch, release, changed)
            if failed is not None:
                return failed
        outcome = await self._class_outcome(patch, name)
        images = await wait_for_images(patch, self.drift.find_image, self.clock.now())
        if images is not None and isinstance(outcome, Settled):
            outcome = images
        recheck = min(self.source_check.until_next_check(patch.key), RESYNC)
        return replace(outcome, recheck=recheck) if isinstance(outcome, Settled) else outcome

    async def _class_outcome(self, patch: StatusPatch, name: ReleaseName) -> Outcome:
        """Return Settled when Cluster API has accepted the class; it is read live where the cache may be outdated."""
        known = self.drift.cached_class(patch, name.class_name) if patch.cached else None
        if known is not None and cluster_class_view(known).ready:
            patch.true(ReleaseCondition.CLASS_ACCEPTED)
            return Settled()
        patch.require_live()
        return await class_outcome(patch, name, self.client, partial(self.drift.may_hold, patch.key))

    async def _changed(self, patch: StatusPatch) -> list[str] | None:
        """Return the objects that must be applied again because another writer deleted or changed them."""
        return await self.drift.find_changed(patch) if patch.holds(ReleaseCondition.CHART_APPLIED) else []

    async def _apply(self, patch: StatusPatch, release: Release, changed: list[str]) -> Outcome | None:
        """Apply the class; return None when all its objects are in place."""
        renderer = self.renderer.for_object(patch.key)
        image_url = partial(self._image_url, patch.manifest)
        results = await apply_class_chart(patch, release, renderer, self.client, self.class_kinds, image_url)
        self.drift.applied(patch.key, results)
        changed_objects, failures = sum(one.changed for one in results), sum(not one.synced for one in results)
        unchanged = len(results) - changed_objects - failures
        self.metrics.count_applied(changed=changed_objects, unchanged=unchanged, failed=failures)
        failed = patch.condition(ReleaseCondition.CHART_APPLIED)
        if failed is not None and failed.status == "False":
            return Waiting(failed.reason, failed.message)
        if changed:
            message = f"{_named(changed)}; applied again from release {release.name}"
            await self.events.record(patch.manifest, "Warning", EventReason.CLASS_OBJECTS_RESTORED, message)
        return None

    async def _image_url(self, release: Manifest, digest: str) -> str:
        if self.image_url is None:
            raise SpecError(
                "NodeImageServerDisabled",
                "the release has files of node images, which this operator does not serve: start it with "
                "--node-image-bind-address and --node-image-url (nodeImages.enabled=true of the chart)",
            )
        origin = await self.fetcher.origin(release)
        if not origin.settings.address.kind.holds_images:
            raise images_not_held(origin.settings.address)
        return await self.image_url(ObjectKey(release["metadata"]["namespace"], digest))

    async def _open(self, patch: StatusPatch, name: ReleaseName) -> Release | None:
        """Return the release; None while it is being downloaded."""
        patch.require_live()
        patch.status["ready"] = False
        with patch.failing_condition(ReleaseCondition.DOWNLOADED):
            origin = await self.fetcher.origin(patch.manifest)
        fetched = await self._fetch(patch, name)
        if fetched is None:
            message = f"it is being downloaded from {origin.settings.address}"
            patch.false(ReleaseCondition.DOWNLOADED, Reason.RELEASE_NOT_DOWNLOADED_YET, message, Severity.INFO)
            return None
        release = fetched.release
        pins = PinnedDigests.holding(release)
        if release.incomplete is not None:
            pins = PinnedDigests(release.digest, PinnedDigests.of(patch.manifest).charts)
        if PinnedDigests.of(patch.manifest) != pins:
            await self._pin(patch, pins)
        if fetched.fresh:
            self.source_check.record_download(patch, origin, fetched)
        patch.true(ReleaseCondition.DOWNLOADED)
        if release.incomplete is not None:
            patch.false(ReleaseCondition.DEPENDENCIES_RESOLVED, release.incomplete.code, release.incomplete.message)
        elif release.dependencies:
            patch.true(ReleaseCondition.DEPENDENCIES_RESOLVED)
        else:
            patch.drop(ReleaseCondition.DEPENDENCIES_RESOLVED)
        patch.status["digest"] = release.digest
        patch.status["kubernetesVersion"] = release.metadata.kubernetes.text
        self.facts.write(patch, release)
        return release

    async def _fetch(self, patch: StatusPatch, name: ReleaseName) -> FetchedRelease | None:
        try:
            with patch.failing_condition(ReleaseCondition.DOWNLOADED, Reason.RELEASE_NOT_DOWNLOADED_YET):
                return await self.fetcher.fetch(patch.key, patch.manifest, name)
        except ClusterStacksError as error:
            self._explain(patch, error)
            if isinstance(error, SpecError):
                patch.false(ReleaseCondition.DOWNLOADED, Reason.ISSUE_WITH_RELEASE, error.message)
                raise ReleaseUnusable(error) from error
            raise

    @staticmethod
    def _explain(patch: StatusPatch, error: ClusterStacksError) -> None:
        """Set the condition of the error, where users and tools expect it."""
        if isinstance(error, DigestMismatch):
            set_tag_moved(patch, error.message)
        elif isinstance(error, Unsigned):
            set_unsigned(patch, error.message, required=True)
        elif isinstance(error, SignaturesUnclear):
            set_signatures_unclear(patch, error)
        elif isinstance(error, CHART_ERRORS):
            patch.false(ReleaseCondition.DEPENDENCIES_RESOLVED, error.code, error.message)

    async def _pin(self, patch: StatusPatch, pins: PinnedDigests) -> None:
        """Pin the first download in an annotation, which survives the loss of status; other content is rejected."""
        group, version = split_api_version(patch.manifest["apiVersion"])
        resource = await self.client.resource(group, patch.manifest["kind"], version)
        annotations = {"metadata": {"annotations": pins.annotations()}}
        patch.manifest = await self.client.merge_patch(resource, patch.key.name, annotations, patch.key.namespace)

    async def _provider(self, patch: StatusPatch) -> Outcome | None:
        """Wait for the provider object; return None when there is none or it is ready."""
        reference = ClusterStackRelease.parse(patch.manifest).spec.provider_ref
        if reference is None:
            patch.drop(ReleaseCondition.PROVIDER_READY)
            return None
        title = f"{reference.kind} {patch.key.namespace}/{reference.name}"
        with patch.failing_condition(ReleaseCondition.PROVIDER_READY):
            self.providers.check(reference, patch.key.namespace)
        with patch.failing_condition(ReleaseCondition.PROVIDER_READY, Reason.PROCESS_ONGOING):
            provider = await self.providers.find(reference, patch.key.namespace)
            if provider is not None:
                await own_provider_object(self.client, provider, patch.manifest)
        if provider is not None and (provider.get("status") or {}).get("ready") is True:
            patch.true(ReleaseCondition.PROVIDER_READY)
            return None
        message = f"{title} is not ready yet" if provider is not None else f"{title} does not exist yet"
        patch.false(ReleaseCondition.PROVIDER_READY, Reason.PROCESS_ONGOING, message)
        return Waiting(Reason.PROCESS_ONGOING, message, PROVIDER_RECHECK)


def _named(changed: list[str]) -> str:
    return and_more(changed, CHANGED_SHOWN, separator="; ")


def _repeated(changed: list[str]) -> str:
    return (
        f"{_named(changed)}, soon after it was applied again: another writer changes objects of this class; "
        "stop it: the pauses between repairs increase"
    )
