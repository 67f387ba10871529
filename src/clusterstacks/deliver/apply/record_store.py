"""Stores delivery records in a cluster: one Secret per addon or sync, each the parent of an ApplySet (KEP-3659).

Whose a record is decides what may delete its objects. So the addons and the syncs of a cluster are different kinds of
records, with different labels and names of Secrets: a store writes and returns records of one kind only. Of the other
kind it knows the objects, which belong to that one.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.deliver.apply.ownership import FIELD_MANAGER, PART_OF_LABEL
from clusterstacks.deliver.apply.record_codec import (
    HealthyRevision,
    RecordUnreadable,
    pack_healthy,
    pack_record,
    unpacking_healthy,
    unpacking_record,
    unpacking_revision,
)
from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.errors import NotFound
from clusterstacks.net.kube.resources import Resource
from clusterstacks.runtime.concurrency import run_in_steps

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.deliver.apply.delivery_plan import DeliveryRecord
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client

SECRETS: Final = Resource("", "v1", "Secret", "secrets", namespaced=True)
SECRET_TYPE: Final = "clusterstack.x-k8s.io/delivery-record"  # noqa: S105  # not a password
RECORD_LABEL: Final = "clusterstack.x-k8s.io/delivery-record"
ADDON_RECORD: Final = "addon"
HEALTHY_RECORD: Final = "healthy"
INSTALLATION_RECORD: Final = "installation"
SYNC_RECORD: Final = "sync"
"""Values of ``RECORD_LABEL``: the delivery record of an addon, the last healthy revision of an addon, the record of an
installation of the operator, which no operator reads, and the delivery record of a resource sync."""

_KINDS: Final = (ADDON_RECORD, HEALTHY_RECORD, INSTALLATION_RECORD, SYNC_RECORD)

_ENTITLED: Final = (ADDON_RECORD, SYNC_RECORD)
"""Kinds of records whose objects must be in no other record."""

MAX_SECRET_BYTES: Final = 1024 * 1024
"""Kubernetes' limit for the values of a Secret together (core/v1 MaxSecretSize)."""

MAX_RECORDS: Final = 256
"""Records of one cluster, thus addons and syncs (arbitrary: the largest stacks known have some twenty)."""

MAX_UNREADABLE: Final = 32
"""Unreadable records that are read (arbitrary: each may take 0.1 s of CPU time)."""

MAX_OBJECTS_TOGETHER: Final = 100_000
"""Objects in all records of one cluster (arbitrary: some twenty addons of the largest size; a second of CPU time)."""

_MAX_ENCODED: Final = MAX_SECRET_BYTES // 3 * 4 + 4
"""Characters of ``MAX_SECRET_BYTES`` as base64."""

_RECORD: Final = "record"
_REVISION: Final = "revision"


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it is stored in the cluster.

    Args:
        record: The record.
        revision: The encoded revision; empty when it did not fit.
        resource_version: The resourceVersion of its Secret; empty before the first write.
    """

    record: DeliveryRecord
    revision: bytes
    resource_version: str

    @property
    def kept_revision(self) -> bytes | None:
        """The encoded revision as ``RecordStore.write`` expects it."""
        return None if self.record.truncated else self.revision


@dataclass(frozen=True, slots=True)
class StoredHealthy:
    """The last healthy revision of an addon as it is stored in the cluster, with its encoded manifests."""

    revision: HealthyRevision
    packed: bytes
    secret: str
    """Namespace and name of its Secret."""

    async def manifests(self) -> list[Manifest]:
        """Return the manifests.

        Raises:
            RecordUnreadable: They are not valid.
        """
        try:
            return await run_in_steps(unpacking_revision(self.packed))
        except RecordUnreadable as error:
            raise _unreadable_healthy(self.secret, error) from None


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """The records of a cluster as one read returns them.

    Args:
        stored: The records of the store's kind, by addon or sync.
        unreadable: The errors of its unreadable records, by Secret.
        others: The records of the other kind, by kind and name: ``sync operator``.
        versions: The resourceVersions of the store's kind, by Secret.
    """

    stored: dict[str, Stored]
    unreadable: dict[str, str]
    others: dict[str, DeliveryRecord]
    versions: dict[str, str]


class RecordStore:
    """The delivery records of one cluster.

    A write fails with Conflict when another operator wrote the record since it was read, so that the deliveries of two
    operators are never mixed in one record.

    Args:
        client: The workload cluster.
        namespace: The namespace of the records.
        cluster: The Cluster that records are written for, as ``team/prod``.
        kind: Value of ``RECORD_LABEL``; records of another kind are never written.
        selector: Label selector of all members; empty for the label of their ApplySet.
    """

    def __init__(
        self, client: Client, namespace: str, cluster: str = "", *, kind: str = ADDON_RECORD, selector: str = ""
    ) -> None:
        self._client = client
        self.namespace = namespace
        self._cluster = cluster
        self.kind = kind
        self._selector = selector

    def name(self, addon: str) -> str:
        """Return the name of the Secret of an addon."""
        return record_name(addon, self.kind)

    def title(self, addon: str) -> str:
        """Return kind and name of a record, as messages have them."""
        return f"{self.kind} {addon}"

    def set_id(self, addon: str) -> str:
        """Return the ApplySet id of an addon."""
        return applyset_id(self.name(addon), self.namespace)

    def members(self, addon: str) -> str:
        """Return the label selector of the live members of an addon."""
        return self._selector or f"{PART_OF_LABEL}={self.set_id(addon)}"

    async def read(self) -> StoredRecords:
        """Read all records with one list, also those of the other kind.

        Raises:
            RecordUnreadable: There are more records, or more unreadable ones, than the bounds allow.
        """
        kinds = _ENTITLED if self.kind in _ENTITLED else (self.kind,)
        listing = await self._client.list(SECRETS, self.namespace, labels=f"{RECORD_LABEL} in ({','.join(kinds)})")
        found = StoredRecords({}, {}, {}, {})
        objects = unreadable = 0
        for secret in listing.items:
            kind = secret["metadata"]["labels"][RECORD_LABEL]
            if kind == self.kind:
                found.versions[secret["metadata"]["name"]] = secret["metadata"]["resourceVersion"]
            try:
                one = await self._read(secret, kind)
            except RecordUnreadable as error:
                unreadable += 1
                name = secret["metadata"]["name"]
                if kind == self.kind:
                    found.unreadable[name] = (
                        f"delivery record Secret {self.namespace}/{name} is unreadable: {error}; delete it to deliver "
                        f"the {kind} again (objects that only earlier releases contained then remain)"
                    )
            else:
                if kind == self.kind:
                    found.stored[one.record.addon] = one
                else:
                    found.others[f"{kind} {one.record.addon}"] = one.record
                objects += len(one.record.members)
            records = len(found.stored) + len(found.others)
            if records > MAX_RECORDS or unreadable > MAX_UNREADABLE or objects > MAX_OBJECTS_TOGETHER:
                raise RecordUnreadable(
                    f"namespace {self.namespace} holds {len(listing.items)} Secrets with the label {RECORD_LABEL}; at "
                    f"most {MAX_RECORDS} with {MAX_OBJECTS_TOGETHER} objects are read, and at most {MAX_UNREADABLE} "
                    "that are unreadable: delete those that do not belong to an addon or a sync"
                )
        return found

    async def versions(self) -> dict[str, str]:
        """Read the resourceVersion of each record by Secret, with one list of metadata."""
        listing = await self._client.list_metadata(SECRETS, self.namespace, labels=f"{RECORD_LABEL}={self.kind}")
        return {one["metadata"]["name"]: one["metadata"]["resourceVersion"] for one in listing.items}

    async def write(self, before: Stored | None, record: DeliveryRecord, revision: bytes | None) -> Stored:
        """Write a record if it has changed; without its revision if that does not fit.

        Every written record names the Cluster of this store. A record that names no Cluster, or no basis, is not
        written for that reason alone.

        Args:
            before: The record as it was read or written last.
            record: The new record.
            revision: The encoded revision; None when it exceeds the bounds of the codec.

        Raises:
            SpecError: The inventory alone does not fit.
            DependencyError: The server rejected the write; Conflict when another operator wrote the record.
        """
        record = replace(record, cluster=self._cluster)
        packed = pack_record(record)
        truncated = revision is None or len(packed or b"") + len(revision) > MAX_SECRET_BYTES
        if truncated != record.truncated:
            record = replace(record, truncated=truncated)
            packed = pack_record(record)
        if packed is None or len(packed) > MAX_SECRET_BYTES:
            raise SpecError(
                "TooManyObjects",
                f"{self.title(record.addon)} has {len(record.members)} objects, whose inventory does not fit into a "
                f"Secret; split the {'sync' if self.kind == SYNC_RECORD else 'chart'}",
            )
        kept = b"" if truncated else revision or b""
        if before and before.revision == kept:
            known = replace(before.record, cluster=before.record.cluster or self._cluster, basis=record.basis)
            if known == record:
                return before
        write = partial(self._change, before) if before and before.resource_version else self._create
        secret = await write(record, packed, kept)
        return Stored(record, kept, secret["metadata"]["resourceVersion"])

    async def check_unchanged(self, stored: Stored) -> None:
        """Check that a record is still in the cluster as it was read; an API server may answer with an old version.

        Raises:
            DependencyError: The server did not answer; Conflict when the record was written since.
        """
        unchanged = {"metadata": {"resourceVersion": stored.resource_version}}
        name = self.name(stored.record.addon)
        await self._client.merge_patch(SECRETS, name, unchanged, self.namespace, manager=FIELD_MANAGER)

    async def read_healthy(self, addon: str) -> StoredHealthy | None:
        """Read the last healthy revision of an addon; None when none was kept.

        Raises:
            RecordUnreadable: Its Secret was edited, or a newer operator wrote it.
        """
        name = healthy_name(addon)
        secret = await self._client.find(SECRETS, name, self.namespace)
        if secret is None:
            return None
        try:
            return await _read_healthy(secret, f"{self.namespace}/{name}")
        except RecordUnreadable as error:
            raise _unreadable_healthy(f"{self.namespace}/{name}", error) from None

    async def write_healthy(self, revision: HealthyRevision, packed: bytes) -> bool:
        """Write the last healthy revision of an addon in a Secret of its own; return False if it does not fit.

        Operators that do not know this Secret neither read nor count it.
        """
        header = pack_healthy(revision)
        if len(header) + len(packed) > MAX_SECRET_BYTES:
            return False
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": healthy_name(revision.addon),
                "namespace": self.namespace,
                "labels": {RECORD_LABEL: HEALTHY_RECORD},
            },
            "type": SECRET_TYPE,
            "data": {_RECORD: b64encode(header).decode(), _REVISION: b64encode(packed).decode()},
        }
        await self._client.apply(SECRETS, secret, manager=FIELD_MANAGER, force=True)
        return True

    async def delete(self, stored: Stored) -> None:
        """Delete a record and the healthy revision, unless another operator wrote the record since it was read."""
        addon = stored.record.addon
        if self.kind == ADDON_RECORD:
            with suppress(NotFound):
                await self._client.delete(SECRETS, healthy_name(addon), self.namespace)
        if stored.resource_version:
            name, version = self.name(addon), stored.resource_version
            await self._client.delete(SECRETS, name, self.namespace, resource_version=version)

    async def _create(self, record: DeliveryRecord, packed: bytes, revision: bytes) -> Manifest:
        values = {_RECORD: packed, _REVISION: revision}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self.name(record.addon),
                "namespace": self.namespace,
                **self._parent(record),
            },
            "type": SECRET_TYPE,
            "data": {key: b64encode(value).decode() for key, value in values.items() if value},
        }
        return await self._client.create(SECRETS, secret, self.namespace)

    async def _change(self, before: Stored, record: DeliveryRecord, packed: bytes, revision: bytes) -> Manifest:
        values: dict[str, str | None] = {_RECORD: b64encode(packed).decode()}
        if revision != before.revision:
            values[_REVISION] = b64encode(revision).decode() if revision else None
        metadata = {"resourceVersion": before.resource_version, **self._parent(record)}
        patch = {"metadata": metadata, "data": values}
        name = self.name(record.addon)
        return await self._client.merge_patch(SECRETS, name, patch, self.namespace, manager=FIELD_MANAGER)

    def _parent(self, record: DeliveryRecord) -> dict[str, Any]:
        members = (known.id for known in record.members)
        return {
            "labels": {ID_LABEL: self.set_id(record.addon), RECORD_LABEL: self.kind},
            "annotations": parent_annotations(members, self.namespace),
        }

    async def _read(self, secret: Manifest, kind: str) -> Stored:
        values = _values(secret)
        record = await run_in_steps(unpacking_record(_value(values, _RECORD)))
        if record_name(record.addon, kind) != secret["metadata"]["name"]:
            raise RecordUnreadable(f"it is the record of {kind} {record.addon}, which has another Secret")
        revision = _value(values, _REVISION) if _REVISION in values else b""
        return Stored(record, revision, secret["metadata"]["resourceVersion"])


def _unreadable_healthy(secret: str, error: RecordUnreadable) -> RecordUnreadable:
    return RecordUnreadable(
        f"Secret {secret} with the last healthy revision is unreadable: {error}; delete it, and the next revision that "
        "becomes healthy is kept"
    )


async def _read_healthy(secret: Manifest, title: str) -> StoredHealthy:
    values = _values(secret)
    revision = await run_in_steps(unpacking_healthy(_value(values, _RECORD)))
    if healthy_name(revision.addon) != secret["metadata"]["name"]:
        raise RecordUnreadable(f"it is that of addon {revision.addon}")
    return StoredHealthy(revision, _value(values, _REVISION), title)


def _values(secret: Manifest) -> dict[str, Any]:
    values = secret.get("data")
    if not isinstance(values, dict):
        raise RecordUnreadable(f"it has no {_RECORD}")
    return values


def _value(values: dict[str, Any], key: str) -> bytes:
    encoded = values.get(key)
    if isinstance(encoded, str) and len(encoded) > _MAX_ENCODED:
        raise RecordUnreadable(f"its {key} is larger than {MAX_SECRET_BYTES} bytes")
    try:
        return b64decode(values[key] or "", validate=True)
    except (KeyError, TypeError, ValueError):
        raise RecordUnreadable(f"it has no {key}") from None


ID_LABEL: Final = "applyset.kubernetes.io/id"
TOOLING_ANNOTATION: Final = "applyset.kubernetes.io/tooling"
KINDS_ANNOTATION: Final = "applyset.kubernetes.io/contains-group-kinds"
NAMESPACES_ANNOTATION: Final = "applyset.kubernetes.io/additional-namespaces"

TOOLING: Final = "cluster-stack-operator/v1"
"""Never changes with our version: a tool must not change the sets of another tool."""

NAME_PREFIX: Final = "cluster-stack-addon-"
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
MAX_NAME: Final = 253 - len(NAME_PREFIX)
"""Longest addon name that fits into the name of a Secret (DNS subdomain, 253 characters)."""


def applyset_id(name: str, namespace: str) -> str:
    """Return the id of the ApplySet whose parent is the Secret: the value of ``ID_LABEL`` and ``PART_OF_LABEL``."""
    digest = hashlib.sha256(f"{name}.{namespace}.Secret.".encode()).digest()
    return f"applyset-{urlsafe_b64encode(digest).rstrip(b'=').decode()}-v1"


def parent_annotations(members: Iterable[ObjectId], namespace: str) -> dict[str, str]:
    """Return the annotations by which a parent in ``namespace`` describes its members."""
    kinds: set[str] = set()
    namespaces: set[str] = set()
    for member in members:
        kinds.add(f"{member.kind}.{member.group}" if member.group else member.kind)
        namespaces.add(member.namespace)
    return {
        TOOLING_ANNOTATION: TOOLING,
        KINDS_ANNOTATION: ",".join(sorted(kinds)),
        NAMESPACES_ANNOTATION: ",".join(sorted(namespaces - {"", namespace})),
    }


def record_name(addon: str, kind: str = ADDON_RECORD) -> str:
    """Return the name of an addon's Secret; an addon name that is not a DNS label is replaced by its digest."""
    fits = len(addon) <= MAX_NAME and _NAME.fullmatch(addon)
    return f"cluster-stack-{kind}-{addon if fits else f'x.{hashlib.sha256(addon.encode()).hexdigest()[:40]}'}"


def is_record(name: str) -> bool:
    """Return whether a Secret of this name is a record."""
    return name.startswith(tuple(f"cluster-stack-{kind}-" for kind in _KINDS))


def healthy_name(addon: str) -> str:
    """Return the name of the Secret with an addon's last healthy revision. Names of addons in stages always fit."""
    return record_name(addon, HEALTHY_RECORD)
