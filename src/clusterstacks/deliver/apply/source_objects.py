"""Reads the objects that ConfigMaps and Secrets contain, as ClusterResourceSets have them.

A value may have several documents and ``List`` kinds, and may be compressed with gzip. What is wrong with one document
does not concern the others. Nothing of a Secret is quoted in a message.
"""

from __future__ import annotations

import re
import zlib
from base64 import b64decode
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.record_codec import MAX_BYTES, MAX_WEIGHT
from clusterstacks.deliver.apply.targets import fault_of
from clusterstacks.deliver.render.errors import RenderFailed, kind_of
from clusterstacks.deliver.render.helm_output import MAX_OBJECTS, flattened
from clusterstacks.deliver.render.protocol import RenderedDocument
from clusterstacks.model import yaml
from clusterstacks.model.documents import mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterresourcesync import SyncSourceKind
from clusterstacks.model.objects import object_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest, ObjectId, ObjectKey

SOURCE_SECRET_TYPE: Final = "addons.cluster.x-k8s.io/resource-set"  # noqa: S105 - not a password
"""Type of the Secrets that may be a source, as in ClusterResourceSet: who may write a sync could read others by it."""

MAX_KEYS: Final = 1000
"""Keys of one source (arbitrary: the largest sources known have some ten)."""

MAX_DOCUMENTS: Final = 2 * MAX_OBJECTS
"""Documents of one source, empty ones included (arbitrary)."""

VALUE_BYTES: Final = 100
"""Memory of a value beside its text (measured: 40 to 97)."""

_SEPARATOR: Final = re.compile(r"^---(?=\s|\Z)", re.MULTILINE)
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class SourceObjects:
    """The objects of one source.

    Args:
        title: Kind and name of the source: ``ConfigMap team/cni``.
        manifests: Its objects, by key and then in the order of the documents.
        faults: What could not be read, with key and document. Objects that were delivered from there may still be
            wanted, so nothing is pruned while there is one.
        memory: What manifests and faults take at most, in bytes.
    """

    title: str
    manifests: tuple[Manifest, ...] = ()
    faults: tuple[str, ...] = ()
    memory: int = 0

    @property
    def is_empty(self) -> bool:
        """True if the source exists and can be read, and has no object."""
        return not self.manifests and not self.faults


def read_source(kind: str, key: ObjectKey, source: Manifest | None) -> SourceObjects:
    """Return the objects of a ConfigMap or Secret, which is None if it does not exist."""
    title = f"{kind} {key}"
    if source is None:
        fault = (
            f"{title} does not exist: create it, or remove it from the sync; its objects stay as they are until then"
        )
        return SourceObjects(title, faults=(fault,))
    if kind == SyncSourceKind.SECRET and source.get("type") != SOURCE_SECRET_TYPE:
        return SourceObjects(title, faults=(_wrong_type(title, key, text(source, "type")),))
    return _SourceReading(title, is_secret=kind == SyncSourceKind.SECRET).read(source)


def source_texts(kind: str, key: ObjectKey, source: Manifest) -> dict[str, str]:
    """Return the values of a source as text, by key, up to the bounds of a source; the others are missing."""
    if kind == SyncSourceKind.SECRET and source.get("type") != SOURCE_SECRET_TYPE:
        return {}
    return _SourceReading(f"{kind} {key}", is_secret=kind == SyncSourceKind.SECRET).texts(source)


def without_repetitions(sources: Iterable[SourceObjects]) -> list[SourceObjects]:
    """Return the sources without objects that an earlier source or document has; each is a fault."""
    first: dict[ObjectId, str] = {}
    unique = []
    for source in sources:
        kept, faults = [], list(source.faults)
        for manifest in source.manifests:
            identity = object_id(manifest)
            if identity in first:
                faults.append(
                    f"{source.title} has {identity}, which is also in {first[identity]}: remove one of the two"
                )
            else:
                first[identity] = source.title
                kept.append(manifest)
        unique.append(replace(source, manifests=tuple(kept), faults=tuple(faults)))
    return unique


def _wrong_type(title: str, key: ObjectKey, found: str) -> str:
    return (
        f"{title} has the type {found or 'Opaque'}, and only Secrets of type {SOURCE_SECRET_TYPE} are sources; "
        "the type of a Secret cannot be changed, so create another one: kubectl --namespace "
        f"{key.namespace} create secret generic {key.name}-objects --type={SOURCE_SECRET_TYPE} --from-file=FILE"
    )


class _SourceReading:
    """The reading of one source within the bounds of a delivery record, for all of its keys together."""

    def __init__(self, title: str, *, is_secret: bool) -> None:
        self._title = title
        self._is_secret = is_secret
        self._bytes = MAX_BYTES
        self._documents = MAX_DOCUMENTS
        self._budget = yaml.ValueBudget(values=MAX_WEIGHT, characters=MAX_BYTES, values_of_text=MAX_WEIGHT)
        self._manifests: list[Manifest] = []
        self._faults: list[str] = []

    def read(self, source: Manifest) -> SourceObjects:
        plain, encoded, keys = self._values(source)
        if len(keys) > MAX_KEYS:
            self._faults.append(f"{self._title} has {len(keys)} keys, more than the limit of {MAX_KEYS}")
        for key in keys[:MAX_KEYS]:
            label = f"{self._title}, key {key}"
            try:
                content = plain[key] if key in plain else self._decoded(label, encoded[key])
                self._read_key(label, content)
            except SpecError as error:
                self._faults.append(error.message)
        values, characters = MAX_WEIGHT - self._budget.values, MAX_BYTES - self._budget.characters
        memory = values * VALUE_BYTES + characters + sum(len(fault) + VALUE_BYTES for fault in self._faults)
        return SourceObjects(self._title, tuple(self._manifests), tuple(self._faults), memory)

    def texts(self, source: Manifest) -> dict[str, str]:
        """Return the values that can be decoded, by key."""
        plain, encoded, keys = self._values(source)
        texts = {}
        for key in keys[:MAX_KEYS]:
            with suppress(SpecError):  # reported when the source is read
                content = plain[key] if key in plain else self._decoded(key, encoded[key])
                self._count(key, content)
                texts[key] = content
        return texts

    def _values(self, source: Manifest) -> tuple[Mapping[str, str], Mapping[str, str], list[str]]:
        """Return the plain values, those in base64, and the keys of both."""
        plain = {} if self._is_secret else mapping(source, "data")
        encoded = mapping(source, "data" if self._is_secret else "binaryData")
        return plain, encoded, sorted({*plain, *encoded})

    def _count(self, label: str, content: str) -> None:
        self._bytes -= len(content.encode(errors="surrogatepass"))
        if self._bytes < 0:
            self._bytes = 0
            raise self._too_large(label)

    def _decoded(self, label: str, encoded: str) -> str:
        if len(encoded) > self._bytes * 2:
            raise self._too_large(label)
        try:
            content = b64decode(encoded, validate=True)
        except ValueError:
            raise SpecError("SourceInvalid", f"{label}: is not base64") from None
        if content.startswith(_GZIP):
            content = self._decompressed(label, content)
        try:
            return content.decode()
        except UnicodeDecodeError as error:
            raise SpecError("SourceInvalid", f"{label}: is not UTF-8 at byte {error.start}") from None

    def _decompressed(self, label: str, content: bytes) -> bytes:
        unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        try:
            unpacked = unpacker.decompress(content, self._bytes + 1)
        except zlib.error:
            raise SpecError("SourceInvalid", f"{label}: is not gzip: compress the file again") from None
        if len(unpacked) > self._bytes:
            raise self._too_large(label)
        if not unpacker.eof:
            raise SpecError("SourceInvalid", f"{label}: its gzip data is incomplete: compress the file again")
        return unpacked

    def _read_key(self, label: str, content: str) -> None:
        self._count(label, content)
        for number, (line, document) in enumerate(_documents(content), start=1):
            self._documents -= 1
            if self._documents < 0:
                raise SpecError("SourceInvalid", f"{self._title} has more than {MAX_DOCUMENTS} documents: split it")
            if min(self._budget.values, self._budget.characters) < 0:
                raise SpecError(
                    "SourceInvalid", f"{label}: the source is too large with all aliases expanded: split it"
                )
            before = replace(self._budget)
            try:
                found = list(self._objects(f"{label}, document {number}", document, line))
            except SpecError as error:
                self._faults.append(error.message)
                # It takes no memory, only the time of its values: a source may have ten bombs.
                self._budget.values = max(self._budget.values, before.values - MAX_WEIGHT // 10)
                self._budget.characters = max(self._budget.characters, before.characters - MAX_BYTES // 10)
                continue
            if len(self._manifests) + len(found) > MAX_OBJECTS:
                raise SpecError("SourceInvalid", f"{self._title} has more than {MAX_OBJECTS} objects: split it")
            self._manifests += found

    def _objects(self, label: str, document: str, line: int) -> Iterator[Manifest]:
        try:
            loaded = yaml.load_all(document, name=label, max_values=self._budget, unique_keys=False)
        except yaml.YamlError as error:
            # A parser quotes names and values of the text.
            problem = "cannot be read as YAML (a Secret is not quoted)" if self._is_secret else error.problem
            raise yaml.YamlError(label, problem, error.line and error.line + line) from None
        for one in loaded:
            if one is None:
                continue
            if not isinstance(one, dict):
                raise RenderFailed(f"{label}: is {kind_of(one)} instead of an object")
            for single in flattened(RenderedDocument(one, self._title, label)):
                if fault := fault_of(single.manifest):
                    raise RenderFailed(f"{single.source}: {fault}")
                yield single.manifest

    def _too_large(self, label: str) -> SpecError:
        return SpecError(
            "SourceInvalid", f"{label}: the source is larger than {MAX_BYTES} bytes when decoded: split it"
        )


def _documents(content: str) -> Iterator[tuple[int, str]]:
    """Yield the documents that are not blank, as text, with the number of the lines before each."""
    start = line = 0
    for end in [*(separator.start() for separator in _SEPARATOR.finditer(content)), len(content)]:
        document = content[start:end]
        if document.removeprefix("---").strip():
            yield line, document
        line += document.count("\n")
        start = end
