from __future__ import annotations

import json
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from clusterstacks.release.release_source import MAX_SIGNATURE_BYTES, MAX_SIGNATURES
from clusterstacks.release.signing.envelope import PAYLOAD_TYPE, Envelope, Signature, pae, parse_envelope
from clusterstacks.release.signing.errors import SignatureRefused
from clusterstacks.release.signing.keys import PublicKey
from tests.support.builders.signatures import ecdsa_key, ed25519_key

PAYLOAD = b'{"\xff~?>": 1}'  # its base64 has characters in which the two alphabets differ


def document(**fields: Any) -> dict[str, Any]:
    standard = {
        "payloadType": PAYLOAD_TYPE,
        "payload": b64encode(PAYLOAD).decode(),
        "signatures": [{"keyid": "a", "sig": b64encode(b"sig").decode()}],
    }
    return {name: value for name, value in {**standard, **fields}.items() if value is not None}


def parse(**fields: Any) -> Envelope:
    return parse_envelope(json.dumps(document(**fields)).encode())


def test_pre_authentication_encoding_equals_the_dsse_example() -> None:
    # The example of protocol.md of DSSE 1.0, and lengths in bytes, not characters.
    assert (
        pae("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


def test_signature_of_the_dsse_test_vector_is_verified() -> None:
    # protocol.md writes r and s side by side; DER, which everybody uses, frames the same numbers.
    point = ec.EllipticCurvePublicNumbers(
        46950820868899156662930047687818585632848591499744589407958293238635476079160,
        5640078356564379163099075877009565129882514886557779369047442380624545832820,
        ec.SECP256R1(),
    )
    key = PublicKey("published", "", point.public_key())
    raw = b64decode("A3JqsQGtVsJ2O2xqrI5IcnXip5GToJ3F+FnZ+O88SjtR6rDAajabZKciJTfUiHqJPcIAriEGAHTVeCUjW2JIZA==")
    signature = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))

    assert key.verifies(pae("http://example.com/HelloWorld", b"hello world"), signature)
    assert not key.verifies(pae("http://example.com/HelloWorld", b"hello worlD"), signature)
    assert not key.verifies(b"hello world", signature)


def test_written_envelope_is_read_back() -> None:
    envelope = Envelope(PAYLOAD, (Signature("a", b"\xfb\xff"), Signature("", b"2")))

    assert parse_envelope(envelope.text()) == envelope


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_both_base64_alphabets_are_read(encode: Any) -> None:
    text = encode(b"\xfb\xff~").decode()

    assert parse(payload=text).payload == b"\xfb\xff~"


def test_unknown_fields_are_ignored() -> None:
    assert parse(signatures=[{"sig": "AA==", "cert": "x"}], extra=1).signatures == (Signature("", b"\0"),)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        (
            {"payloadType": "application/json"},
            r"the payload type of the envelope is 'application/json', not application/vnd\.in-toto\+json",
        ),
        ({"payloadType": None}, "the payload type of the envelope is nothing"),
        ({"payloadType": "\ud800"}, "the payload type of the envelope"),
        ({"payload": None}, "payload is missing"),
        ({"payload": ""}, "payload is ''"),
        ({"payload": 1}, "payload is 1"),
        ({"payload": "AAA"}, "expected base64"),
        ({"payload": "AB=="}, "expected base64"),  # the bits that are not used must be 0
        ({"payload": "AA=="[:3]}, "expected base64"),
        ({"payload": "AA==\n"}, "expected base64"),
        ({"payload": "-_+/"}, "expected base64"),
        ({"payload": "é"}, "expected base64"),
        ({"payload": "\ud800"}, "expected base64"),
        ({"signatures": None}, "contains no signature"),
        ({"signatures": []}, "contains no signature"),
        ({"signatures": {}}, "write a list"),
        ({"signatures": ["a"]}, "write a mapping"),
        ({"signatures": [{"keyid": "a"}]}, r"signatures\[0\]\.sig is missing"),
        ({"signatures": [{"keyid": 1, "sig": "AA=="}]}, r"signatures\[0\]\.keyid is 1"),
        ({"signatures": [{"sig": "AA=="}] * (MAX_SIGNATURES + 1)}, "more than 1000 signatures"),
    ],
)
def test_envelope_of_another_shape_is_rejected(fields: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SignatureRefused, match=complaint):
        parse(**fields)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "is not a JSON document"),
        (b"[]", "write a mapping"),
        (b"\xff", "is not a JSON document: invalid start byte"),
        ("\ufeff{}".encode(), "is not a JSON document"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1, "a": 1}', "it contains a key twice"),
        (b'{"a": {"b": 1, "b": 2}}', "it contains a key twice"),
        (b"[" * 100_000, "is not a JSON document"),
        (b"1" * 10_000, "is not a JSON document"),
        (b" " * (MAX_SIGNATURE_BYTES + 1), f"larger than {MAX_SIGNATURE_BYTES} bytes"),
    ],
)
def test_ambiguous_or_invalid_json_is_rejected(text: bytes, complaint: str) -> None:
    with pytest.raises(SignatureRefused, match=complaint):
        parse_envelope(text)


def test_second_key_adds_a_signature_and_the_same_key_does_not() -> None:
    first, second = ecdsa_key(), ed25519_key()

    once = Envelope(PAYLOAD).signed(first)
    both = once.signed(second).signed(first).signed(second)

    assert both.signatures[:1] == once.signatures
    assert [made.keyid for made in both.signatures] == [first.public.fingerprint, second.public.fingerprint]
    assert both.signers([first.public, second.public]) == (first.public, second.public)


def test_forged_keyid_does_not_prevent_a_signature_of_its_owner() -> None:
    key = ecdsa_key()
    forged = Envelope(PAYLOAD, (Signature(key.public.fingerprint, b"forged"),))

    assert forged.signers([key.public]) == ()
    assert forged.signed(key).signers([key.public]) == (key.public,)


def test_full_envelope_rejects_another_signature() -> None:
    full = Envelope(PAYLOAD, (Signature("", b"1"),) * MAX_SIGNATURES)

    with pytest.raises(SignatureRefused, match="already has 1000 signatures"):
        full.signed(ecdsa_key())
