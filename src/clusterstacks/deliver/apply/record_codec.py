"""Encodes and decodes delivery records. Decoding is bounded and validated, because the cluster's owner can edit them.

The same bounds hold when encoding, so that this operator can read every record that it wrote.
"""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.deliver.apply.delivery_plan import (
    AbandonedRevision,
    DeliveryRecord,
    DeliveryState,
    Mark,
    RecordedObject,
)
from clusterstacks.deliver.apply.prune_plan import MAX_KEPT
from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import Manifest, ObjectId

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

FORMAT: Final = 1

MAX_BYTES: Final = 8 * 1024 * 1024
"""Unpacked size of an inventory, and of a revision (CRDs compress to a seventh: more does not fit into a Secret)."""

MAX_WEIGHT: Final = 200_000
"""Values of an inventory or revision, lists and mappings counted twice (arbitrary: 1 MB of CRDs has 32,000).

The time and the memory that orjson takes follow this number: at the bound 10 to 50 ms and up to 25 MB.
"""

MAX_DEPTH: Final = 254
"""Levels of nesting that orjson can write, and therefore of every record that we wrote."""

MAX_OBJECTS: Final = 10_000
"""Objects of one addon, old ones included (twice what a chart may render to, see ``deliver.render.helm_output``)."""

SLICE: Final = 500
"""Objects that are checked at a time, which takes 5 ms."""

_COMPRESSION: Final = 6

_GROUP = re.compile(r"[a-z0-9.-]{0,253}")
_VERSION = re.compile(r"[a-z0-9]{1,63}")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NAMESPACE = re.compile(r"[a-z0-9-]{0,63}")
_NAME = re.compile(r"(?!\.{1,2}(?:\x00|$))[^/%\x00-\x1f\x7f]{1,253}")
_WORD = re.compile(r"[A-Za-z0-9:._-]{0,128}")
_TEXT = re.compile(rf"[^\x00-\x1f\x7f]{{0,{MAX_KEPT}}}")
_IDENTITY: Final = {"group": _GROUP, "version": _VERSION, "kind": _KIND, "namespace": _NAMESPACE, "name": _NAME}
_OBJECT: Final = {**_IDENTITY, "uid": _WORD, "digest": _WORD, "kept": _TEXT}
_OBJECT_AT_ONCE: Final = re.compile(r"\x00".join(pattern.pattern for pattern in _OBJECT.values()))
"""All texts of an object, joined: one match instead of eight. No pattern takes the byte between them."""

_CLUSTER = re.compile(r"(?:[a-z0-9-]{1,63}/[a-z0-9.-]{1,253})?")


class RecordUnreadable(SpecError):
    """A delivery record was edited, or a newer operator wrote it."""

    def __init__(self, message: str) -> None:
        super().__init__("RecordUnreadable", message)


def pack_record(record: DeliveryRecord) -> bytes | None:
    """Encode a record; equal records give equal bytes. None for a record that exceeds the bounds."""
    if len(record.members) > MAX_OBJECTS:
        return None
    document = {
        "format": FORMAT,
        "addon": record.addon,
        **({"cluster": record.cluster} if record.cluster else {}),
        **({"abandoned": _abandoned_entry(record.abandoned)} if record.abandoned else {}),
        "digest": record.digest,
        "inputs": record.inputs,
        **({"basis": record.basis} if record.basis else {}),
        "state": record.state.value,
        "truncated": record.truncated,
        "objects": [_entry(known) for known in record.objects],
        "stale": [_entry(known) for known in record.stale],
    }
    return _packed(document)


def unpacking_record(packed: bytes) -> Generator[None, None, DeliveryRecord]:
    """Decode a record in steps of some ten milliseconds, so that other tasks can run in between.

    Raises:
        RecordUnreadable: The record is not valid.
    """
    document = yield from _unpacking_mapping(packed)
    listed: set[ObjectId] = set()
    objects = yield from _entries(document, "objects", listed)
    stale = yield from _entries(document, "stale", listed)
    state = document.get("state")
    if not isinstance(state, str) or state not in set(DeliveryState):
        raise RecordUnreadable('unknown value of "state"')
    return DeliveryRecord(
        _text(document, "addon", _NAME),
        _text(document, "digest", _WORD),
        _text(document, "inputs", _WORD),
        DeliveryState(state),
        objects,
        stale,
        document.get("truncated") is True,
        _text(document, "cluster", _CLUSTER),
        _abandoned(document.get("abandoned")),
        _text(document, "basis", _WORD),
    )


@dataclass(frozen=True, slots=True)
class HealthyRevision:
    """The last revision of an addon of which all objects were healthy; its manifests are packed as those of a record.

    Args:
        addon: The addon.
        release: The release it came from.
        digest: Digest of the manifests.
        inputs: Digest of everything that they were rendered from.
    """

    addon: str
    release: str
    digest: str
    inputs: str


def pack_healthy(revision: HealthyRevision) -> bytes:
    """Encode what is known of a healthy revision."""
    document = {"format": FORMAT, **asdict(revision)}
    return gzip.compress(orjson.dumps(document), _COMPRESSION, mtime=0)


def unpacking_healthy(packed: bytes) -> Generator[None, None, HealthyRevision]:
    """Decode it in steps, as ``unpacking_record``.

    Raises:
        RecordUnreadable: It is not valid.
    """
    document = yield from _unpacking_mapping(packed)
    return HealthyRevision(
        _text(document, "addon", _NAME),
        _text(document, "release", _NAME),
        _text(document, "digest", _WORD),
        _text(document, "inputs", _WORD),
    )


def pack_revision(manifests: Sequence[Manifest]) -> bytes | None:
    """Encode a rendered revision; None for a revision that exceeds the bounds."""
    return _packed(list(manifests))


def unpacking_revision(packed: bytes) -> Generator[None, None, list[Manifest]]:
    """Decode a rendered revision in steps, as ``unpacking_record``.

    Raises:
        RecordUnreadable: It is not a list of mappings, or exceeds the bounds.
    """
    manifests = yield from _unpacking(packed)
    if not isinstance(manifests, list) or not all(isinstance(one, dict) for one in manifests):
        raise RecordUnreadable("its revision is not a list of objects")
    try:
        orjson.dumps(manifests)
    except TypeError:
        raise RecordUnreadable(f"its revision nests deeper than {MAX_DEPTH} levels") from None
    return manifests


def _entry(known: RecordedObject) -> dict[str, Any]:
    identity = known.id
    entry = {
        "group": identity.group,
        "version": known.version,
        "kind": identity.kind,
        "namespace": identity.namespace,
        "name": identity.name,
        "uid": known.uid,
        "digest": known.digest,
        "kept": known.kept,
    }
    written: dict[str, Any] = {key: value for key, value in entry.items() if value}
    if known.protected:
        written["protected"] = True
    if known.mark:
        written["mark"] = {
            "generation": known.mark.generation,
            "resourceVersion": known.mark.resource_version,
            "texts": known.mark.texts,
        }
    return written


def _entries(
    document: Mapping[str, Any], key: str, listed: set[ObjectId]
) -> Generator[None, None, tuple[RecordedObject, ...]]:
    """Decode a list of objects; ``listed`` collects all objects of the record."""
    entries = document.get(key)
    if not isinstance(entries, list) or len(listed) + len(entries) > MAX_OBJECTS:
        raise RecordUnreadable(f"its {key} are not a list, or it lists more than {MAX_OBJECTS} objects")
    found: list[RecordedObject] = []
    for start in range(0, len(entries), SLICE):
        known_before = len(listed)
        found += [_known(entry) for entry in entries[start : start + SLICE]]
        listed.update(known.id for known in found[start:])
        if len(listed) - known_before != len(found) - start:
            raise RecordUnreadable("it lists an object twice")
        yield
    return tuple(found)


def _known(entry: object) -> RecordedObject:
    if not isinstance(entry, dict):
        raise RecordUnreadable("an entry is not a mapping")
    texts = [entry.get(field, "") for field in _OBJECT]
    try:
        valid = _OBJECT_AT_ONCE.fullmatch("\0".join(texts)) is not None
    except TypeError:
        valid = False
    if not valid:
        texts = [_text(entry, field, pattern) for field, pattern in _OBJECT.items()]
    group, version, kind, namespace, name, uid, digest, kept = texts
    return RecordedObject(
        ObjectId(group, kind, namespace, name),
        version,
        uid,
        digest,
        _mark(entry.get("mark")),
        kept,
        entry.get("protected") is True,
    )


def identity_fault(identity: ObjectId, version: str) -> str:
    """Return what of an object no record can hold, and no API server takes; empty if there is nothing."""
    texts = (identity.group, version, identity.kind, identity.namespace, identity.name)
    for (field, pattern), text in zip(_IDENTITY.items(), texts, strict=True):
        if not pattern.fullmatch(text):
            return f"has a {field} that no API server takes: {shown(text)}"
    return ""


def _mark(mark: object) -> Mark | None:
    if mark is None:
        return None
    if not isinstance(mark, dict) or type(mark.get("generation")) is not int:
        raise RecordUnreadable("a mark is not valid")
    return Mark(mark["generation"], _text(mark, "resourceVersion", _WORD), _text(mark, "texts", _WORD))


def _abandoned_entry(abandoned: AbandonedRevision) -> dict[str, str]:
    return {
        "inputs": abandoned.inputs,
        "release": abandoned.release,
        "returnedTo": abandoned.returned_to,
        "reason": abandoned.reason,
    }


def _abandoned(entry: object) -> AbandonedRevision | None:
    if entry is None:
        return None
    if not isinstance(entry, dict):
        raise RecordUnreadable("its field abandoned is not a mapping")
    return AbandonedRevision(
        _text(entry, "inputs", _WORD),
        _text(entry, "release", _NAME),
        _text(entry, "returnedTo", _NAME),
        _text(entry, "reason", _TEXT),
    )


def _text(entry: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise RecordUnreadable(f"its field {key} is {shown(value)}")
    return value


def _packed(document: object) -> bytes | None:
    text = orjson.dumps(document)
    if len(text) > MAX_BYTES or _weight(text) > MAX_WEIGHT:
        return None
    return gzip.compress(text, _COMPRESSION, mtime=0)


def _unpacking_mapping(packed: bytes) -> Generator[None, None, dict[str, Any]]:
    document = yield from _unpacking(packed)
    if not isinstance(document, dict):
        raise RecordUnreadable("it is not a mapping")
    version = document.get("format")
    if version != FORMAT:
        raise RecordUnreadable(f"its format is {shown(version)}, this operator supports {FORMAT}")
    return document


def _unpacking(packed: bytes) -> Generator[None, None, Any]:
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(packed, MAX_BYTES)
        yield
        if not unpacker.eof:
            raise RecordUnreadable(f"it is truncated, or larger than {MAX_BYTES} bytes")
        if _weight(text) > MAX_WEIGHT:
            raise RecordUnreadable("it contains more values than this operator ever writes")
        document = orjson.loads(text)
    except (zlib.error, orjson.JSONDecodeError) as error:
        raise RecordUnreadable(f"it is not compressed JSON: {error}") from None
    yield
    return document


def _weight(text: bytes) -> int:
    """Return an upper bound of the number of values in a JSON text without parsing it; strings may increase it.

    A brace before an escaped quote is part of a string, as in a dashboard inside a ConfigMap.
    """
    containers = text.count(b"{") + text.count(b"[") - text.count(b'{\\"')
    return text.count(b",") + 2 * containers
