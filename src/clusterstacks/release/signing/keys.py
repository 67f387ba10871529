"""Keys that sign and verify releases: only ECDSA P-256 with SHA-256, and Ed25519.

The key alone determines the algorithm; nothing in a signature chooses it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from clusterstacks.release.signing.errors import key_unusable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.errors import SpecError

MAX_PASSWORD_BYTES = 1023
"""Longest password that OpenSSL accepts."""

MAX_KEY_BYTES = 16 * 1024
"""Largest text with keys (arbitrary; a public key has 0.2 KB)."""

SHORT_CHARACTERS = 16
"""Length of the part of a fingerprint that messages show."""

# A block ends before the next one begins, so that no part of a text is scanned twice.
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,60})-----(?:(?!-----BEGIN ).)*?-----END \1-----", re.DOTALL)
_BEGIN = b"-----BEGIN "
_PUBLIC = "PUBLIC KEY"
_PRIVATE = "PRIVATE KEY"
_ENCRYPTED = "ENCRYPTED PRIVATE KEY"
_KINDS = "an ECDSA P-256 or Ed25519 key"
_REMEDIES = {
    "EC PRIVATE KEY": "convert it with 'openssl pkcs8 -topk8'",
    "EC PARAMETERS": "convert it with 'openssl pkcs8 -topk8'",
    "ENCRYPTED SIGSTORE PRIVATE KEY": "sign with cosign itself, or generate a key with 'csctl sign --new-key'; "
    "'cosign import-key-pair' accepts such a key",
    "OPENSSH PRIVATE KEY": "keys in the format of OpenSSH are not read; make one with 'csctl sign --new-key PATH', or "
    "give a key in PKCS#8 ('openssl genpkey -algorithm ed25519')",
    "CERTIFICATE": "take the key out of it with 'openssl x509 -pubkey -noout'",
}
_REMEDIES["ENCRYPTED COSIGN PRIVATE KEY"] = _REMEDIES["ENCRYPTED SIGSTORE PRIVATE KEY"]

_Public: TypeAlias = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey
_Private: TypeAlias = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that verifies signatures."""

    name: str
    fingerprint: str
    """sha256 of its SubjectPublicKeyInfo in hex; the ``keyid`` of signatures, where it is only a hint."""
    key: _Public = field(repr=False, compare=False)

    @property
    def short(self) -> str:
        """The beginning of the fingerprint, for messages."""
        return self.fingerprint[:SHORT_CHARACTERS]

    def verifies(self, message: bytes, signature: bytes) -> bool:
        """Return whether this key made ``signature`` (DER for ECDSA, 64 bytes for Ed25519) over ``message``."""
        try:
            if isinstance(self.key, ec.EllipticCurvePublicKey):
                self.key.verify(signature, message, ec.ECDSA(hashes.SHA256()))
            else:
                self.key.verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A key that signs; its representation does not contain the key."""

    public: PublicKey
    key: _Private = field(repr=False, compare=False)

    def sign(self, message: bytes) -> bytes:
        """Sign a message; two ECDSA signatures of one message differ."""
        if isinstance(self.key, ec.EllipticCurvePrivateKey):
            return self.key.sign(message, ec.ECDSA(hashes.SHA256()))
        return self.key.sign(message)


def parse_public_keys(text: bytes, *, name: str) -> tuple[PublicKey, ...]:
    """Parse every public key of a PEM text, as openssl, cosign and ``csctl sign --new-key`` write them.

    In messages all keys but the first get a number after ``name``, as in ``release.pub#2``.

    Raises:
        SpecError: There is no key, or one of them is damaged, private, or of another kind.
    """
    blocks = enumerate(_blocks(text, name), 1)
    return tuple(_public(block, name if at == 1 else f"{name}#{at}") for at, block in blocks)


def parse_private_key(text: bytes, *, name: str, password: bytes = b"") -> PrivateKey:
    """Parse one PEM block in PKCS#8; ``password`` decrypts an encrypted key and is ignored for a plain one.

    Raises:
        SpecError: It is not such a key, or the password is missing or wrong.
    """
    (label, block), *others = _blocks(text, name)
    if label == _PUBLIC:
        raise key_unusable(name, "is a public key; use the private key to sign")
    if label not in (_PRIVATE, _ENCRYPTED):
        raise _wrong_label(name, label)
    if others:
        raise key_unusable(name, "contains more than one PEM block; leave only the private key in it")
    if label == _ENCRYPTED and not password:
        raise key_unusable(name, "is protected by a password, which is missing")
    try:
        key = serialization.load_pem_private_key(block, password if label == _ENCRYPTED else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        cause = "the password is wrong, or it is damaged" if label == _ENCRYPTED else "it is damaged"
        raise key_unusable(name, f"cannot be read: {cause}") from None
    if not isinstance(key, (ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey)):
        raise key_unusable(name, f"is of an unsupported kind; use {_KINDS}")
    return PrivateKey(_checked(key.public_key(), name), key)


def needs_password(text: bytes) -> bool:
    """Return whether a text is an encrypted private key."""
    return f"-----BEGIN {_ENCRYPTED}-----".encode() in text


def new_key_pair(password: bytes = b"") -> tuple[bytes, bytes]:
    """Generate an ECDSA P-256 key, which cosign can read; return the private and the public key as PEM.

    The password encrypts the private key, which is plain without one; one that is too long is refused.
    """
    if len(password) > MAX_PASSWORD_BYTES:
        raise key_unusable("to be made", f"has a password of more than {MAX_PASSWORD_BYTES} bytes; use a shorter one")
    key = ec.generate_private_key(ec.SECP256R1())
    closed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return (
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, closed),
        key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
    )


def _blocks(text: bytes, name: str) -> list[tuple[str, bytes]]:
    if len(text) > MAX_KEY_BYTES:
        raise key_unusable(name, f"is larger than {MAX_KEY_BYTES} bytes; check that it is the right file")
    blocks = list(_pem_blocks(text))
    if not blocks:
        raise key_unusable(name, f"contains no PEM block; use {_KINDS} in PEM")
    # A damaged block must be reported: the user relies on that key.
    if text.count(_BEGIN) != len(blocks):
        raise key_unusable(name, "contains an incomplete PEM block; write it again")
    return blocks


def _pem_blocks(text: bytes) -> Iterator[tuple[str, bytes]]:
    for match in _BLOCK.finditer(text):
        yield match[1].decode(), match[0]


def _public(labelled: tuple[str, bytes], name: str) -> PublicKey:
    label, block = labelled
    if label.endswith("PRIVATE KEY"):
        raise key_unusable(name, "is a private key; use the public key, and leave the private key with the signer")
    if label != _PUBLIC:
        raise _wrong_label(name, label)
    try:
        key = serialization.load_pem_public_key(block)
    except (ValueError, UnsupportedAlgorithm):
        raise key_unusable(name, f"cannot be read; use {_KINDS} in PEM") from None
    return _checked(key, name)


def _checked(key: object, name: str) -> PublicKey:
    """Check that a key is of one of the two kinds; of ECDSA only with the curve P-256."""
    if isinstance(key, ec.EllipticCurvePublicKey) and not isinstance(key.curve, ec.SECP256R1):
        raise key_unusable(name, f"uses the curve {key.curve.name}; use {_KINDS}")
    if not isinstance(key, (ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey)):
        raise key_unusable(name, f"is of an unsupported kind; use {_KINDS}")
    info = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return PublicKey(name, sha256(info).hexdigest(), key)


def _wrong_label(name: str, label: str) -> SpecError:
    return key_unusable(name, f"is a PEM block {label}; {_REMEDIES.get(label, f'use {_KINDS}')}")
