"""Rules for the objects in the chart of a cluster class: allowed kinds and namespace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.waves import CLASS_KIND
from clusterstacks.model.documents import and_more
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import Manifest, object_id

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from clusterstacks.model.objects import ObjectId

TEMPLATE_GROUPS: Final = frozenset(
    {"bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"}
)
"""Groups of Cluster API's providers; all their kinds that end in ``Template`` are allowed."""

IMAGE_KIND: Final = ("openstack.k-orc.cloud", "Image")

FAULTS_SHOWN: Final = 5
"""Faults that a message names; arbitrary."""


@dataclass(frozen=True, slots=True, order=True)
class GroupKind:
    """A kind as ``--class-kinds`` names it: ``LocalClusterTemplate.local.clusterstack.x-k8s.io``."""

    group: str
    kind: str

    @classmethod
    def parse(cls, text: str) -> GroupKind:
        """Parse ``Kind.group``.

        Raises:
            SpecError: Kind or group is missing.
        """
        kind, dot, group = text.strip().partition(".")
        if not kind or not dot or not group:
            raise SpecError(
                "InvalidKind",
                f"{text!r} is not a valid kind (expected Kind.group, for example {'.'.join(IMAGE_KIND[::-1])})",
            )
        return cls(group, kind)


def check_class_objects(
    manifests: Iterable[Manifest], *, namespace: str, extra_kinds: Collection[GroupKind] = ()
) -> None:
    """Check that a class chart contains nothing but the parts of a cluster class.

    Args:
        manifests: The rendered objects.
        namespace: The namespace of the ClusterStackRelease; objects may name it or omit the namespace.
        extra_kinds: Kinds allowed by ``--class-kinds``; they must be namespaced.

    Raises:
        SpecError: Names the objects that are not allowed, at most ``FAULTS_SHOWN``, and what to do.
    """
    faults = []
    for manifest in manifests:
        identity = object_id(manifest)
        if not _is_allowed(identity.group, identity.kind, extra_kinds):
            # --class-kinds does not take kinds of the core group, so that a class cannot contain Secrets.
            allow = f", or start the operator with --class-kinds {identity.kind}.{identity.group}"
            faults.append(
                f"{identity}: this kind is not allowed in a cluster class: remove it from the chart"
                f"{allow if identity.group else ''}"
            )
        elif identity.namespace not in ("", namespace):
            faults.append(f"{identity} is not in namespace {namespace}: remove metadata.namespace from the chart")
    if faults:
        raise SpecError("ObjectNotAllowed", and_more(faults, FAULTS_SHOWN, separator="; "))


def deletion_fault(identity: ObjectId, *, namespace: str, extra_kinds: Collection[GroupKind] = ()) -> str:
    """Return why an object in the status of a ClusterStackRelease is not deleted with it; empty when it may be.

    A user who may write the status can list any object there: only objects that a class may contain are deleted.

    Args:
        identity: The object as the status names it.
        namespace: The namespace of the ClusterStackRelease; an entry may name it or omit it.
        extra_kinds: Kinds allowed by ``--class-kinds``.
    """
    if identity.namespace not in ("", namespace):
        return f"it is not in namespace {namespace}"
    if not _is_allowed(identity.group, identity.kind, extra_kinds):
        return "its kind is not allowed in a cluster class"
    return ""


def _is_allowed(group: str, kind: str, extra: Collection[GroupKind]) -> bool:
    if (group, kind) in (CLASS_KIND, IMAGE_KIND) or GroupKind(group, kind) in extra:
        return True
    return group in TEMPLATE_GROUPS and kind.endswith("Template")
