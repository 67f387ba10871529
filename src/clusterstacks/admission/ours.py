"""Questions about our own kinds: from what the informers know to the rules of ``domain.admission.own``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.admission.reviews import Operation
from clusterstacks.api.clusterapi import cluster_view, is_moving
from clusterstacks.api.compatibilityrule import CompatibilityRule
from clusterstacks.api.names import GROUP, Kind
from clusterstacks.api.reading import at, mapping, mappings, text
from clusterstacks.domain.admission.answers import ALLOWED, Answer
from clusterstacks.domain.admission.own import (
    AddonReference,
    StackIdentity,
    changed_addon,
    changed_stack,
    created_addon,
    created_stack,
    deleted_release,
    deleted_stack,
    uses_of,
)
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.admission.reviews import Review
    from clusterstacks.domain.admission.own import Use
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.runtime.store import Store


@dataclass(frozen=True, slots=True)
class OwnKinds:
    """Judges our kinds.

    Args:
        clusters: All Clusters.
        releases: All ClusterStackReleases.
    """

    clusters: Store
    releases: Store

    def stack(self, review: Review) -> Answer:
        """Judge a ClusterStack."""
        match review.operation:
            case Operation.CREATE:
                spec = mapping(review.new, "spec")
                no_provider, has_provider = spec.get("noProvider") is True, bool(mapping(spec, "providerRef"))
                return created_stack(_versions(review.new), no_provider=no_provider, has_provider=has_provider)
            case Operation.UPDATE:
                return changed_stack(
                    _identity(review.old), _identity(review.new), _versions(review.old), _versions(review.new)
                )
            case Operation.DELETE:
                if is_moving(review.old):
                    return ALLOWED
                metadata = mapping(review.old, "metadata")
                namespace, name = text(metadata, "namespace"), text(metadata, "name")
                return deleted_stack(_identity(review.old), namespace, self._owners(namespace), name, self._uses())

    def release(self, review: Review) -> Answer:
        """Judge a ClusterStackRelease."""
        if review.operation is not Operation.DELETE or is_moving(review.old):
            return ALLOWED
        metadata = mapping(review.old, "metadata")
        return deleted_release(text(metadata, "namespace"), text(metadata, "name"), self._uses())

    def addon(self, review: Review) -> Answer:
        """Judge a ClusterAddon."""
        if review.operation is Operation.CREATE:
            return created_addon(_reference(review.new))
        if review.operation is Operation.UPDATE:
            return changed_addon(_reference(review.old), _reference(review.new))
        return ALLOWED

    @staticmethod
    def rule(review: Review) -> Answer:
        """Judge a CompatibilityRule: what cannot be read would never count."""
        if review.operation is Operation.DELETE:
            return ALLOWED
        try:
            CompatibilityRule.parse(review.new).check()
        except SpecError as error:
            return Answer(error.message)
        return ALLOWED

    def _uses(self) -> Iterator[Use]:
        for manifest in self.clusters.all():
            view = cluster_view(manifest)
            yield from uses_of(view.key, view.class_name, view.class_namespace, view.annotations)

    def _owners(self, namespace: str) -> dict[str, list[str]]:
        """Return, by release of a namespace, the ClusterStacks it belongs to."""
        found: dict[str, list[str]] = {}
        for release in self.releases.all():
            if text(release, "metadata", "namespace") == namespace:
                owners = mappings(release, "metadata", "ownerReferences")
                stacks = [text(one, "name") for one in owners if _is_stack(one)]
                found[text(release, "metadata", "name")] = stacks
        return found


def _is_stack(owner: Manifest) -> bool:
    return text(owner, "kind") == Kind.CLUSTER_STACK and text(owner, "apiVersion").startswith(f"{GROUP}/")


def _identity(stack: Manifest) -> StackIdentity:
    spec = mapping(stack, "spec")
    return StackIdentity(
        text(spec, "provider"), text(spec, "name"), text(spec, "kubernetesVersion"), text(spec, "channel") or "stable"
    )


def _versions(stack: Manifest) -> list[str]:
    found = at(stack, "spec", "versions")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _reference(addon: Manifest) -> AddonReference:
    reference = mapping(addon, "spec", "clusterRef")
    namespace = text(reference, "namespace") or text(addon, "metadata", "namespace")
    return AddonReference(text(reference, "kind"), text(reference, "name"), namespace)
