"""Lists the fields of a live object that belong to other writers.

These fields are set when the object is created. Afterwards they are neither sent with another value nor compared: by a
delivery, a correction and a rollback alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.deliver.apply.field_paths import content_of, differences, value_of, with_field_of
from clusterstacks.deliver.apply.live_fields import ABSENT
from clusterstacks.model.documents import mapping
from clusterstacks.model.drift_settings import FieldPath
from clusterstacks.model.objects import ObjectId, split_api_version

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.objects import Manifest

IgnoredFields: TypeAlias = Callable[[ObjectId], Sequence[FieldPath]]
"""Returns the fields of an object in ``ignoreDifferences`` of the ClusterStack."""

REPLICAS: Final = ("spec", "replicas")
_CERTIFICATE: Final = "caBundle"
_RULES: Final = "rules"

_INJECTING: Final = ("cert-manager.io/inject-", "service.beta.openshift.io/inject-cabundle")
"""Beginnings of annotations that ask another controller for a ``caBundle``."""


def nothing_ignored(_: ObjectId) -> Sequence[FieldPath]:
    """Return no fields: for objects without a ClusterStack."""
    return ()


def foreign_fields(
    sent: Manifest, live: Manifest, *, ignored: Iterable[FieldPath] = (), scaled: bool = False
) -> list[FieldPath]:
    """Return the fields of a live object that belong to other writers.

    Args:
        sent: The manifest.
        live: The object.
        ignored: Its fields in ``ignoreDifferences`` of the ClusterStack.
        scaled: Whether a HorizontalPodAutoscaler scales it.
    """
    injected = [path for path in differences(content_of(live), content_of(sent)) if _is_injected(sent, path)]
    return [*ignored, *injected, *([REPLICAS] if scaled else ()), *([(_RULES,)] if _is_aggregated(sent) else ())]


def may_be_foreign(field: str) -> bool:
    """Return whether a field, as the API server names it in a conflict, may be on the list without a setting."""
    return field == ".spec.replicas" or field.endswith(f".{_CERTIFICATE}")


def with_foreign_fields(sent: Manifest, live: Manifest, foreign: Iterable[FieldPath]) -> Manifest:
    """Return a manifest with the live values of the fields that belong to others.

    Only fields of the manifest change: others are not ours. A field is left out if the live object lacks it, but not if
    it also lacks the value around it, as a new container.
    """
    for field in foreign:
        for path in differences(value_of(live, field), value_of(sent, field), field):
            if value_of(sent, path) is not ABSENT and value_of(live, path[:-1]) is not ABSENT:
                sent = with_field_of(sent, live, path)
    return sent


def without_aggregated_rules(manifest: Manifest) -> Manifest:
    """Return a ClusterRole without the rules that the control plane aggregates from other roles."""
    if _RULES not in manifest or not _is_aggregated(manifest):
        return manifest
    return {key: value for key, value in manifest.items() if key != _RULES}


def _is_aggregated(manifest: Manifest) -> bool:
    group, _ = split_api_version(manifest["apiVersion"])
    is_role = (group, manifest["kind"]) == ("rbac.authorization.k8s.io", "ClusterRole")
    return is_role and manifest.get("aggregationRule") is not None


def _is_injected(sent: Manifest, path: FieldPath) -> bool:
    """Return whether the field is a certificate that another controller injects, which the manifest leaves to it."""
    if not path or path[-1] != _CERTIFICATE:
        return False
    annotations = mapping(sent, "metadata", "annotations")
    return not value_of(sent, path) or any(str(key).startswith(_INJECTING) for key in annotations)
