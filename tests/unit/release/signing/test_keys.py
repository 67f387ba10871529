from __future__ import annotations

from base64 import b64decode, encodebytes

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import SpecError
from clusterstacks.release.signing.keys import (
    MAX_KEY_BYTES,
    MAX_PASSWORD_BYTES,
    PublicKey,
    needs_password,
    new_key_pair,
    parse_private_key,
    parse_public_keys,
)
from tests.support.builders.signatures import ecdsa_key, ed25519_key, ed25519_pem, public, public_pem

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()
SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


def other_keys() -> list[object]:
    return [
        ec.generate_private_key(ec.SECP384R1()),
        ec.generate_private_key(ec.SECP256K1()),
        rsa.generate_private_key(65537, 2048),
        ed448.Ed448PrivateKey.generate(),
    ]


def block(label: str, body: str = "AAAA") -> bytes:
    return f"-----BEGIN {label}-----\n{body}\n-----END {label}-----\n".encode()


@pytest.mark.parametrize("key", [ecdsa_key(), ed25519_key()], ids=["ecdsa", "ed25519"])
def test_signature_is_verified_with_the_exported_public_key(key: object) -> None:
    assert isinstance(key, type(ecdsa_key()))
    trusted = public(key, "x")

    assert trusted.fingerprint == key.public.fingerprint
    assert trusted.verifies(b"message", key.sign(b"message"))
    assert not trusted.verifies(b"massage", key.sign(b"message"))
    assert not trusted.verifies(b"message", b"")


def test_signature_of_the_ed25519_test_vector_is_verified() -> None:
    # RFC 8032, section 7.1, TEST 1; the prefix is the SubjectPublicKeyInfo of RFC 8410.
    der = bytes.fromhex("302a300506032b6570032100d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    pem = serialization.load_der_public_key(der).public_bytes(PEM, SPKI)
    signature = bytes.fromhex(
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )

    (key,) = parse_public_keys(pem, name="x")

    assert key.verifies(b"", signature)


def test_signature_of_one_algorithm_is_invalid_for_the_other() -> None:
    one, other = ecdsa_key(), ed25519_key()

    assert not one.public.verifies(b"x", other.sign(b"x"))
    assert not other.public.verifies(b"x", one.sign(b"x"))


def test_keys_in_one_file_are_numbered() -> None:
    keys = [ecdsa_key(), ed25519_key(), ecdsa_key()]
    text = b"# ours\n" + b"\n# the old one\n".join(public_pem(key) for key in keys)

    parsed = parse_public_keys(text, name="release.pub")

    assert [(key.name, key.fingerprint) for key in parsed] == [
        ("release.pub", keys[0].public.fingerprint),
        ("release.pub#2", keys[1].public.fingerprint),
        ("release.pub#3", keys[2].public.fingerprint),
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "contains no PEM block"),
        (b"ssh-ed25519 AAAA", "contains no PEM block"),
        (b"\0\xff" * 100, "contains no PEM block"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA", "contains no PEM block"),
        (block("PUBLIC KEY"), "cannot be read"),
        (block("PUBLIC KEY", "\xe9"), "cannot be read"),
        (block("CERTIFICATE"), "openssl x509 -pubkey"),
        (block("RSA PUBLIC KEY"), "is a PEM block RSA PUBLIC KEY"),
        (public_pem(ecdsa_key()) + b"-----BEGIN PUBLIC KEY-----\ncut", "an incomplete PEM block"),
        (block("PUBLIC KEY").replace(b"END PUBLIC", b"END PRIVATE"), "contains no PEM block"),
        (b" " * (MAX_KEY_BYTES + 1), "larger than 16384 bytes"),
        (b"-----BEGIN A-----" * 900, "contains no PEM block"),
    ],
)
def test_invalid_public_key_is_rejected(text: bytes, complaint: str) -> None:
    with pytest.raises(SpecError, match=f"^key release.pub.*{complaint}"):
        parse_public_keys(text, name="release.pub")


@pytest.mark.parametrize("key", other_keys())
def test_unsupported_key_types_are_rejected(key: ec.EllipticCurvePrivateKey) -> None:
    with pytest.raises(SpecError, match="use an ECDSA P-256 or Ed25519 key"):
        parse_public_keys(key.public_key().public_bytes(PEM, SPKI), name="x")
    with pytest.raises(SpecError, match="use an ECDSA P-256 or Ed25519 key"):
        parse_private_key(key.private_bytes(PEM, PKCS8, PLAIN), name="x")


@pytest.mark.parametrize("pem", [new_key_pair()[0], new_key_pair(b"p")[0], ed25519_pem()])
def test_private_key_instead_of_a_public_key_is_reported_without_quoting_it(pem: bytes) -> None:
    with pytest.raises(SpecError, match="is a private key; use the public key") as refused:
        parse_public_keys(pem, name="x")

    assert pem.splitlines()[1].decode() not in str(refused.value)


@pytest.mark.parametrize("pem", [new_key_pair(b"secret")[0], ed25519_pem(b"secret")])
def test_encrypted_key_opens_only_with_its_password(pem: bytes) -> None:
    assert needs_password(pem)
    assert isinstance(parse_private_key(pem, name="x", password=b"secret").public, PublicKey)
    with pytest.raises(SpecError, match="is protected by a password"):
        parse_private_key(pem, name="x")
    with pytest.raises(SpecError, match="the password is wrong") as refused:
        parse_private_key(pem, name="x", password=b"gu3ss")
    assert "gu3ss" not in str(refused.value)


def test_password_is_ignored_for_an_unencrypted_key() -> None:
    pem = ed25519_pem()

    assert not needs_password(pem)
    assert parse_private_key(pem, name="x", password=b"y") == parse_private_key(pem, name="x")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "contains no PEM block"),
        (public_pem(ecdsa_key()), "is a public key; use the private key to sign"),
        (new_key_pair()[0] * 2, "more than one PEM block"),
        (block("PRIVATE KEY"), "cannot be read: it is damaged"),
        (block("EC PRIVATE KEY"), "openssl pkcs8 -topk8"),
        (block("EC PARAMETERS") + block("EC PRIVATE KEY"), "openssl pkcs8 -topk8"),
        (block("ENCRYPTED SIGSTORE PRIVATE KEY"), "cosign import-key-pair"),
        (block("ENCRYPTED COSIGN PRIVATE KEY"), "cosign import-key-pair"),
        (
            block("OPENSSH PRIVATE KEY"),
            "is a PEM block OPENSSH PRIVATE KEY; keys in the format of OpenSSH are not read",
        ),
    ],
)
def test_invalid_private_key_is_rejected(text: bytes, complaint: str) -> None:
    with pytest.raises(SpecError, match=f"^key x .*{complaint}"):
        parse_private_key(text, name="x")


def test_private_key_is_not_in_its_repr() -> None:
    key = ecdsa_key()

    shown = f"{key!r} {key}"

    assert shown.count("fingerprint") == 2
    assert "0x" not in shown
    assert "PrivateKey object" not in shown


def test_longest_password_works_and_a_longer_one_is_rejected() -> None:
    longest = b"x" * MAX_PASSWORD_BYTES

    assert parse_private_key(new_key_pair(longest)[0], name="x", password=longest).public.fingerprint
    with pytest.raises(SpecError, match="more than 1023 bytes"):
        new_key_pair(longest + b"x")
    with pytest.raises(SpecError, match="the password is wrong"):
        parse_private_key(new_key_pair(b"y")[0], name="x", password=longest + b"x")


WRITTEN = [
    (label, b64decode(b"".join(pem.splitlines()[1:-1])))
    for label, pem in [
        ("PUBLIC KEY", public_pem(ecdsa_key())),
        ("PUBLIC KEY", public_pem(ed25519_key())),
        ("PRIVATE KEY", new_key_pair()[0]),
        ("PRIVATE KEY", ed25519_pem()),
    ]
]


@given(st.sampled_from(WRITTEN), st.integers(min_value=0), st.integers(0, 255), st.booleans())
def test_damaged_key_is_read_or_rejected_with_its_name(
    written: tuple[str, bytes],
    at: int,
    byte: int,
    cut: bool,  # noqa: FBT001
) -> None:
    label, der = written
    at %= len(der)
    damaged = der[:at] if cut else der[:at] + bytes([byte]) + der[at + 1 :]
    text = block(label, encodebytes(damaged).decode())
    try:
        if label == "PUBLIC KEY":
            parse_public_keys(text, name="x")
        else:
            parse_private_key(text, name="x")
    except SpecError as refused:
        assert str(refused).startswith("key x ")  # noqa: PT017 - a damaged key may still be one
