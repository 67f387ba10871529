"""Reconciles ClusterStacks: lists releases, decides which to keep, creates and deletes them, summarises them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import mappings, text
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.names import EventReason, Reason, StackCondition
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.outcomes import Outcome, Settled, Waiting
from clusterstacks.model.versions import KubernetesMinor, StackVersion
from clusterstacks.operator.controllers.class_usage import CLASS_NAMESPACE_INDEX, release_of, releases_used
from clusterstacks.operator.controllers.clusterstack.missing_versions import lacking, nothing
from clusterstacks.operator.controllers.clusterstack.owned_releases import summarise
from clusterstacks.operator.controllers.clusterstack.provider_template import (
    ensure_provider_object,
    provider_object,
    read_template,
)
from clusterstacks.operator.controllers.clusterstack.retention import (
    ReleaseAction,
    Retention,
    Subscription,
    decide_retention,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.model.kinds.meta import ObjectReference
    from clusterstacks.model.kinds.provider_refs import KindPattern
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.class_access import ClassAccess
    from clusterstacks.operator.controllers.clusterstack.owned_releases import OwnedReleases
    from clusterstacks.operator.controllers.held_reports import HeldReports
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.sources.periodic_listing import SourceListings
    from clusterstacks.release.sources.stack_source import SourcePolicy
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.events import EventRecorder

NO_RELEASE_READY = "NoReleaseReady"

RESYNC = timedelta(minutes=5)
"""Interval that bounds the effect of a lost event, as the Go operator's resync."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """The release names of a source; None, with the error, when it cannot be listed."""

    names: frozenset[str] | None
    trouble: ClusterStacksError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StackReconciler:
    """Creates and deletes the releases of one stack."""

    client: Client
    source_policy: SourcePolicy
    listings: SourceListings
    clusters: ObjectCache
    addons: ObjectCache
    access: ClassAccess
    releases: OwnedReleases
    events: EventRecorder
    provider_kinds: Collection[KindPattern]
    held: HeldReports

    async def work(self, patch: StatusPatch) -> Outcome | timedelta | None:
        """Reconcile one ClusterStack; None until its source was listed for the first time."""
        if patch.deleting:
            return Settled()  # the garbage collector deletes its releases
        stack = ClusterStack.parse(patch.manifest)
        subscription = subscription_of(stack)
        listed = self._listed(patch, stack)
        if listed is None:
            return None
        existing = self.releases.existing(stack)
        decision = decide_retention(
            subscription,
            listed=listed.names,
            existing=existing,
            classes_in_use=self._classes_in_use(stack.key.namespace),
            addons_in_use=self._addons_in_use(stack.key.namespace),
            granted=await self._granted(
                stack.key.namespace, {release.name for release in existing}, listed.names or ()
            ),
        )
        try:
            await self._provide(patch, stack, decision)
            await self._prune(patch, stack, decision)
        finally:
            summarise(patch, self.releases.of(stack), decision)
        if listed.trouble is not None:
            raise listed.trouble
        outcome = self._report_missing(patch, stack, subscription) or self._outcome(
            patch, stack, subscription, decision
        )
        return self.held.left(patch, outcome, {Reason.PROCESS_ONGOING, NO_RELEASE_READY}) or outcome

    def _listed(self, patch: StatusPatch, stack: ClusterStack) -> _Listed | None:
        """Return the releases of the source; None before its first listing, which then enqueues the stack."""
        try:
            with patch.failing_condition(StackCondition.RELEASES_SYNCED):
                settings = self.source_policy.settings(stack)
            if not stack.spec.auto_subscribe:
                patch.drop(StackCondition.RELEASES_SYNCED)
                patch.drop(StackCondition.ASSETS_CLIENT_AVAILABLE)
                return _Listed(frozenset())
            listing = self.listings.follow(stack.key, settings)
            if not listing.is_read:
                return None
            with patch.failing_condition(StackCondition.RELEASES_SYNCED, Reason.FAILED_TO_SYNC):
                names = listing.names()
        except ClusterStacksError as error:
            patch.false(StackCondition.ASSETS_CLIENT_AVAILABLE, Reason.ASSETS_CLIENT_FAILED, error.message)
            return _Listed(None, error)
        patch.true(StackCondition.RELEASES_SYNCED)
        patch.true(StackCondition.ASSETS_CLIENT_AVAILABLE)
        return _Listed(names)

    def _classes_in_use(self, namespace: str) -> list[str]:
        """Return the class of every Cluster, and its previous one: until its addons are upgraded it may go back."""
        used: list[str] = []
        for cluster in self.clusters.by_index(CLASS_NAMESPACE_INDEX, namespace):
            view = cluster_view(cluster)
            addon = self.addons.get(ObjectKey(view.namespace, addon_name(view.name))) or {}
            coming_from = text(addon, "spec", "clusterStack") if release_of(view) else ""
            used += {view.class_name, coming_from}
        return used

    def _addons_in_use(self, namespace: str) -> list[str]:
        """Return releases that Clusters' annotations name, and those whose addons are still delivered."""
        used: list[str] = []
        for cluster in self.clusters.by_index(CLASS_NAMESPACE_INDEX, namespace):
            view = cluster_view(cluster)
            own = release_of(view)
            if own is None:
                continue
            addon = self.addons.get(ObjectKey(view.namespace, addon_name(view.name))) or {}
            delivered = {text(entry, "release") for entry in mappings(addon, "spec", "addons")}
            used += ({key.name for key in releases_used(view)} | delivered) - {own.name, ""}
        return used

    async def _granted(self, namespace: str, existing: Collection[str], listed: Collection[str]) -> set[ReleaseName]:
        """Return the missing releases that a Cluster names and may use: of the source, or of its admitted class."""
        granted: set[ReleaseName] = set()
        for cluster in self.clusters.by_index(CLASS_NAMESPACE_INDEX, namespace):
            view = cluster_view(cluster)
            has_class = self.access.has_class(view)
            for key in releases_used(view):
                if key.name not in existing and (has_class or key.name in listed):
                    name = parse_release(key.name)
                    if name not in granted and await self.access.is_offered(view, name):
                        granted.add(name)
        return granted

    async def _provide(self, patch: StatusPatch, stack: ClusterStack, decision: Retention) -> None:
        """Create what is missing: first the provider object of a release, then the release."""
        if decision.doing(ReleaseAction.CREATE):
            patch.require_live()
        wanted = [
            kept
            for kept in decision.decisions
            if kept.action in {ReleaseAction.CREATE, ReleaseAction.KEEP} and kept.release
        ]
        template = None
        if stack.spec.no_provider:
            patch.drop(StackCondition.PROVIDER_RELEASES_SYNCED)
        else:
            patch.require_live()
            with patch.failing_condition(StackCondition.PROVIDER_RELEASES_SYNCED):
                template = await read_template(self.client, stack, self.provider_kinds)
        for kept in wanted:
            if self.releases.led_by_another(stack, kept.name):
                with patch.failing_condition(StackCondition.RELEASE_OBJECTS_SYNCED, Reason.FAILED_TO_CREATE_OR_UPDATE):
                    await self.releases.join(patch.manifest, kept)
                continue
            reference: ObjectReference | None = None
            if template is not None:
                with patch.failing_condition(
                    StackCondition.PROVIDER_RELEASES_SYNCED, Reason.FAILED_TO_CREATE_OR_UPDATE
                ):
                    provider = provider_object(template, patch.manifest, kept.name)
                    reference = await ensure_provider_object(self.client, self.events, patch.manifest, provider)
            with patch.failing_condition(StackCondition.RELEASE_OBJECTS_SYNCED, Reason.FAILED_TO_CREATE_OR_UPDATE):
                await self.releases.ensure(patch.manifest, kept, reference)
        if template is not None:
            patch.true(StackCondition.PROVIDER_RELEASES_SYNCED)
        patch.true(StackCondition.RELEASE_OBJECTS_SYNCED)

    async def _prune(self, patch: StatusPatch, stack: ClusterStack, decision: Retention) -> None:
        for spare in decision.doing(ReleaseAction.DELETE):
            patch.require_live()
            try:
                await self.releases.delete(patch.manifest, spare)
            except ClusterStacksError as error:
                message = f"ClusterStackRelease {stack.key.namespace}/{spare.name} was not deleted: {error.message}"
                await self.events.record(patch.manifest, "Warning", EventReason.FAILED_TO_DELETE_RELEASE, message)
                raise

    def _report_missing(self, patch: StatusPatch, stack: ClusterStack, subscription: Subscription) -> Outcome | None:
        """Report versions of the spec that the source lacks; None when it has all that are not ready yet.

        For a ClusterStack without a channel the source is listed only while a version is not ready.
        """
        patch.drop(StackCondition.VERSIONS_AVAILABLE)
        ready = {release.name for release in self.releases.existing(stack) if release.ready}
        wanted = [subscription.release(version) for version in subscription.versions]
        pending = [name for name in wanted if name.release not in ready]
        if not pending:
            if not stack.spec.auto_subscribe:
                self.listings.unfollow(stack.key)
            return None
        listing = self.listings.follow(stack.key, self.source_policy.settings(stack))
        source = str(listing.settings.address)
        if not listing.is_read:
            message = f"{pending[0]} is not ready, and {source} is being listed"
            return Waiting(Reason.PROCESS_ONGOING, message, None)
        try:
            message = lacking(pending, listing.names(), source)
        except ClusterStacksError as error:
            return Waiting(Reason.FAILED_TO_SYNC, f"{pending[0]} is not ready: {error.message}", RESYNC)
        if not message:
            return None
        message = f"{message}; publish it, or correct the spec"
        patch.false(StackCondition.VERSIONS_AVAILABLE, Reason.VERSIONS_MISSING, message)
        if not ready:
            patch.false(StackCondition.RELEASE_AVAILABLE, NO_RELEASE_READY, message, Severity.INFO)
        return Waiting(Reason.VERSIONS_MISSING, message, RESYNC)

    def _outcome(
        self, patch: StatusPatch, stack: ClusterStack, subscription: Subscription, decision: Retention
    ) -> Outcome:
        if decision.latest_ready is not None:
            patch.true(StackCondition.RELEASE_AVAILABLE)
            return Settled(RESYNC)
        message, severity = "no release is ready yet", Severity.WARNING if not decision.decisions else Severity.INFO
        if not decision.decisions and not subscription.auto_subscribe:
            message = "spec.versions is empty and spec.autoSubscribe is false: name a version, or set autoSubscribe"
        elif not decision.decisions:
            settings, example = self.source_policy.settings(stack), subscription.release(StackVersion(0))
            message = nothing(subscription, example, self.listings.known(stack.key) or (), str(settings.address))
        patch.false(StackCondition.RELEASE_AVAILABLE, NO_RELEASE_READY, message, severity)
        return Waiting(NO_RELEASE_READY, message, RESYNC)


def subscription_of(stack: ClusterStack) -> Subscription:
    """Parse the spec; a SpecError names the ClusterStack and the field that is not valid."""
    spec = stack.spec
    try:
        return Subscription(
            provider=spec.provider,
            stack=spec.name,
            kubernetes=KubernetesMinor.parse(spec.kubernetes_version),
            channel=spec.channel.value,
            versions=tuple(StackVersion.parse(version) for version in spec.versions),
            auto_subscribe=spec.auto_subscribe,
            staged=spec.is_staged,
        )
    except SpecError as error:
        raise SpecError(error.code, f"ClusterStack {stack.key}: {error.message}") from error
