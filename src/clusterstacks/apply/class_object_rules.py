"""What the chart of a cluster class may hold (ARCHITECTURE section 4, Security)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.apply.waves import CLASS_KIND
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, object_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.objects import ObjectId

TEMPLATE_GROUPS: Final = frozenset(
    {"bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "infrastructure.cluster.x-k8s.io"}
)
"""Cluster API's groups of providers; every kind in them that ends in ``Template`` is allowed."""

IMAGE_KIND: Final = ("openstack.k-orc.cloud", "Image")


@dataclass(frozen=True, slots=True, order=True)
class GroupKind:
    """A kind named as on the command line: ``LocalClusterTemplate.local.clusterstack.x-k8s.io``."""

    group: str
    kind: str

    @classmethod
    def parse(cls, text: str) -> GroupKind:
        """Read ``Kind.group``.

        Raises:
            SpecError: The text names no kind or no group.
        """
        kind, dot, group = text.strip().partition(".")
        if not kind or not dot or not group:
            raise SpecError(
                "InvalidKind", f"{text!r} names no kind: write it as Kind.group, e.g. {'.'.join(IMAGE_KIND[::-1])}"
            )
        return cls(group, kind)


def check_class_objects(
    manifests: Iterable[Manifest], *, namespace: str, extra_kinds: Iterable[GroupKind] = ()
) -> None:
    """Check that a class chart holds nothing but what makes up a cluster class.

    Args:
        manifests: The rendered objects.
        namespace: Of the ClusterStackRelease; objects may name it or none.
        extra_kinds: Kinds allowed by ``--class-kinds``; they must be namespaced.

    Raises:
        SpecError: Names every object that is not allowed (up to five) and the way out.
    """
    allowed = frozenset(extra_kinds)
    faults = []
    for manifest in manifests:
        identity = object_id(manifest)
        if not _is_allowed(identity.group, identity.kind, allowed):
            # --class-kinds names no kinds of the core group: Secrets are none of a class's business.
            allow = f", or start the operator with --class-kinds {identity.kind}.{identity.group}"
            faults.append(
                f"{identity} is of a kind that a cluster class may not hold: take it out of the chart"
                f"{allow if identity.group else ''}"
            )
        elif identity.namespace not in ("", namespace):
            faults.append(
                f"{identity} names another namespace than {namespace}: take metadata.namespace out of the chart"
            )
    if faults:
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise SpecError("ObjectNotAllowed", "; ".join(faults[:5]) + more)


def deletion_fault(identity: ObjectId, *, namespace: str, extra_kinds: Iterable[GroupKind] = ()) -> str:
    """Say why an object that a ClusterStackRelease lists in its status is not deleted with it; empty when it may be.

    Whoever may write the status may write any object there: only what could have been applied is deleted.

    Args:
        identity: As the status names it.
        namespace: Of the ClusterStackRelease; an entry may name it or none.
        extra_kinds: Kinds allowed by ``--class-kinds``.
    """
    if identity.namespace not in ("", namespace):
        return f"it is in another namespace than {namespace}"
    if not _is_allowed(identity.group, identity.kind, frozenset(extra_kinds)):
        return "it is of a kind that a cluster class may not hold"
    return ""


def _is_allowed(group: str, kind: str, extra: frozenset[GroupKind]) -> bool:
    if (group, kind) in (CLASS_KIND, IMAGE_KIND) or GroupKind(group, kind) in extra:
        return True
    return group in TEMPLATE_GROUPS and kind.endswith("Template")
