"""What decides whether Clusters may use releases, with given objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, GROUP, Kind
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.class_access import ClassAccess
from clusterstacks.release.sources.owners import STACK_INDEX, stacks_owning
from clusterstacks.runtime.cache import ObjectCache, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client

RELEASES = Resource(GROUP, "v1alpha1", Kind.CLUSTER_STACK_RELEASE.value, "clusterstackreleases", namespaced=True)
STACKS = Resource(GROUP, "v1alpha1", Kind.CLUSTER_STACK.value, "clusterstacks", namespaced=True)
CLASSES = Resource(CLUSTER_API_GROUP, "v1beta2", CLUSTER_CLASS_KIND, "clusterclasses", namespaced=True)
READ = (RELEASES, STACKS, CLASSES)
"""What it may read from the API server, besides namespaces."""


def class_access(
    client: Client,
    *,
    stacks: Iterable[Manifest] = (),
    releases: Iterable[Manifest] = (),
    addons: Iterable[Manifest] = (),
    listed: Iterable[str] | None = (),
) -> ClassAccess:
    """Return what decides, with these objects in the caches; ``listed`` is in every source, None while unknown."""
    kept = ObjectCache({STACK_INDEX: stacks_owning})
    for manifest in releases:
        kept.put(key_of(manifest), manifest)
    names = None if listed is None else frozenset(listed)

    def list_source(stack: ObjectKey) -> frozenset[str] | None:  # noqa: ARG001 - all sources have the same releases
        return names

    return ClassAccess(client=client, stacks=cached(stacks), releases=kept, addons=cached(addons), listed=list_source)


def cached(manifests: Iterable[Manifest]) -> ObjectCache:
    """Return a cache with these objects."""
    cache = ObjectCache()
    for manifest in manifests:
        cache.put(key_of(manifest), manifest)
    return cache
