"""Attestations: signed in-toto Statements about an image or a file, such as its SLSA provenance and its SBOM.

They are DSSE envelopes that ``cosign verify-attestation --key`` reads as well. Sources:
https://github.com/in-toto/attestation, spec/v1/statement.md, and https://slsa.dev/spec/v1.0/provenance.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.release.release_source import MAX_SIGNATURE_BYTES
from clusterstacks.release.signing.envelope import parse_envelope, read_document
from clusterstacks.release.signing.errors import SignatureRefused
from clusterstacks.release.signing.statement import STATEMENT_TYPE
from clusterstacks.release.signing.verifier import MAX_VERIFICATIONS, untrusted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from clusterstacks.model.documents import Node
    from clusterstacks.release.signing.keys import PublicKey

PROVENANCE = "https://slsa.dev/provenance/v1"
SBOM = "https://cyclonedx.org/bom"
NAMES = {PROVENANCE: "SLSA provenance", SBOM: "SBOM (CycloneDX)"}
"""Types of predicates, and their names for people."""


def write_statement(predicate_type: str, subjects: Iterable[tuple[str, str]], predicate: object) -> bytes:
    """Write a statement about subjects, each a name and a digest ``sha256:<hex>``; equal arguments give equal bytes."""
    document = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": name, "digest": {"sha256": digest.removeprefix("sha256:")}} for name, digest in subjects],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    return json.dumps(document, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Attestations:
    """What trusted keys state about one artifact, and why its other envelopes prove nothing."""

    predicates: Mapping[str, Node]
    """By type; the first one of each."""
    signed_by: tuple[str, ...]
    """Names of the keys."""
    problems: tuple[str, ...]

    def missing(self, *predicate_types: str) -> tuple[str, ...]:
        """Return the names of the types that no trusted key states."""
        return tuple(NAMES[kind] for kind in predicate_types if kind not in self.predicates)


def verify_attestations(digest: str, envelopes: Sequence[bytes], keys: Sequence[PublicKey]) -> Attestations:
    """Return what the envelopes by trusted ``keys`` state about the artifact with a digest (``sha256:<hex>``)."""
    predicates: dict[str, Node] = {}
    signers: dict[str, None] = {}
    problems = []
    share = max(MAX_VERIFICATIONS // max(len(keys) * len(envelopes), 1), 1)
    for at, text in enumerate(envelopes, 1):
        try:
            envelope = parse_envelope(text)
            if not (by := envelope.signers(keys, share)):
                raise SignatureRefused(untrusted(envelope, keys))  # noqa: TRY301 - a problem like the others
            kind, predicate = _stated_about(digest, envelope.payload)
        except SignatureRefused as refused:
            problems.append(f"attestation {at}: {refused}")
        else:
            predicates.setdefault(kind, predicate)
            signers |= dict.fromkeys(key.name for key in by)
    return Attestations(predicates, tuple(signers), tuple(problems))


def _stated_about(digest: str, payload: bytes) -> tuple[str, Node]:
    """Return type and predicate of a statement about one of its subjects."""
    root = read_document(payload, name="the statement", limit=MAX_SIGNATURE_BYTES)
    if root.child("_type").value != STATEMENT_TYPE:
        raise root.child("_type").refuse(f"expected {STATEMENT_TYPE}")
    stated = {f"sha256:{subject.child('digest').child('sha256').text()}" for subject in root.child("subject").items()}
    if digest not in stated:
        raise SignatureRefused(f"it is for another artifact, not for {digest}")
    return root.child("predicateType").text(), root.child("predicate")
