"""Questions about our own kinds: from what the informers know to the rules of ``webhooks.stack_rules``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.clusteraddon import addon_name
from clusterstacks.api.clusterapi import cluster_view, is_moving
from clusterstacks.api.compatibilityrule import CompatibilityRule
from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.api.provider_refs import ProviderReference, release_refusal, template_refusal
from clusterstacks.domain.documents import at, mapping, mappings, text
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectKey, split_api_version
from clusterstacks.webhooks.answers import ALLOWED, AdmissionResponse
from clusterstacks.webhooks.reviews import Operation
from clusterstacks.webhooks.stack_rules import (
    AddonReference,
    StackIdentity,
    changed_addon,
    changed_stack,
    created_addon,
    created_stack,
    deleted,
    release_users,
    stack_users,
    twin_stack,
    uses_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from clusterstacks.api.provider_refs import KindPattern
    from clusterstacks.kube.client import Client
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.webhooks.reviews import AdmissionRequest
    from clusterstacks.webhooks.stack_rules import Use


CONFIRMED = 10
"""Most users that are looked up before a deletion is refused; so many cannot all have just gone. Arbitrary."""


@dataclass(frozen=True, slots=True)
class StackValidators:
    """Judges our kinds.

    Args:
        client: The management cluster, where a user of what is deleted is looked up once more.
        clusters: All Clusters.
        releases: All ClusterStackReleases.
        stacks: All ClusterStacks.
        provider_kinds: From ``--provider-kinds``.
    """

    client: Client
    clusters: ObjectCache
    releases: ObjectCache
    stacks: ObjectCache
    provider_kinds: Collection[KindPattern]

    async def stack(self, review: AdmissionRequest) -> AdmissionResponse:
        """Judge a ClusterStack."""
        refused = self._provider(review, template_refusal)
        if not refused.allowed:
            return refused
        match review.operation:
            case Operation.CREATE:
                spec = mapping(review.new, "spec")
                no_provider, has_provider = spec.get("noProvider") is True, bool(mapping(spec, "providerRef"))
                answer = created_stack(_versions(review.new), no_provider=no_provider, has_provider=has_provider)
                return answer if not answer.allowed else twin_stack(_key(review.new), self._twins(review.new))
            case Operation.UPDATE:
                return changed_stack(
                    _identity(review.old), _identity(review.new), _versions(review.old), _versions(review.new)
                )
            case Operation.DELETE:
                key = _key(review.old)
                owners = self._owners(key.namespace)
                users = stack_users(_identity(review.old), key.namespace, owners, key.name, self._uses())
                return await self._deleted(review, await self._not_kept(key, owners, users))

    async def release(self, review: AdmissionRequest) -> AdmissionResponse:
        """Judge a ClusterStackRelease."""
        if review.operation is not Operation.DELETE:
            return self._provider(review, release_refusal)
        return await self._deleted(review, release_users(*_key(review.old), self._uses()))

    async def addon(self, review: AdmissionRequest) -> AdmissionResponse:
        """Judge a ClusterAddon."""
        if review.operation is Operation.CREATE:
            reference = _reference(review.new)
            return created_addon(reference, text(review.new, "metadata", "name"), addon_name(reference.name))
        if review.operation is Operation.UPDATE:
            return changed_addon(_reference(review.old), _reference(review.new))
        return ALLOWED

    @staticmethod
    async def rule(review: AdmissionRequest) -> AdmissionResponse:
        """Judge a CompatibilityRule: what cannot be read would never count."""
        if review.operation is Operation.DELETE:
            return ALLOWED
        try:
            CompatibilityRule.parse(review.new).check()
        except SpecError as error:
            return AdmissionResponse(error.message)
        return ALLOWED

    def _provider(self, review: AdmissionRequest, refusal_of: Callable[..., str]) -> AdmissionResponse:
        """Refuse a reference to a provider's object that is new or comes into force; one in force stays."""
        reference = _provider_reference(review.new)
        if reference is None or reference == _provider_reference(review.old):
            return ALLOWED
        return AdmissionResponse(refusal_of(reference, _key(review.new).namespace, self.provider_kinds))

    async def _deleted(self, review: AdmissionRequest, users: Sequence[Use]) -> AdmissionResponse:
        """Refuse a deletion for Clusters that are there still: one that has just gone is not in the way."""
        if is_moving(review.old):
            return ALLOWED
        if len(users) <= CONFIRMED:
            users = [use for use in users if await self._holds(use)]
        return deleted(f"{review.kind} {_key(review.old)}", users)

    def _twins(self, stack: Manifest) -> list[str]:
        """Name the other ClusterStacks of the namespace for the same stack and minor."""
        key, series = _key(stack), _identity(stack).series
        return sorted(
            text(one, "metadata", "name")
            for one in self.stacks.all()
            if _key(one).namespace == key.namespace and _key(one) != key and _identity(one).series == series
        )

    async def _not_kept(
        self, stack: ObjectKey, owners: Mapping[str, Collection[str]], users: Sequence[Use]
    ) -> list[Use]:
        """Give the uses of releases that no other ClusterStack keeps: it owns the release, and exists right now."""
        others = sorted({name for use in users for name in owners.get(use.release.release, ())} - {stack.name})
        keepers = {name for name in others[:CONFIRMED] if await self._stays(ObjectKey(stack.namespace, name))}
        return [use for use in users if not keepers & set(owners.get(use.release.release, ()))]

    async def _stays(self, stack: ObjectKey) -> bool:
        """Tell whether a ClusterStack exists and is not being deleted; read live, as two may be deleted at once."""
        resource = await self.client.resource(GROUP, Kind.CLUSTER_STACK)
        found = await self.client.find_metadata(resource, stack.name, stack.namespace)
        return found is not None and "deletionTimestamp" not in found["metadata"]

    async def _holds(self, use: Use) -> bool:
        resource = await self.client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
        cluster = await self.client.find(resource, use.cluster.name, use.cluster.namespace)
        return cluster is not None and use in _uses_of(cluster)

    def _uses(self) -> Iterator[Use]:
        for manifest in self.clusters.all():
            yield from _uses_of(manifest)

    def _owners(self, namespace: str) -> dict[str, list[str]]:
        """Return, by release of a namespace, the ClusterStacks it belongs to."""
        found: dict[str, list[str]] = {}
        for release in self.releases.all():
            if text(release, "metadata", "namespace") == namespace:
                owners = mappings(release, "metadata", "ownerReferences")
                stacks = [text(one, "name") for one in owners if _is_stack(one)]
                found[text(release, "metadata", "name")] = stacks
        return found


def _uses_of(cluster: Manifest) -> tuple[Use, ...]:
    view = cluster_view(cluster)
    return uses_of(view.key, view.class_name, view.class_namespace, view.annotations)


def _key(manifest: Manifest) -> ObjectKey:
    return ObjectKey(text(manifest, "metadata", "namespace"), text(manifest, "metadata", "name"))


def _is_stack(owner: Manifest) -> bool:
    return text(owner, "kind") == Kind.CLUSTER_STACK and text(owner, "apiVersion").startswith(f"{GROUP}/")


def _identity(stack: Manifest) -> StackIdentity:
    spec = mapping(stack, "spec")
    return StackIdentity(
        text(spec, "provider"), text(spec, "name"), text(spec, "kubernetesVersion"), text(spec, "channel") or "stable"
    )


def _provider_reference(manifest: Manifest) -> ProviderReference | None:
    """Read ``spec.providerRef``; None where there is none or ``noProvider`` puts it out of force."""
    reference = mapping(manifest, "spec", "providerRef")
    if not reference or at(manifest, "spec", "noProvider") is True:
        return None
    group, _ = split_api_version(text(reference, "apiVersion"))
    return ProviderReference(group, text(reference, "kind"), text(reference, "namespace"))


def _versions(stack: Manifest) -> list[str]:
    found = at(stack, "spec", "versions")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _reference(addon: Manifest) -> AddonReference:
    reference = mapping(addon, "spec", "clusterRef")
    namespace = text(reference, "namespace") or text(addon, "metadata", "namespace")
    return AddonReference(text(reference, "kind"), text(reference, "name"), namespace)
