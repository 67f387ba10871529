"""Catalog of the releases for admission: ClusterStackReleases, and on demand further releases of their source."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.clusterapi import class_versions
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION, GROUP, CompatibilityPolicy, Kind
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.operator.class_offer import OfferState
from clusterstacks.operator.controllers.clusterstack.reconciler import subscription_of
from clusterstacks.operator.webhooks.cluster_rules import ClassOffer
from clusterstacks.plan.compat.release_facts import facts_text, read_facts
from clusterstacks.plan.compat.world import Candidate
from clusterstacks.release.sources.owners import leading_stack
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.controllers.class_access import ClassAccess
    from clusterstacks.plan.compat.remote_statements import RemoteStatements
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import ReleaseFetcher
    from clusterstacks.release.sources.periodic_listing import SourceListings
    from clusterstacks.runtime.cache import ObjectCache

MOST_STATED: Final = 1024
"""Number of ClusterStackReleases whose parsed facts stay in memory. Arbitrary: more than there are releases in use."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseCatalog:
    """Reads facts from the status of ClusterStackReleases, then from the disk, and last from a source.

    ``client`` reads classes in a namespace that is not watched.
    """

    client: Client
    releases: ObjectCache
    classes: ObjectCache
    addons: ObjectCache
    access: ClassAccess
    fetcher: ReleaseFetcher
    listings: SourceListings
    statements: RemoteStatements
    _stated: dict[ObjectKey, tuple[str, Candidate | None]] = field(default_factory=dict)
    """By ClusterStackRelease, the facts of its status as text and parsed."""

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        """Return the releases that can be served; see ``KnownReleases`` of the cluster validator."""
        own = await self._find(ObjectKey(namespace, release.release))
        if own is None:
            return self._not_created(namespace, release)
        manifests = {release: own, **self._siblings(namespace, release)}
        candidates: dict[ReleaseName, Candidate] = {}
        for name, manifest in manifests.items():
            candidate = await self._candidate(name, manifest)
            if candidate is not None:
                candidates[name] = candidate
        lacking: dict[ReleaseName, str] = {}
        if release not in candidates and not mapping(own, "metadata", "annotations").get(DIGEST_ANNOTATION):
            lacking[release] = "it has not been downloaded yet"
        for name in sorted({release, *wanted} - candidates.keys() - lacking.keys()):
            fetched = await self._fetch(name, namespace)
            if isinstance(fetched, Candidate):
                candidates[name] = fetched
            else:
                lacking[name] = fetched
        for name, candidate in candidates.items():
            if listed := class_versions(self.classes.get(ObjectKey(namespace, name.class_name)) or {}):
                candidates[name] = replace(candidate, class_versions=listed)
        made_for = text(own, "status", "kubernetesVersion")
        if not made_for and release in candidates:
            made_for = candidates[release].kubernetes.text
        advised = self.statements.known(self._stacks(namespace, release))
        return ClassOffer(made_for, await self._policy(own), candidates, advised, lacking)

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:
        """Return why the namespace may not use a release; see ``KnownReleases`` of the cluster validator."""
        offer = await self.access.decide(cluster, sorted(releases))
        return offer.message if offer.state is OfferState.REFUSED else ""

    async def similar(self, cluster: ClusterView, release: ReleaseName) -> Sequence[str]:
        """Return classes that a user may have meant; see ``KnownReleases`` of the cluster validator."""
        return await self.access.similar(cluster, release)

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:
        """Return, by addon, the release that is completely delivered to a cluster."""
        addon = self.addons.get(ObjectKey(cluster.namespace, addon_name(cluster.name))) or {}
        addons = mappings(addon, "spec", "addons")
        named = {text(entry, "name"): release_named(text(entry, "release")) for entry in addons}
        return {name: release for name, release in named.items() if release is not None}

    def _siblings(self, namespace: str, release: ReleaseName) -> dict[ReleaseName, Manifest]:
        """Return the other releases of the stack in the namespace, whatever their minor."""
        siblings: dict[ReleaseName, Manifest] = {}
        for manifest in self.releases.all():
            name = release_named(text(manifest, "metadata", "name"))
            if name is None or text(manifest, "metadata", "namespace") != namespace or name == release:
                continue
            if name.same_stack(release):
                siblings[name] = manifest
        return siblings

    def _not_created(self, namespace: str, release: ReleaseName) -> ClassOffer | None:
        """Name the ClusterStack that could create a missing release; None if there is none."""
        for stack in self._stacks(namespace, release):
            if stack.spec.kubernetes_version == str(release.kubernetes):
                why = (
                    f"ClusterStack {stack.key} has not created its ClusterStackRelease yet; if it does not, correct "
                    f"the class, or add {release.version} to spec.versions"
                )
                return ClassOffer("", stack.spec.compatibility, lacking={release: why})
        return None

    async def _find(self, key: ObjectKey) -> Manifest | None:
        known = self.releases.get(key)
        if known is not None:
            return known
        return await self.client.find(await self.client.resource(GROUP, Kind.CLUSTER_STACK_RELEASE), *reversed(key))

    async def _candidate(self, name: ReleaseName, manifest: Manifest) -> Candidate | None:
        """Return the facts of a ClusterStackRelease from its status or the disk; None if neither has them."""
        stated = self._of_status(manifest)
        if stated is not None:
            return stated
        try:
            release = await self.fetcher.stored(manifest, name)
        except ClusterStacksError as error:
            log.debug("The facts of release %s cannot be read: %s", name, error)
            return None
        return self._of(release) if release is not None else None

    def _of_status(self, manifest: Manifest) -> Candidate | None:
        """Return the facts in the status; they are parsed again only after a change."""
        key, written = key_of(manifest), facts_text(manifest)
        if not written:
            self._stated.pop(key, None)
            return None
        known = self._stated.get(key)
        if known is None or known[0] != written:
            if len(self._stated) >= MOST_STATED:
                self._stated.clear()
            known = self._stated[key] = (written, read_facts(manifest))
        return known[1]

    async def _fetch(self, name: ReleaseName, namespace: str) -> Candidate | str:
        """Return the facts of a release that is not on disk, or the reason why it cannot be served (yet)."""
        key = ObjectKey(namespace, name.release)
        manifest = await self._find(key) or self._listed(key, name)
        if manifest is None:
            return (
                f"no ClusterStack of namespace {namespace} for Kubernetes {name.kubernetes} offers it or follows a "
                "source that has it; name another release"
            )
        try:
            fetched = await self.fetcher.fetch(key, manifest, name)
        except ClusterStacksError as error:
            return error.message
        if fetched is None:
            return "it is being fetched for the first time, try again in a few seconds"
        return self._of(fetched.release)

    def _listed(self, key: ObjectKey, name: ReleaseName) -> Manifest | None:
        """Return the ClusterStackRelease that a release would get; None if no ClusterStack would create one."""
        for stack in self._stacks(key.namespace, name):
            known = self.listings.known(stack.key) if stack.spec.auto_subscribe else None
            if key.name in (known or ()) and subscription_of(stack).holds(name):
                owner = {"apiVersion": stack.api_version, "kind": stack.kind, "name": stack.key.name}
                return {"metadata": {"name": key.name, "namespace": key.namespace, "ownerReferences": [owner]}}
        return None

    def _stacks(self, namespace: str, release: ReleaseName) -> Iterator[ClusterStack]:
        """Yield the ClusterStacks of a stack in a namespace, whatever their minor, without unreadable ones."""
        for manifest in self.fetcher.stacks.all():
            spec, place = mapping(manifest, "spec"), text(manifest, "metadata", "namespace")
            if (place, spec.get("provider"), spec.get("name")) == (namespace, release.provider, release.stack):
                with suppress(SpecError):
                    yield ClusterStack.parse(manifest)

    def _of(self, release: Release) -> Candidate:
        return Candidate(release.name, release.metadata.kubernetes, release.compatibility)

    async def _policy(self, release: Manifest) -> CompatibilityPolicy:
        stack = await leading_stack(release, self.fetcher.stacks, self.client)
        try:
            return ClusterStack.parse(stack).spec.compatibility if stack is not None else CompatibilityPolicy.RANGE
        except SpecError:
            return CompatibilityPolicy.RANGE
