"""Kubernetes objects: keys, identities and their JSON form."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeAlias

Manifest: TypeAlias = dict[str, Any]
"""A Kubernetes object as JSON; never changed in place after it was passed on."""


class ObjectKey(NamedTuple):
    """Namespace and name: the key of work queues and reconcilers."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class ObjectId(NamedTuple):
    """The identity of an object, independent of the API version.

    An object that moves from ``policy/v1beta1`` to ``policy/v1`` stays the same object; two objects with the same name
    and different kinds are different.
    """

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Format like kubectl: ``Deployment.apps kube-system/coredns``."""
        kind = f"{self.kind}.{self.group}" if self.group else self.kind
        return f"{kind} {ObjectKey(self.namespace, self.name)}"


def drop_managed_fields(manifest: Manifest) -> Manifest:
    """Remove the managed fields: no reader needs them, and they are often half of an object."""
    metadata = manifest["metadata"]
    if "managedFields" not in metadata:
        return manifest
    return {**manifest, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def split_api_version(api_version: str) -> tuple[str, str]:
    """Split ``apps/v1`` into group and version; the core group is the empty string."""
    group, _, version = api_version.rpartition("/")
    return group, version


def object_id(manifest: Manifest) -> ObjectId:
    """Return the identity of a manifest; the namespace is empty if the manifest has none."""
    metadata = manifest.get("metadata") or {}
    group, _ = split_api_version(manifest["apiVersion"])
    return ObjectId(group, manifest["kind"], metadata.get("namespace") or "", metadata["name"])


def rfc3339(moment: datetime) -> str:
    """Write a time as Kubernetes does: UTC, in whole seconds."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def merge_diff(old: Manifest, new: Manifest) -> Manifest:
    """Return the merge patch that turns ``old`` into ``new``; empty when they are equal.

    Lists are replaced as a whole, as the RFC requires. None in ``new`` counts as absent.
    """
    patch: Manifest = {key: None for key in old if new.get(key) is None and old[key] is not None}
    for key, value in new.items():
        before = old.get(key)
        if value is None or value == before:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            # Removing all keys of an object leaves an empty object, which is also a change.
            patch[key] = merge_diff(before, value)
        else:
            patch[key] = value
    return patch


def contains(live: Any, wanted: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Return whether ``live`` contains every value of ``wanted``; lists must be equal."""
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and contains(live[key], value) for key, value in wanted.items()
        )
    return bool(live == wanted)


_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 31_536_000
_AGE_UNITS = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
)
"""Below a number of seconds: the larger unit, and the smaller unit or none, as in kubectl's HumanDuration."""


def age(timestamp: str, now: datetime) -> str:
    """Return the time since a timestamp (RFC 3339) as kubectl prints it: ``45s``, ``6m3s``, ``12m``, ``3h``, ``2d4h``.

    The result is empty if the text is not a timestamp with a time zone, and ``0s`` for a time in the future.
    """
    try:
        moment = datetime.fromisoformat(timestamp)
    except ValueError:
        return ""
    if moment.tzinfo is None:
        return ""
    seconds = max(int((now - moment).total_seconds()), 0)
    for limit, unit, letter, below, below_letter in _AGE_UNITS:
        if seconds < limit:
            rest = seconds % unit // below if below else 0
            return f"{seconds // unit}{letter}{f'{rest}{below_letter}' if rest else ''}"
    return f"{seconds // _YEAR}y"
