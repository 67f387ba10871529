"""Validates our own kinds: reads the inputs of the rules in :mod:`.stack_rules`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import at, mapping, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.clusterapi import cluster_view, is_moving
from clusterstacks.model.kinds.clusterupgrade import ClusterUpgrade
from clusterstacks.model.kinds.compatibilityrule import CompatibilityRule
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.model.kinds.provider_refs import ProviderReference, release_refusal, template_refusal
from clusterstacks.model.objects import Manifest, ObjectKey, split_api_version
from clusterstacks.operator.webhooks.answers import ALLOWED, AdmissionResponse
from clusterstacks.operator.webhooks.reviews import Operation
from clusterstacks.operator.webhooks.stack_rules import (
    AddonReference,
    StackIdentity,
    changed_addon,
    changed_stack,
    created_addon,
    created_stack,
    deletion,
    release_users,
    stack_users,
    twin_stack,
    uses_of,
)
from clusterstacks.release.sources.owners import is_stack

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence

    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.kinds.provider_refs import KindPattern
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.class_offer import ReleaseUse
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest
    from clusterstacks.runtime.cache import ObjectCache

CONFIRMED = 10
"""Number of uses that are read again before a deletion is refused. Arbitrary: more cannot all have ended just now."""


@dataclass(frozen=True, slots=True)
class StackValidators:
    """Validates our kinds; the caches have all objects of their kind."""

    client: Client
    """Reads a Cluster again that uses an object to be deleted."""
    clusters: ObjectCache
    releases: ObjectCache
    stacks: ObjectCache
    provider_kinds: Collection[KindPattern]
    counts: Callable[[ClusterView, ReleaseName], Awaitable[bool]]
    """Returns whether a Cluster was admitted with its class, or is offered a release."""

    async def stack(self, request: AdmissionRequest) -> AdmissionResponse:
        """Validate a ClusterStack: provider object, immutable fields, versions, and Clusters on deletion."""
        refused = self._provider(request, template_refusal)
        if not refused.allowed:
            return refused
        match request.operation:
            case Operation.CREATE:
                spec = mapping(request.new, "spec")
                no_provider, has_provider = spec.get("noProvider") is True, bool(mapping(spec, "providerRef"))
                answer = created_stack(_versions(request.new), no_provider=no_provider, has_provider=has_provider)
                return answer if not answer.allowed else twin_stack(_key(request.new), self._twins(request.new))
            case Operation.UPDATE:
                return changed_stack(
                    _identity(request.old), _identity(request.new), _versions(request.old), _versions(request.new)
                )
            case Operation.DELETE:
                key = _key(request.old)
                owners = self._owners(key.namespace)
                users = stack_users(_identity(request.old), key.namespace, owners, key.name, self._uses())
                return await self._deleted(request, await self._not_kept(key, owners, users))

    async def release(self, request: AdmissionRequest) -> AdmissionResponse:
        """Validate a ClusterStackRelease: its provider object, and Clusters on deletion."""
        if request.operation is not Operation.DELETE:
            return self._provider(request, release_refusal)
        return await self._deleted(request, release_users(*_key(request.old), self._uses()))

    async def addon(self, request: AdmissionRequest) -> AdmissionResponse:
        """Validate a ClusterAddon: one for each Cluster, with a fixed name and reference."""
        if request.operation is Operation.CREATE:
            reference = _reference(request.new)
            return created_addon(reference, text(request.new, "metadata", "name"), addon_name(reference.name))
        if request.operation is Operation.UPDATE:
            return changed_addon(_reference(request.old), _reference(request.new))
        return ALLOWED

    @staticmethod
    async def rule(request: AdmissionRequest) -> AdmissionResponse:
        """Validate a CompatibilityRule: one that cannot be parsed would have no effect."""
        if request.operation is Operation.DELETE:
            return ALLOWED
        try:
            CompatibilityRule.parse(request.new).check()
        except SpecError as error:
            return AdmissionResponse(error.message)
        return ALLOWED

    async def upgrade(self, request: AdmissionRequest) -> AdmissionResponse:
        """Validate a ClusterUpgrade: its spec, and that its writer may update all Clusters that it may ever select.

        A ClusterStacksError says that the API server does not answer.
        """
        if request.operation is Operation.DELETE:
            return ALLOWED
        try:
            upgrade = ClusterUpgrade.parse(request.new)
            upgrade.check()
        except SpecError as error:
            return AdmissionResponse(error.message)
        user, namespace = request.user, upgrade.key.namespace
        if await self._may_update_clusters(user, namespace):
            return ALLOWED
        return AdmissionResponse(
            f"ClusterUpgrade {upgrade.key}: user {text(user, 'username') or 'without a name'} may not update "
            f"clusters.{CLUSTER_API_GROUP} in namespace {namespace}, and the operator would do it for that user: ask "
            "for this right on all Clusters of the namespace, because a selector can match more of them later"
        )

    async def _may_update_clusters(self, user: Manifest, namespace: str) -> bool:
        resource = await self.client.resource("authorization.k8s.io", "SubjectAccessReview")
        asked = {"namespace": namespace, "verb": "update", "group": CLUSTER_API_GROUP, "resource": "clusters"}
        who = {"user": "username", "groups": "groups", "uid": "uid", "extra": "extra"}
        spec = {field: user[known] for field, known in who.items() if user.get(known)}
        review = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "spec": {**spec, "resourceAttributes": asked},
        }
        return at(await self.client.create(resource, review), "status", "allowed") is True

    def _provider(self, request: AdmissionRequest, refusal_of: Callable[..., str]) -> AdmissionResponse:
        """Refuse a reference to a provider object that is new or takes effect now; an existing one stays."""
        reference = _provider_reference(request.new)
        if reference is None or reference == _provider_reference(request.old):
            return ALLOWED
        return AdmissionResponse(refusal_of(reference, _key(request.new).namespace, self.provider_kinds))

    async def _deleted(self, request: AdmissionRequest, users: Sequence[ReleaseUse]) -> AdmissionResponse:
        """Refuse a deletion while Clusters use the object; they are read again, because the cache may be behind."""
        if is_moving(request.old):
            return ALLOWED
        users = [use for use in users if await self._is_user(use, self.clusters.get(use.cluster))]
        if len(users) <= CONFIRMED:
            users = [use for use in users if await self._is_user(use, await self._live(use.cluster))]
        key = _key(request.old)
        return deletion(f"{request.kind} {key}", key.namespace, users)

    def _twins(self, stack: Manifest) -> list[str]:
        """Return the names of the other ClusterStacks of the namespace for the same stack and minor."""
        key, series = _key(stack), _identity(stack).series
        return sorted(
            text(other, "metadata", "name")
            for other in self.stacks.all()
            if _key(other).namespace == key.namespace and _key(other) != key and _identity(other).series == series
        )

    async def _not_kept(
        self, stack: ObjectKey, owners: Mapping[str, Collection[str]], users: Sequence[ReleaseUse]
    ) -> list[ReleaseUse]:
        """Return the uses of releases that would lose their last owner."""
        others = sorted({name for use in users for name in owners.get(use.release.release, ())} - {stack.name})
        keepers = {name for name in others[:CONFIRMED] if await self._stays(ObjectKey(stack.namespace, name))}
        return [use for use in users if not keepers & set(owners.get(use.release.release, ()))]

    async def _stays(self, stack: ObjectKey) -> bool:
        """Return whether a ClusterStack exists and is not being deleted; read live: two may be deleted at once."""
        resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK)
        metadata = await self.client.find_metadata(resource, stack.name, stack.namespace)
        return metadata is not None and "deletionTimestamp" not in metadata["metadata"]

    async def _is_user(self, use: ReleaseUse, cluster: Manifest | None) -> bool:
        """Return whether a Cluster uses a release; a user who only names one must not prevent its deletion."""
        return (
            cluster is not None and use in _uses_of(cluster) and await self.counts(cluster_view(cluster), use.release)
        )

    async def _live(self, cluster: ObjectKey) -> Manifest | None:
        resource = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        return await self.client.find(resource, cluster.name, cluster.namespace)

    def _uses(self) -> Iterator[ReleaseUse]:
        for manifest in self.clusters.all():
            yield from _uses_of(manifest)

    def _owners(self, namespace: str) -> dict[str, list[str]]:
        """Return, by release of a namespace, the ClusterStacks that own it."""
        stacks_of: dict[str, list[str]] = {}
        for release in self.releases.all():
            if text(release, "metadata", "namespace") == namespace:
                owners = mappings(release, "metadata", "ownerReferences")
                stacks = [text(owner, "name") for owner in owners if is_stack(owner)]
                stacks_of[text(release, "metadata", "name")] = stacks
        return stacks_of


def _uses_of(cluster: Manifest) -> tuple[ReleaseUse, ...]:
    view = cluster_view(cluster)
    return uses_of(view.key, view.class_name, view.class_namespace, view.annotations)


def _key(manifest: Manifest) -> ObjectKey:
    return ObjectKey(text(manifest, "metadata", "namespace"), text(manifest, "metadata", "name"))


def _identity(stack: Manifest) -> StackIdentity:
    spec = mapping(stack, "spec")
    return StackIdentity(
        text(spec, "provider"), text(spec, "name"), text(spec, "kubernetesVersion"), text(spec, "channel") or "stable"
    )


def _provider_reference(manifest: Manifest) -> ProviderReference | None:
    """Read ``spec.providerRef``; None where it is missing or ``noProvider`` disables it."""
    reference = mapping(manifest, "spec", "providerRef")
    if not reference or at(manifest, "spec", "noProvider") is True:
        return None
    group, _ = split_api_version(text(reference, "apiVersion"))
    return ProviderReference(group, text(reference, "kind"), text(reference, "namespace"))


def _versions(stack: Manifest) -> list[str]:
    versions = at(stack, "spec", "versions")
    return [version for version in versions if isinstance(version, str)] if isinstance(versions, list) else []


def _reference(addon: Manifest) -> AddonReference:
    reference = mapping(addon, "spec", "clusterRef")
    namespace = text(reference, "namespace") or text(addon, "metadata", "namespace")
    return AddonReference(text(reference, "kind"), text(reference, "name"), namespace)
