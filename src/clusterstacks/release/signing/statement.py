"""The signed document: an in-toto Statement that lists the files of one release.

Source: https://github.com/in-toto/attestation, spec/v1/statement.md.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import and_more, shown
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.release_source import MAX_SIGNATURE_BYTES
from clusterstacks.release.signing.envelope import Envelope, parse_envelope, read_document
from clusterstacks.release.signing.errors import SignatureRefused, signature_conflict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from clusterstacks.model.documents import Node
    from clusterstacks.model.names import ReleaseName

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://clusterstack.x-k8s.io/release/v1"
"""Our own type: a key that signs other in-toto documents, such as provenance, does not thereby sign releases."""

SHOWN_FILES = 5
"""Most files that a message lists (arbitrary)."""

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Statement:
    """The name and the files of a release, as they are signed."""

    release: str
    """Its name in dash form."""
    files: Mapping[str, str]
    """Name and sha256 in lower-case hex of every file."""

    def text(self) -> bytes:
        """Write the statement; the same release always gives the same bytes."""
        document = {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": self.files[name]}} for name in sorted(self.files)],
            "predicateType": PREDICATE_TYPE,
            "predicate": {"release": self.release},
        }
        return json.dumps(document, separators=(",", ":")).encode()

    def require(self, actual: Statement) -> None:
        """Refuse a release with another name or other files; the message lists the differences.

        Raises:
            SignatureRefused: The release is not the signed one.
        """
        if self.release != actual.release:
            raise SignatureRefused(f"it is for release {shown(self.release)}, not for {actual.release}")
        if differences := list(self._differences(actual.files)):
            raise SignatureRefused(f"it is for other files: {', '.join(differences)}")

    def _differences(self, actual: Mapping[str, str]) -> Iterator[str]:
        if missing := self.files.keys() - actual:
            yield f"{_listed(missing)} missing"
        if extra := actual.keys() - self.files.keys():
            yield f"{_listed(extra)} not signed"
        if changed := {name for name, digest in self.files.items() if actual.get(name, digest) != digest}:
            yield f"{_listed(changed)} changed"


def parse_statement(payload: bytes) -> Statement:
    """Parse a statement about a release; unknown fields are ignored, as the specification requires."""
    root = read_statement(payload, PREDICATE_TYPE)
    return Statement(root.child("predicate").child("release").text(), read_files(root))


def read_statement(payload: bytes, predicate_type: str) -> Node:
    """Parse a statement with a predicate of one type."""
    root = read_document(payload, name="the statement", limit=MAX_SIGNATURE_BYTES)
    for field, expected in (("_type", STATEMENT_TYPE), ("predicateType", predicate_type)):
        if root.child(field).value != expected:
            raise root.child(field).refuse(f"expected {expected}")
    return root


def read_files(root: Node) -> dict[str, str]:
    """Return name and sha256 in lower-case hex of every file that a statement lists."""
    files: dict[str, str] = {}
    for subject in root.child("subject").items():
        name, digest = subject.child("name").text(), subject.child("digest").child("sha256")
        if not _SHA256.fullmatch(digest.text()):
            raise digest.refuse("expected 64 hex digits")
        if name in files:
            raise SignatureRefused(f"the statement lists the file {shown(name)} twice")
        files[name] = digest.text()
    if not files:
        raise SignatureRefused("the statement lists no file")
    return files


def _listed(names: Collection[str]) -> str:
    return and_more([shown(name) for name in sorted(names)], SHOWN_FILES)


def release_envelope(name: ReleaseName, files: Mapping[str, str], present: bytes = b"") -> Envelope:
    """Return the envelope to sign: the existing one (``present``), so that its signatures stay, or a new one.

    Raises:
        SpecError: The existing envelope is damaged or for another release, or another program wrote it, so that
            a signature could cover more than this release.
        ReleaseBroken: There are no files.
    """
    if not files:
        raise ReleaseBroken(name, "the directory", "contains no file to sign")
    statement = Statement(name.release, files)
    if not present:
        return Envelope(statement.text())
    try:
        envelope = parse_envelope(present)
        parse_statement(envelope.payload).require(statement)
    except SignatureRefused as refused:
        raise signature_conflict(name, refused.message) from None
    if envelope.payload != statement.text():
        raise signature_conflict(name, "another program wrote it in another form")
    return envelope
