"""DSSE envelopes: a payload and the signatures over it; strict JSON for documents that are not verified yet.

Source: https://github.com/secure-systems-lab/dsse, protocol.md and envelope.md, version 1.0.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from clusterstacks.model.documents import Node, shown
from clusterstacks.release.release_source import MAX_SIGNATURE_BYTES, MAX_SIGNATURES
from clusterstacks.release.signing.errors import SignatureRefused

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.release.signing.keys import PrivateKey, PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"

MAX_VALUE_BYTES = 80
"""Longest signature of a key of this program: 72 bytes for ECDSA P-256 in DER, 64 for Ed25519."""

MAX_KEYID_CHARACTERS = 256
"""Longest key id that is kept (arbitrary; a fingerprint has 64)."""


def pae(payload_type: str, payload: bytes) -> bytes:
    """Return the pre-authentication encoding, the bytes that are signed; no two pairs of type and payload share one."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature over the payload, not verified yet."""

    keyid: str
    """The key that claims to have signed; not authenticated, so it is only a hint and for messages."""
    value: bytes
    """DER for ECDSA, 64 bytes for Ed25519."""

    @property
    def plausible(self) -> bool:
        """True if its length fits the supported keys."""
        return len(self.value) <= MAX_VALUE_BYTES and len(self.keyid) <= MAX_KEYID_CHARACTERS


@dataclass(frozen=True, slots=True)
class Envelope:
    """An in-toto document with signatures over it; not authenticated before :meth:`signers` returned a key."""

    payload: bytes = field(repr=False)
    signatures: tuple[Signature, ...] = ()

    def signers(self, keys: Collection[PublicKey], most: int = MAX_SIGNATURES) -> tuple[PublicKey, ...]:
        """Return those of the trusted ``keys`` that signed the payload.

        At most ``most`` signatures are tried; those that claim to be by one of the keys come first.
        """
        message, named = pae(PAYLOAD_TYPE, self.payload), {key.fingerprint for key in keys}
        tried = sorted(self.signatures, key=lambda made: made.keyid not in named)[:most]
        return tuple(key for key in keys if any(key.verifies(message, made.value) for made in tried))

    def signed(self, key: PrivateKey) -> Envelope:
        """Add a signature; nothing changes when the key signed before, and a full envelope is refused."""
        if self.signers([key.public]):
            return self
        if len(self.signatures) >= MAX_SIGNATURES:
            raise SignatureRefused(f"the envelope already has {MAX_SIGNATURES} signatures, the most that are read")
        made = Signature(key.public.fingerprint, key.sign(pae(PAYLOAD_TYPE, self.payload)))
        return replace(self, signatures=(*self.signatures, made))

    def text(self, *, indent: int | None = 2) -> bytes:
        """Write the envelope as JSON, as :func:`parse_envelope` reads it; on one line without ``indent``."""
        signatures = [
            ({"keyid": made.keyid} if made.keyid else {}) | {"sig": b64encode(made.value).decode()}
            for made in self.signatures
        ]
        payload = b64encode(self.payload).decode()
        document = {"payloadType": PAYLOAD_TYPE, "payload": payload, "signatures": signatures}
        return f"{json.dumps(document, indent=indent)}\n".encode()


def parse_envelope(text: bytes) -> Envelope:
    """Parse an envelope, without verifying it.

    Raises:
        SignatureRefused: It is damaged, too large, or not over an in-toto document.
    """
    root = read_document(text, name="the envelope", limit=MAX_SIGNATURE_BYTES)
    kind = root.child("payloadType").value
    if kind != PAYLOAD_TYPE:
        raise SignatureRefused(f"the payload type of the envelope is {shown(kind)}, not {PAYLOAD_TYPE}")
    signatures = root.child("signatures").items()
    if not signatures:
        raise SignatureRefused("the envelope contains no signature")
    if len(signatures) > MAX_SIGNATURES:
        raise SignatureRefused(f"the envelope contains more than {MAX_SIGNATURES} signatures")
    return Envelope(
        payload=_bytes(root.child("payload")),
        signatures=tuple(
            Signature(made.child("keyid").optional_text(), _bytes(made.child("sig"))) for made in signatures
        ),
    )


def _bytes(node: Node) -> bytes:
    """Decode base64 in the standard or the URL-safe alphabet; only the canonical spelling is accepted."""
    expected = "expected base64"
    text = node.text(expected)
    try:
        plain = b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        raise node.refuse(expected) from None
    if text not in (b64encode(plain).decode(), urlsafe_b64encode(plain).decode()):
        raise node.refuse(expected)
    return plain


def read_document(text: bytes, *, name: str, limit: int) -> Node:
    """Parse a JSON document that is not verified yet and may be hostile.

    Duplicate keys are refused: readers that take the first one and readers that take the last one would see two
    documents under one signature.
    """
    if len(text) > limit:
        raise SignatureRefused(f"{name} is larger than {limit} bytes")
    try:
        document = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        cause = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise SignatureRefused(f"{name} is not a JSON document: {cause[:80]}") from None
    return Node(document, name, error=SignatureRefused)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("it contains a key twice")
    return document


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a JSON number")
