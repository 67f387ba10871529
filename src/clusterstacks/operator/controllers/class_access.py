"""Decides whether Clusters may use releases: reads ClusterStacks, releases and earlier admissions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.cluster_namespaces import NamespacesFrom
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, GROUP, Kind
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.versions import StackVersion
from clusterstacks.net.kube.errors import NotFound
from clusterstacks.operator.class_offer import (
    OFFERED,
    OfferDecision,
    OfferState,
    ReleaseUse,
    StackOffer,
    decide_offer,
    similar_classes,
)
from clusterstacks.release.sources.owners import STACK_INDEX, is_stack
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from clusterstacks.model.kinds.cluster_namespaces import ClusterNamespaces
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.net.kube.client import Client
    from clusterstacks.runtime.cache import ObjectCache

CLASS_NOT_OFFERED = "ClassNotOffered"
"""Reason of event and condition when a class is not offered to a Cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassAccess:
    """Decides whether Clusters may use releases, for the webhooks and the controllers.

    It sends requests only for the labels of a Cluster's namespace, if a rule selects by labels, for a class that is to
    be refused, and for objects in namespaces that the operator may not watch.
    """

    client: Client
    stacks: ObjectCache
    releases: ObjectCache
    addons: ObjectCache
    """The ClusterAddons, whose status records which Clusters were admitted."""
    listed: Callable[[ObjectKey], frozenset[str] | None]
    """Returns the names in the source of a ClusterStack; None while it was not listed."""

    async def decide(self, cluster: ClusterView, releases: Iterable[ReleaseName]) -> OfferDecision:
        """Decide whether a Cluster may use releases in the namespace of its class; the first refused one counts."""
        for release in releases:
            decision = await self._decide(cluster, release)
            if decision.state is not OfferState.OFFERED:
                return decision
        return OFFERED

    async def is_offered(self, cluster: ClusterView, release: ReleaseName) -> bool:
        """Return whether a release is created for a Cluster that names it."""
        return (await self._decide(cluster, release, explain=False)).state is OfferState.OFFERED

    async def counts(self, cluster: ClusterView, release: ReleaseName) -> bool:
        """Return whether the use of a release prevents its deletion: not if it was never offered to the Cluster."""
        return self._has(cluster, release) or await self.is_offered(cluster, release)

    def has_class(self, cluster: ClusterView) -> bool:
        """Return whether this Cluster was admitted with its class, even if the offer has ended since."""
        uid, admitted = self._admitted(cluster.key)
        return admitted == cluster.class_key and uid in ("", cluster.uid)

    def _has(self, cluster: ClusterView, release: ReleaseName) -> bool:
        """Return whether a Cluster was admitted with a release: as its class, or as one that its addons came from."""
        addon = self.addons.get(ObjectKey(cluster.namespace, addon_name(cluster.name))) or {}
        delivered = {text(entry, "release") for entry in mappings(addon, "status", "addons")}
        return self.has_class(cluster) and (release.class_name == cluster.class_name or release.release in delivered)

    def had_class(self, cluster: ObjectKey, release: ObjectKey) -> bool:
        """Return whether a Cluster that cannot be read was last admitted with the class of a release."""
        named = release_named(release.name)
        return named is not None and self._admitted(cluster)[1] == ObjectKey(release.namespace, named.class_name)

    def _admitted(self, cluster: ObjectKey) -> tuple[str, ObjectKey]:
        """Return the uid and the class of the last admission, from the status, which users cannot write."""
        addon = self.addons.get(ObjectKey(cluster.namespace, addon_name(cluster.name))) or {}
        admitted = mapping(addon, "status", "admitted")
        return text(admitted, "clusterUid"), ObjectKey(text(admitted, "classNamespace"), text(admitted, "class"))

    async def _decide(self, cluster: ClusterView, release: ReleaseName, *, explain: bool = True) -> OfferDecision:
        """Decide about one release; without ``explain``, only whether it is offered is correct."""
        is_class = release.class_name == cluster.class_name
        if is_class and self.has_class(cluster):
            return OFFERED
        use = ReleaseUse(cluster.key, cluster.class_namespace, release, is_class)
        key = ObjectKey(use.namespace, use.release.release)
        stacks = {key_of(stack): stack for stack in self.stacks.all() if _is_of_series(stack, use)}
        manifest = self.releases.get(key)
        if manifest is None and not stacks:  # the operator may not watch the namespace
            manifest = await self._find(Kind.CLUSTER_STACK_RELEASE, key)
        owners = [ObjectKey(use.namespace, owner["name"]) for owner in _owners(manifest) if is_stack(owner)]
        for owner in owners:
            if owner not in stacks and (stack := await self._stack(owner)) is not None:
                stacks[owner] = stack
        is_unowned = manifest is not None and not owners
        offers = [
            await self._offer(stacks[stack], use, exists=is_unowned or stack in owners, explain=explain)
            for stack in sorted(stacks)
        ]
        similar = await self.similar(cluster, release) if explain and not offers and not is_unowned else ()
        decision = decide_offer(use, offers, is_unowned=is_unowned, similar=similar)
        is_missing = explain and manifest is None and decision.state is OfferState.REFUSED
        return OFFERED if is_missing and await self._is_moved(use, offers) else decision

    async def similar(self, cluster: ClusterView, release: ReleaseName) -> Sequence[str]:
        """Return classes with similar names that the Cluster may use; others are not told to its users."""
        named = (
            release_named(key.name)
            for key in map(key_of, self.releases.all())
            if key.namespace == cluster.class_namespace
        )
        near = similar_classes(release, filter(None, named))
        return [name.class_name for name in near if await self.is_offered(cluster, name)]

    async def _stack(self, key: ObjectKey) -> Manifest | None:
        return self.stacks.get(key) or await self._find(Kind.CLUSTER_STACK, key)

    async def _offer(self, manifest: Manifest, use: ReleaseUse, *, exists: bool, explain: bool) -> StackOffer:
        """Return what a ClusterStack offers to a Cluster; ``exists`` says whether it has the release already."""
        key, provider = key_of(manifest), text(manifest, "spec", "provider")
        try:
            spec = ClusterStack.parse(manifest).spec
            named = [replace(use.release, version=StackVersion.parse(version)) for version in spec.versions]
        except SpecError as error:
            return StackOffer(key, provider, problem=error.message)
        listed = self.listed(key) if spec.auto_subscribe else frozenset()
        owned = [text(release, "metadata", "name") for release in self.releases.by_index(STACK_INDEX, str(key))]
        series = f"{use.release.series}-"
        names = (release_named(name) for name in (*owned, *(listed or ())) if name.startswith(series))
        same = (name for name in names if name is not None and name.series == use.release.series)
        releases = frozenset({*named, *same, *([use.release] if exists else [])})
        return StackOffer(
            key,
            provider,
            admits=(explain or use.release in releases) and await self._admits(spec.cluster_namespaces, key, use),
            releases=releases,
            is_listed=listed is not None,
        )

    async def _admits(self, rule: ClusterNamespaces | None, stack: ObjectKey, use: ReleaseUse) -> bool:
        namespace, labels = use.cluster.namespace, {}
        if rule is not None and rule.from_ is NamespacesFrom.SELECTOR and stack.namespace != namespace:
            labels = await self._namespace_labels(namespace)
        return rule is None or rule.admit(namespace, stack_namespace=stack.namespace, labels=labels)

    async def _is_moved(self, use: ReleaseUse, offers: Iterable[StackOffer]) -> bool:
        """Return whether the class exists before its release, as during ``clusterctl move``."""
        if not any(offer.admits for offer in offers):
            return False
        key = ObjectKey(use.namespace, use.release.class_name)
        cluster_class = await self._find(CLUSTER_CLASS_KIND, key, CLUSTER_API_GROUP)
        return cluster_class is not None and "deletionTimestamp" not in cluster_class["metadata"]

    async def _find(self, kind: str, key: ObjectKey, group: str = GROUP) -> Manifest | None:
        return await self.client.find(await self.client.resource(group, kind), key.name, key.namespace)

    async def _namespace_labels(self, name: str) -> dict[str, str]:
        try:
            namespace = await self.client.get(await self.client.resource("", "Namespace"), name)
        except NotFound:
            return {}
        return dict(namespace["metadata"].get("labels") or {})


def _owners(release: Manifest | None) -> list[Manifest]:
    return (release or {"metadata": {}})["metadata"].get("ownerReferences") or []


def _is_of_series(stack: Manifest, use: ReleaseUse) -> bool:
    spec, release = mapping(stack, "spec"), use.release
    named = (
        text(stack, "metadata", "namespace"),
        spec.get("provider"),
        spec.get("name"),
        spec.get("kubernetesVersion"),
    )
    return named == (use.namespace, release.provider, release.stack, str(release.kubernetes))
