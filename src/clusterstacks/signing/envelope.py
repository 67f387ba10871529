"""DSSE envelopes: a payload and the signatures over it.

Source: https://github.com/secure-systems-lab/dsse, protocol.md and envelope.md, version 1.0.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from clusterstacks.domain.documents import Node, shown
from clusterstacks.releases.release_source import MAX_SIGNATURE_BYTES, MAX_SIGNATURES
from clusterstacks.signing.errors import SignatureRefused

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.signing.keys import PrivateKey, PublicKey

PAYLOAD_TYPE = "application/vnd.in-toto+json"

MAX_VALUE_BYTES = 80
"""Longest signature of a key of this program: 72 bytes for ECDSA P-256 in DER, 64 for Ed25519."""

MAX_KEYID_CHARACTERS = 256
"""Longest name of a key that is kept (arbitrary; a fingerprint has 64)."""


def pae(payload_type: str, payload: bytes) -> bytes:
    """Join type and payload so that no other pair gives the same bytes; these bytes are what is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature of an envelope.

    Args:
        keyid: Who claims to have signed; nobody vouches for it, so it is for messages only.
        value: DER for ECDSA, 64 bytes for Ed25519.
    """

    keyid: str
    value: bytes

    @property
    def plausible(self) -> bool:
        """Whether it is as long as signatures of the keys are that this program takes."""
        return len(self.value) <= MAX_VALUE_BYTES and len(self.keyid) <= MAX_KEYID_CHARACTERS


@dataclass(frozen=True, slots=True)
class Envelope:
    """An in-toto document with signatures over it.

    Args:
        payload: The document; not to be believed before :meth:`signers` named somebody.
    """

    payload: bytes = field(repr=False)
    signatures: tuple[Signature, ...] = ()

    def signers(self, keys: Collection[PublicKey], most: int = MAX_SIGNATURES) -> tuple[PublicKey, ...]:
        """Return those of the keys that signed the payload.

        Args:
            keys: The keys.
            most: How many signatures are tried; those first that claim to be by one of the keys.
        """
        message, named = pae(PAYLOAD_TYPE, self.payload), {key.fingerprint for key in keys}
        tried = sorted(self.signatures, key=lambda made: made.keyid not in named)[:most]
        return tuple(key for key in keys if any(key.verifies(message, made.value) for made in tried))

    def signed(self, key: PrivateKey) -> Envelope:
        """Add a signature; one more of a key that signed already changes nothing.

        Raises:
            SignatureRefused: The envelope is full.
        """
        if self.signers([key.public]):
            return self
        if len(self.signatures) >= MAX_SIGNATURES:
            raise SignatureRefused(f"the envelope has {MAX_SIGNATURES} signatures already, and no more would be read")
        made = Signature(key.public.fingerprint, key.sign(pae(PAYLOAD_TYPE, self.payload)))
        return replace(self, signatures=(*self.signatures, made))

    def text(self) -> bytes:
        """Write the envelope as JSON."""
        signatures = [
            ({"keyid": made.keyid} if made.keyid else {}) | {"sig": b64encode(made.value).decode()}
            for made in self.signatures
        ]
        payload = b64encode(self.payload).decode()
        document = {"payloadType": PAYLOAD_TYPE, "payload": payload, "signatures": signatures}
        return f"{json.dumps(document, indent=2)}\n".encode()


def parse_envelope(text: bytes) -> Envelope:
    """Read an envelope that nobody has verified yet.

    Raises:
        SignatureRefused: It is damaged, too large, or not over an in-toto document.
    """
    root = read_document(text, name="the envelope", limit=MAX_SIGNATURE_BYTES)
    kind = root.child("payloadType").value
    if kind != PAYLOAD_TYPE:
        raise SignatureRefused(f"the envelope is over {shown(kind)}, not {PAYLOAD_TYPE}")
    signatures = root.child("signatures").items()
    if not signatures:
        raise SignatureRefused("the envelope holds no signature")
    if len(signatures) > MAX_SIGNATURES:
        raise SignatureRefused(f"the envelope holds more than {MAX_SIGNATURES} signatures")
    return Envelope(
        payload=_bytes(root.child("payload")),
        signatures=tuple(
            Signature(made.child("keyid").optional_text(), _bytes(made.child("sig"))) for made in signatures
        ),
    )


def _bytes(node: Node) -> bytes:
    """Decode base64 in the standard or the URL-safe alphabet; only the one spelling each of them has is taken."""
    way_out = "write it in base64"
    text = node.text(way_out)
    try:
        plain = b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
    except ValueError:
        raise node.refuse(way_out) from None
    if text not in (b64encode(plain).decode(), urlsafe_b64encode(plain).decode()):
        raise node.refuse(way_out)
    return plain


def read_document(text: bytes, *, name: str, limit: int) -> Node:
    """Read one JSON document that nobody has verified yet.

    A key that stands twice is refused: readers that take the first and readers that take the last would see two
    documents under one signature.

    Args:
        text: UTF-8.
        name: How messages call the document.
        limit: Most bytes it may have.

    Raises:
        SignatureRefused: It is too large or no such document.
    """
    if len(text) > limit:
        raise SignatureRefused(f"{name} has more than {limit} bytes")
    try:
        document = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        cause = error.reason if isinstance(error, UnicodeDecodeError) else str(error)
        raise SignatureRefused(f"{name} is no JSON document: {cause[:80]}") from None
    return Node(document, name, error=SignatureRefused)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    document = dict(pairs)
    if len(document) != len(pairs):
        raise ValueError("a key stands in it twice")
    return document


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no number in JSON")
