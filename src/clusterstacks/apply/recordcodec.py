"""Delivery records as bytes: bounded and checked when read, as the cluster's owner can edit them."""

from __future__ import annotations

import gzip
import re
import zlib
from typing import TYPE_CHECKING, Any, Final

import orjson

from clusterstacks.domain.delivery import DeliveryRecord, DeliveryState, Known, Mark
from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.objects import Manifest, ObjectId

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT: Final = 1

MAX_RECORD_BYTES: Final = 32 * 1024 * 1024
MAX_REVISION_BYTES: Final = 128 * 1024 * 1024
"""Unpacked sizes (arbitrary: more than a Secret of 1 MiB unpacks to without malice)."""

MAX_OBJECTS: Final = 20_000
"""Objects of one addon (arbitrary: a hundred times the largest charts known)."""

_COMPRESSION: Final = 6

_GROUP = re.compile(r"[a-z0-9.-]{0,253}")
_VERSION = re.compile(r"[a-z0-9]{1,63}")
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9]{0,62}")
_NAMESPACE = re.compile(r"[a-z0-9-]{0,63}")
_NAME = re.compile(r"(?!\.{1,2}$)[^/%\x00-\x1f\x7f]{1,253}")
_WORD = re.compile(r"[A-Za-z0-9:._-]{0,128}")
_TEXT = re.compile(r"[^\x00-\x1f\x7f]{0,1024}")


class RecordUnreadable(SpecError):
    """Somebody edited a delivery record, or a newer operator wrote it."""

    def __init__(self, message: str) -> None:
        super().__init__("RecordUnreadable", message)


def pack_record(record: DeliveryRecord) -> bytes:
    """Write a record; equal records give equal bytes."""
    document = {
        "format": FORMAT,
        "addon": record.addon,
        "digest": record.digest,
        "inputs": record.inputs,
        "state": record.state.value,
        "truncated": record.truncated,
        "objects": [_entry(known) for known in record.objects],
        "stale": [_entry(known) for known in record.stale],
    }
    return gzip.compress(orjson.dumps(document), _COMPRESSION, mtime=0)


def unpack_record(packed: bytes) -> DeliveryRecord:
    """Read a record.

    Raises:
        RecordUnreadable: Anything in it is not as we write it.
    """
    document = _loaded(packed, MAX_RECORD_BYTES)
    if not isinstance(document, dict):
        raise RecordUnreadable("it is no mapping")
    version = document.get("format")
    if version != FORMAT:
        raise RecordUnreadable(f"it has format {shown(version)}, this operator knows {FORMAT}")
    objects, stale = _entries(document, "objects"), _entries(document, "stale")
    if len({known.id for known in objects + stale}) != len(objects) + len(stale):
        raise RecordUnreadable("it lists an object twice")
    state = document.get("state")
    if not isinstance(state, str) or state not in set(DeliveryState):
        raise RecordUnreadable("its state is unknown")
    return DeliveryRecord(
        _text(document, "addon", _NAME),
        _text(document, "digest", _WORD),
        _text(document, "inputs", _WORD),
        DeliveryState(state),
        objects,
        stale,
        document.get("truncated") is True,
    )


def pack_revision(manifests: Sequence[Manifest]) -> bytes:
    """Write a rendered revision."""
    return gzip.compress(orjson.dumps(list(manifests)), _COMPRESSION, mtime=0)


def unpack_revision(packed: bytes) -> list[Manifest]:
    """Read a rendered revision.

    Raises:
        RecordUnreadable: It is no list of mappings.
    """
    manifests = _loaded(packed, MAX_REVISION_BYTES)
    if not isinstance(manifests, list) or not all(isinstance(one, dict) for one in manifests):
        raise RecordUnreadable("its revision is no list of objects")
    return manifests


def _entry(known: Known) -> dict[str, Any]:
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
    if known.mark:
        written["mark"] = {
            "generation": known.mark.generation,
            "resourceVersion": known.mark.resource_version,
            "texts": known.mark.texts,
        }
    return written


def _entries(document: Mapping[str, Any], key: str) -> tuple[Known, ...]:
    entries = document.get(key)
    if not isinstance(entries, list) or len(entries) > MAX_OBJECTS:
        raise RecordUnreadable(f"its {key} are no list of at most {MAX_OBJECTS}")
    return tuple(_known(entry) for entry in entries)


def _known(entry: object) -> Known:
    if not isinstance(entry, dict):
        raise RecordUnreadable("an entry is no mapping")
    identity = ObjectId(
        _text(entry, "group", _GROUP),
        _text(entry, "kind", _KIND),
        _text(entry, "namespace", _NAMESPACE),
        _text(entry, "name", _NAME),
    )
    return Known(
        identity,
        _text(entry, "version", _VERSION),
        _text(entry, "uid", _WORD),
        _text(entry, "digest", _WORD),
        _mark(entry.get("mark")),
        _text(entry, "kept", _TEXT),
    )


def _mark(mark: object) -> Mark | None:
    if mark is None:
        return None
    if not isinstance(mark, dict) or type(mark.get("generation")) is not int:
        raise RecordUnreadable("a mark is not as we write it")
    return Mark(mark["generation"], _text(mark, "resourceVersion", _WORD), _text(mark, "texts", _WORD))


def _text(entry: Mapping[str, Any], key: str, pattern: re.Pattern[str]) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise RecordUnreadable(f"its field {key} is {shown(value)}")
    return value


def _loaded(packed: bytes, limit: int) -> Any:  # noqa: ANN401  # any JSON value
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    try:
        text = unpacker.decompress(packed, limit)
        if not unpacker.eof:
            raise RecordUnreadable(f"it is cut off, or larger than {limit} bytes")
        return orjson.loads(text)
    except (zlib.error, orjson.JSONDecodeError) as error:
        raise RecordUnreadable(f"it is no compressed JSON: {error}") from None
