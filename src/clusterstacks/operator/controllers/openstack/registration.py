"""Registers the controllers of the kinds of cluster-stack-provider-openstack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.model.kinds.names import Kind, OpenStackKind, ReleaseCondition
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.object_reader import CachedReader
from clusterstacks.operator.controllers.openstack.reconcilers import NodeImageReconciler, OpenStackReleaseReconciler
from clusterstacks.operator.controllers.openstack.rules import owners
from clusterstacks.operator.controllers.registration import (
    CachedKind,
    Reconciler,
    Registration,
    Watch,
    present,
    self_key,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.operator.controllers.registration import ControllerContext
    from clusterstacks.runtime.cache import CacheChange

ADVISORY: Final = frozenset({ReleaseCondition.NODE_IMAGES_AS_STATED.value})

_NODE_IMAGE, _RELEASE, _IMAGE = OpenStackKind.NODE_IMAGE, OpenStackKind.RELEASE, IMAGE_KIND[1]
_CACHES: Final = (
    *(CachedKind(group=kind.group, kind=kind, required=False) for kind in (_RELEASE, _NODE_IMAGE)),
    CachedKind(group=IMAGE_KIND[0], kind=_IMAGE, required=False),
)


def _reader(env: ControllerContext) -> CachedReader:
    informers = {(one.group, one.kind): env.informers[one.kind] for one in _CACHES}
    return CachedReader(client=env.client, informers=informers)


def _build_release(env: ControllerContext) -> Reconciler:
    objects, fetcher = env.cache(_RELEASE), env.make_fetcher(env.enqueue(_RELEASE.lower()))
    releases = env.cache(Kind.CLUSTER_STACK_RELEASE)
    reconciler = OpenStackReleaseReconciler(client=env.client, reads=_reader(env), fetcher=fetcher, releases=releases)

    def of_image(change: CacheChange) -> Iterator[ObjectKey]:
        names = dict.fromkeys(name for one in (change.old, change.new) if one for name in owners(one))
        yield from present(objects, (ObjectKey(change.key.namespace, name) for name in names), env.watch_filter)

    return Reconciler(
        reconcile=env.status_reconciler(_RELEASE, reconciler.work, ADVISORY).reconcile,
        watches=(
            Watch(_RELEASE, self_key(env.watch_filter)),
            Watch(_NODE_IMAGE, of_image),
            Watch(Kind.CLUSTER_STACK_RELEASE, lambda change: present(objects, [change.key], env.watch_filter)),
        ),
        forget=fetcher.forget,
    )


def _build_node_image(env: ControllerContext) -> Reconciler:
    objects = env.cache(_NODE_IMAGE)
    reconciler = NodeImageReconciler(client=env.client, reads=_reader(env), clock=env.clock)
    return Reconciler(
        reconcile=env.status_reconciler(_NODE_IMAGE, reconciler.work, ADVISORY).reconcile,
        watches=(
            Watch(_NODE_IMAGE, self_key(env.watch_filter)),
            # An Image has the name of its OpenStackNodeImageRelease.
            Watch(_IMAGE, lambda change: present(objects, [change.key], env.watch_filter)),
        ),
    )


RELEASE_REGISTRATION: Final = Registration(
    name=_RELEASE.lower(), kind=_RELEASE, build=_build_release, caches=_CACHES, concurrency_of="clusterstackrelease"
)

NODE_IMAGE_REGISTRATION: Final = Registration(
    name=_NODE_IMAGE.lower(), kind=_NODE_IMAGE, build=_build_node_image, concurrency_of="clusterstackrelease"
)
