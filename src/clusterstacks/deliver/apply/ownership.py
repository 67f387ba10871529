"""Ownership of objects: field managers and labels, and the takeover of the Go operator's objects.

The Go operator applies with force as field manager ``kubectl`` and sets ``OWNED_LABEL`` on objects and pod templates.
We apply as ``FIELD_MANAGER`` and keep the label: its removal from a pod template would restart the workload.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from clusterstacks.model.documents import mapping, mappings

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.errors import FieldConflict

FIELD_MANAGER: Final = "cluster-stack-operator"
"""Our field manager; it never changes with our version."""

PREDECESSOR: Final = "kubectl"
"""The Go operator's field manager; ``kubectl apply --server-side`` uses the same one."""

_APPLIERS: Final = frozenset({PREDECESSOR, "helm", "helm-controller", "kustomize-controller", "argocd-controller"})
"""Programs that install charts or manifests by server-side apply; all others may share fields with us on purpose."""

_SHARED: Final = frozenset({".", "f:caBundle", "f:replicas"})
"""Keys of a field set that do not make their manager an author: injectors and autoscalers set these fields."""

OWNED_LABEL: Final = "clusterstack.x-k8s.io/instance"
OWNED_VALUE: Final = "owned"
PART_OF_LABEL: Final = "applyset.kubernetes.io/part-of"

FieldWriter: TypeAlias = tuple[str, str]
"""A field manager and its operation, ``Apply`` or ``Update``."""


class Owner(Enum):
    """Owner of an object in a cluster."""

    OURS = "ours"
    PREDECESSOR = "the Go operator's"
    FOREIGN = "another manager's"


def owner_of(live: Manifest, *, sets: Collection[str], uid: str = "") -> Owner:
    """Return the owner of a live object.

    Args:
        live: The object with its managed fields.
        sets: Ids of the ApplySets whose members are ours.
        uid: The recorded uid; empty when the object was never delivered.
    """
    metadata = live["metadata"]
    entries = metadata.get("managedFields")
    if uid and metadata.get("uid") == uid:
        return Owner.OURS
    if (metadata.get("labels") or {}).get(PART_OF_LABEL) in sets or _claims(entries, FIELD_MANAGER):
        return Owner.OURS
    return Owner.PREDECESSOR if _claims(entries, PREDECESSOR) else Owner.FOREIGN


def is_marked(live: Manifest) -> bool:
    """Return whether the object's metadata shows that this operator or the Go operator applied it.

    A restored backup of the object has the label, but no managed fields.
    """
    metadata = live["metadata"]
    entries, labels = metadata.get("managedFields"), metadata.get("labels") or {}
    return labels.get(OWNED_LABEL) == OWNED_VALUE or _claims(entries, FIELD_MANAGER) or _claims(entries, PREDECESSOR)


def has_applied(live: Manifest) -> bool:
    """Return whether our manager has fields of an object; it has none of one that another program restored."""
    return bool(_applied(live, FIELD_MANAGER))


def has_other_managers(live: Manifest) -> bool:
    """Return whether another manager has fields of an object; none has of one that our apply has just created."""
    entries = live["metadata"].get("managedFields")
    if not isinstance(entries, list):
        return True
    return any(not isinstance(entry, Mapping) or entry.get("manager") != FIELD_MANAGER for entry in entries)


def has_other_appliers(live: Manifest) -> bool:
    """Return whether another manager has fields of an object by server-side apply."""
    return any(one.get("operation") == "Apply" and one.get("manager") != FIELD_MANAGER for one in _entries(live))


def held_by_predecessor(live: Manifest, inherits: Collection[FieldWriter] = ()) -> bool:
    """Return whether the Go operator, or a writer whose fields become ours, still owns fields of an object."""
    return bool(_inherited(live, inherits))


def authors_of(live: Manifest) -> set[FieldWriter]:
    """Return the writers that made an object before our first apply to it.

    They set fields of our manifest: to the same values, because our apply had no conflict. A writer by server-side
    apply counts only if it is known to install objects.
    """
    ours = [mapping(entry, "fieldsV1") for entry in _applied(live, FIELD_MANAGER)]
    return {
        (str(entry.get("manager")), str(entry.get("operation")))
        for entry in _entries(live)
        if (entry.get("operation") == "Update" or entry.get("manager") in _APPLIERS)
        and entry.get("manager") != FIELD_MANAGER
        and any(_share(fields, mapping(entry, "fieldsV1")) for fields in ours)
    }


def overridden_authors(live: Manifest, conflicts: Iterable[FieldConflict]) -> set[FieldWriter]:
    """Return the writers of an object that a person hands over to us by its label, of those that conflict with us."""
    if has_applied(live):
        return set()
    return {(one.manager, operation) for one in conflicts for operation in ("Apply", "Update")}


def _share(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two field sets have a field in common, apart from those that belong to others."""
    common = (one.keys() & other.keys()) - _SHARED
    return any(not one[key] or not other[key] or _share(one[key], other[key]) for key in common)


def applied_fields(live: Manifest, api_version: str) -> object:
    """Return the field set of our manager in a version of the object; None if it applied no fields in it."""
    ours = _applied(live, FIELD_MANAGER)
    return next((entry.get("fieldsV1") for entry in ours if entry.get("apiVersion") == api_version), None)


def holds_string_data(live: Manifest) -> bool:
    """Return whether an earlier version of this operator applied a Secret with ``stringData``."""
    return _is_secret(live) and any("f:stringData" in mapping(one, "fieldsV1") for one in _applied(live, FIELD_MANAGER))


def inherited_fields(live: Manifest, inherits: Collection[FieldWriter] = ()) -> list[Any]:
    """Return the managed fields of an object, with more of them ours: our next apply removes what its manifest lacks.

    The fields of the Go operator and of the writers in ``inherits`` become ours, and so do the keys of a Secret that it
    or we applied as ``stringData``. Entries of other managers do not change. Our entry keeps its API version; field
    paths are the same in all versions.
    """
    heirs, left = _applied(live, FIELD_MANAGER), _inherited(live, inherits)
    entries = list(live["metadata"].get("managedFields") or ())
    if not left and not holds_string_data(live):
        return entries
    others = [entry for entry in entries if entry not in heirs and entry not in left]
    heir = dict(heirs[0] if heirs else left[0], manager=FIELD_MANAGER, operation="Apply")
    for entry in left:
        heir["fieldsV1"] = _union(heir.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
    if _is_secret(live):
        heir["fieldsV1"] = _with_data(mapping(heir, "fieldsV1"), live, others)
    return [*others, heir]


def _with_data(fields: Manifest, live: Manifest, others: Iterable[Any]) -> Manifest:
    """Replace ``stringData`` in a field set by all keys of ``data`` without a manager.

    The server stores the values of ``stringData`` in ``data``, and gives them no manager there. So these keys are those
    of the field set, and those that earlier manifests had.
    """
    if "f:stringData" not in fields:
        return fields
    owned = {key for entry in others for key in mapping(entry, "fieldsV1", "f:data")}
    keys = {f"f:{key}" for key in mapping(live, "data")} - owned
    kept = {key: below for key, below in fields.items() if key != "f:stringData"}
    return _union(kept, {"f:data": {key: {} for key in sorted(keys)}})


def _is_secret(live: Manifest) -> bool:
    return (live.get("apiVersion"), live.get("kind")) == ("v1", "Secret")


def _entries(live: Manifest) -> list[Manifest]:
    return [entry for entry in mappings(live, "metadata", "managedFields") if not entry.get("subresource")]


def _applied(live: Manifest, manager: str) -> list[Manifest]:
    """Return the entries of the fields that a manager applied."""
    return [entry for entry in _entries(live) if _applies(entry, manager)]


def _inherited(live: Manifest, inherits: Collection[FieldWriter]) -> list[Manifest]:
    """Return the entries of the Go operator, and of the writers whose fields become ours."""
    return [
        entry
        for entry in _entries(live)
        if (_applies(entry, PREDECESSOR) and _owns_label(entry))
        or (entry.get("manager"), entry.get("operation")) in inherits
    ]


def _claims(entries: object, manager: str) -> bool:
    """Return whether ``manager`` applied the label, as only the two operators do, on every object."""
    return isinstance(entries, list) and any(_applies(entry, manager) and _owns_label(entry) for entry in entries)


def _applies(entry: object, manager: str) -> bool:
    return (
        isinstance(entry, Mapping)
        and entry.get("manager") == manager
        and entry.get("operation") == "Apply"
        and not entry.get("subresource")
    )


def _owns_label(entry: Mapping[str, Any]) -> bool:
    fields: object = entry.get("fieldsV1")
    for step in ("f:metadata", "f:labels", f"f:{OWNED_LABEL}"):
        fields = fields.get(step) if isinstance(fields, Mapping) else None
    return fields is not None


def _union(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return the union of two field sets, which are tries with empty mappings as leaves."""
    united = dict(one)
    for key, below in other.items():
        united[key] = _union(united[key], below) if key in united else below
    return united
