from __future__ import annotations

import itertools
import json
from base64 import b64decode, b64encode
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.model.names import parse_release
from clusterstacks.net.oci.referrers import MAX_CANDIDATES
from clusterstacks.release.release_source import MAX_SIGNATURES, CosignSignature, Evidence
from clusterstacks.release.signing import verifier
from clusterstacks.release.signing.envelope import PAYLOAD_TYPE, Envelope
from clusterstacks.release.signing.errors import SignatureRequired, SignaturesUnclear
from clusterstacks.release.signing.keys import PublicKey
from clusterstacks.release.signing.statement import PREDICATE_TYPE, STATEMENT_TYPE, Statement
from clusterstacks.release.signing.verifier import SignaturePolicy, Verification, enforce, verify
from tests.support.builders.signatures import FILES, NAME, cosign_signed, ecdsa_key, ed25519_key, manifest, signed

OURS, ROTATED, FOREIGN = ecdsa_key("ours"), ed25519_key("rotated"), ecdsa_key("foreign")
TRUSTED = (OURS.public, ROTATED.public)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def look(*envelopes: bytes, files: dict[str, str] = FILES, trusted: Any = TRUSTED) -> Verification:
    return verify(NAME, files, Evidence(envelopes), trusted)


def proves(*keys: Any) -> Verification:
    """Return the verification of signatures by exactly these keys, in the order of the trusted keys."""
    fingerprints = tuple(sorted(key.public.fingerprint for key in keys))
    return Verification(tuple(key.public.name for key in keys), signers=fingerprints)


def statement(**fields: Any) -> bytes:
    """An envelope that our key signed, over a statement with these fields instead of the right ones."""
    document = {**json.loads(Statement(NAME.release, FILES).text()), **fields}
    return Envelope(json.dumps(document).encode()).signed(OURS).text()


def flipped(content: bytes, bit: int) -> bytes:
    changed = bytearray(content)
    changed[bit // 8 % len(content)] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize(
    ("signers", "trusted"),
    [
        ((OURS,), (OURS,)),
        ((ROTATED,), (ROTATED,)),
        ((ROTATED, OURS), (OURS, ROTATED)),
        ((FOREIGN, OURS), (OURS,)),
    ],
)
def test_one_trusted_signature_is_sufficient_and_each_signer_is_named(signers: Any, trusted: Any) -> None:
    assert look(signed(*signers)) == proves(*trusted)


def test_signatures_may_be_in_separate_envelopes() -> None:
    assert look(signed(ROTATED), signed(OURS)) == proves(OURS, ROTATED)


def test_foreign_signatures_do_not_invalidate_a_trusted_one() -> None:
    found = look(b"junk", signed(FOREIGN), signed(OURS))

    assert found.signed_by == ("ours",)
    assert [problem.split(":")[0] for problem in found.problems] == ["envelope 1", "envelope 2"]


def test_without_keys_or_signatures_verification_fails() -> None:
    assert look(signed(OURS), trusted=()) == Verification((), ("no key was given to verify it",))
    assert look() == Verification((), ("it has no signature",))


def test_unknown_signer_is_reported_with_found_and_expected_keys() -> None:
    (problem,) = look(signed(FOREIGN)).problems

    assert problem == (
        f"envelope 1: it is by '{FOREIGN.public.short}', not by a trusted key ("
        f"ours ({OURS.public.short}), rotated ({ROTATED.public.short}))"
    )


def test_keyid_is_only_a_hint() -> None:
    document = json.loads(signed(OURS))
    document["signatures"][0]["keyid"] = FOREIGN.public.fingerprint
    assert look(json.dumps(document).encode()).signed_by == ("ours",)

    document = json.loads(signed(FOREIGN))
    document["signatures"][0]["keyid"] = OURS.public.fingerprint
    (problem,) = look(json.dumps(document).encode()).problems
    assert problem.startswith(f"envelope 1: it claims to be by ours ({OURS.public.short}) but is not")


@pytest.mark.parametrize(
    ("files", "complaint"),
    [
        ({**FILES, "new": "0" * 64}, "'new' not signed"),
        ({name: FILES[name] for name in FILES if name != "metadata.yaml"}, "'metadata.yaml' missing"),
        ({**FILES, "metadata.yaml": "0" * 64}, "'metadata.yaml' changed"),
        ({**FILES, "metadata.yaml": FILES["metadata.yaml"].upper()}, "'metadata.yaml' changed"),
        ({}, "'clusteraddon.yaml', 'local-tiny-1-35-cluster-class-v2.tgz', 'metadata.yaml' missing"),
        ({**FILES, **{f"f{at}": "0" * 64 for at in range(8)}}, "'f0', 'f1', 'f2', 'f3', 'f4' and 3 more not signed"),
    ],
)
def test_every_changed_file_is_named(files: dict[str, str], complaint: str) -> None:
    assert look(signed(OURS), files=files) == Verification((), (f"envelope 1: it is for other files: {complaint}",))


def test_signature_of_another_release_is_rejected() -> None:
    other = parse_release("local-tiny-1-35-v3")

    (problem,) = look(signed(OURS, name=other)).problems

    assert problem == "envelope 1: it is for release 'local-tiny-1-35-v3', not for local-tiny-1-35-v2"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"_type": "https://in-toto.io/Statement/v0.1"}, f"expected {STATEMENT_TYPE}"),
        ({"predicateType": "https://slsa.dev/provenance/v1"}, f"expected {PREDICATE_TYPE}"),
        ({"predicate": {}}, "predicate.release is missing"),
        ({"predicate": None}, "predicate is missing"),
        ({"subject": []}, "lists no file"),
        ({"subject": None}, "lists no file"),
        ({"subject": [{"name": "a", "digest": {"sha256": "0" * 64}}] * 2}, "lists the file 'a' twice"),
        ({"subject": [{"name": "a", "digest": {"sha512": "0" * 128}}]}, "sha256 is missing"),
        ({"subject": [{"name": "a", "digest": {"sha256": "0" * 63}}]}, "expected 64 hex digits"),
        ({"subject": [{"digest": {"sha256": "0" * 64}}]}, "name is missing"),
    ],
)
def test_statement_of_another_type_is_rejected_even_with_a_trusted_signature(
    fields: dict[str, Any], complaint: str
) -> None:
    found = look(statement(**fields))

    assert found.signed_by == ()
    assert complaint in found.problems[0]


def test_statement_with_unknown_fields_is_read() -> None:
    assert look(statement(predicate={"release": NAME.release, "note": 1}, more=[])).signed_by == ("ours",)


def rubbish(count: int, keyid: str = "") -> list[dict[str, str]]:
    """Signatures that look like ours and prove nothing; each is another one."""
    return [{"keyid": keyid, "sig": b64encode(b"%064d" % number).decode()} for number in range(count)]


def crowded(envelope: bytes, *first: dict[str, str]) -> bytes:
    """An envelope with these signatures before its own."""
    document = json.loads(envelope)
    return json.dumps({**document, "signatures": [*first, *document["signatures"]]}).encode()


def test_invalid_signatures_in_an_envelope_do_not_invalidate_a_trusted_one() -> None:
    assert look(crowded(signed(OURS), *rubbish(MAX_SIGNATURES - 1))) == proves(OURS)


def test_envelope_with_too_many_signatures_is_one_problem() -> None:
    found = look(crowded(signed(OURS), *rubbish(MAX_SIGNATURES)), signed(ROTATED))

    assert found.signed_by == ("rotated",)
    assert found.problems == (f"envelope 1: the envelope contains more than {MAX_SIGNATURES} signatures",)


def test_every_envelope_gets_its_share_of_verification_attempts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ours says whose it is, so it is tried first in its own envelope; how many others have does not matter."""
    others = [crowded(signed(FOREIGN), *rubbish(200, keyid=OURS.public.fingerprint)) for _ in range(MAX_CANDIDATES)]
    attempts = itertools.count()
    verifies = PublicKey.verifies

    def counted(key: PublicKey, message: bytes, value: bytes) -> bool:
        next(attempts)
        return verifies(key, message, value)

    monkeypatch.setattr(PublicKey, "verifies", counted)
    monkeypatch.setattr(verifier, "MAX_VERIFICATIONS", 2100)

    assert look(*others, crowded(signed(OURS), *rubbish(200))).signed_by == ("ours",)
    assert next(attempts) <= 2100


def test_incomplete_evidence_is_reported_first_and_is_inconclusive() -> None:
    unread = Evidence((signed(FOREIGN),), problems=("not all were read",), complete=False)
    found = verify(NAME, FILES, unread, TRUSTED)

    assert found.problems[0] == "not all were read"
    with pytest.raises(SignaturesUnclear, match=r"cannot be verified now.*not all were read.*delete"):
        enforce(NAME, found)
    assert "cannot be verified now" in enforce(NAME, found, SignaturePolicy.WARN)
    assert enforce(NAME, verify(NAME, FILES, replace(unread, envelopes=(signed(OURS),)), TRUSTED)) == ""


def test_cosign_signature_of_the_manifest_is_accepted() -> None:
    held = manifest()
    evidence = Evidence((), held, (cosign_signed(held, ROTATED),))

    assert verify(NAME, FILES, evidence, TRUSTED) == proves(ROTATED)


def cosign_problem(**changes: Any) -> str:
    held = manifest()
    evidence = replace(Evidence((), held, (cosign_signed(held, OURS),)), **changes)
    found = verify(NAME, FILES, evidence, TRUSTED)
    assert found.signed_by == ()
    return found.problems[0]


def test_cosign_signature_of_another_key_or_manifest_is_rejected() -> None:
    held, other = manifest(), manifest({**FILES, "metadata.yaml": "0" * 64})

    assert "not by a trusted key" in cosign_problem(cosign=(cosign_signed(held, FOREIGN),))
    assert "it is for the manifest 'sha256:" in cosign_problem(manifest=other)
    assert "it is for the manifest 'sha256:" in cosign_problem(manifest=b"")
    assert "'metadata.yaml' changed" in cosign_problem(manifest=other, cosign=(cosign_signed(other, OURS),))
    assert "critical.type is 'x'" in cosign_problem(cosign=(cosign_signed(held, OURS, kind="x"),))


def cosign_problem_of(held: bytes) -> str:
    return cosign_problem(manifest=held, cosign=(cosign_signed(held, OURS),))


def test_signed_manifest_of_another_release_is_rejected() -> None:
    twice = json.loads(manifest())
    twice["layers"] *= 2
    unnamed = json.loads(manifest())
    del unnamed["layers"][0]["annotations"]
    renamed = {name.replace("class-v2", "class-v3"): digest for name, digest in FILES.items()}

    assert "twice" in cosign_problem_of(json.dumps(twice).encode())
    assert "layers[0].annotations is missing" in cosign_problem_of(json.dumps(unnamed).encode())
    assert "more than 100 files" in cosign_problem_of(manifest({f"f{at}": "0" * 64 for at in range(101)}))
    assert "it is for another release: local-tiny-1-35-cluster-class-v2.tgz is not" in cosign_problem_of(
        manifest(renamed)
    )
    assert "is not a JSON document" in cosign_problem_of(b"junk")
    assert "is for another release" in cosign_problem_of(b'{"manifests": []}')


def test_signature_of_one_format_is_not_accepted_in_the_other() -> None:
    envelope = json.loads(signed(OURS))
    payload, signature = b64decode(envelope["payload"]), b64decode(envelope["signatures"][0]["sig"])
    held = manifest()
    made = cosign_signed(held, OURS)
    forged = {
        "payloadType": PAYLOAD_TYPE,
        "payload": b64encode(made.payload).decode(),
        "signatures": [{"sig": b64encode(made.signature).decode()}],
    }
    evidence = Evidence((json.dumps(forged).encode(),), held, (CosignSignature(payload, signature),))

    assert verify(NAME, FILES, evidence, TRUSTED).signed_by == ()


@given(st.integers(min_value=0), st.sampled_from(["payload", "sig"]), st.sampled_from([OURS, ROTATED]))
def test_bit_flip_in_an_envelope_is_rejected(bit: int, field: str, key: Any) -> None:
    document = json.loads(signed(key))
    holder = document if field == "payload" else document["signatures"][0]
    holder[field] = b64encode(flipped(b64decode(holder[field]), bit)).decode()

    assert look(json.dumps(document).encode()).signed_by == ()


@given(st.integers(min_value=0), st.sampled_from(["payload", "sig"]))
def test_bit_flip_in_the_base64_text_is_rejected(bit: int, field: str) -> None:
    envelope = signed(OURS)
    value = json.loads(envelope)[field] if field == "payload" else json.loads(envelope)["signatures"][0][field]

    assert look(envelope.replace(value.encode(), flipped(value.encode(), bit))).signed_by == ()


@given(st.integers(min_value=0), st.sampled_from(sorted(FILES)), st.booleans())
def test_bit_flip_in_the_file_list_is_rejected(bit: int, file: str, of_name: bool) -> None:  # noqa: FBT001
    files = dict(FILES)
    digest = files.pop(file)
    if of_name:
        files[flipped(file.encode(), bit).decode("latin-1")] = digest
    else:
        files[file] = flipped(bytes.fromhex(digest), bit).hex()

    assert look(signed(OURS), files=files).signed_by == ()


@given(
    st.integers(min_value=0), st.sampled_from(["payload", "signature", "manifest"]), st.sampled_from([OURS, ROTATED])
)
def test_bit_flip_in_a_cosign_signature_is_rejected(bit: int, part: str, key: Any) -> None:
    held = manifest()
    made = cosign_signed(held, key)
    evidence = Evidence(
        manifest=flipped(held, bit) if part == "manifest" else held,
        cosign=(made if part == "manifest" else replace(made, **{part: flipped(getattr(made, part), bit)}),),
    )

    assert verify(NAME, FILES, evidence, TRUSTED).signed_by == ()


@given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_arbitrary_bytes_are_rejected(junk: bytes) -> None:
    signed_junk = Envelope(junk or b" ").signed(OURS).text()
    evidence = Evidence(
        (junk, signed_junk),
        junk,
        (CosignSignature(junk, OURS.sign(junk)), CosignSignature(b"", junk), cosign_signed(junk, OURS)),
    )

    found = verify(NAME, FILES, evidence, TRUSTED)

    assert found.signed_by == ()
    assert len(found.problems) == 5
    "".join(found.problems).encode()


@settings(max_examples=50)
@given(JSON, st.sampled_from(["payloadType", "payload", "signatures"]))
def test_arbitrary_values_in_an_envelope_are_rejected(value: Any, field: str) -> None:
    document = {**json.loads(signed(OURS)), field: value}

    assert look(json.dumps(document).encode()).signed_by == ()


@settings(max_examples=50)
@given(JSON, st.sampled_from(["_type", "subject", "predicateType", "predicate"]))
def test_arbitrary_values_in_a_signed_statement_are_rejected(value: Any, field: str) -> None:
    assert look(statement(**{field: value})).signed_by == ()


def test_policy_selects_between_error_and_warning() -> None:
    unsigned = Verification((), ("envelope 1: it is odd",))

    with pytest.raises(SignatureRequired) as refused:
        enforce(NAME, unsigned)

    assert refused.value.code == "SignatureRequired"
    assert str(refused.value) == enforce(NAME, unsigned, SignaturePolicy.WARN)
    assert str(refused.value) == (
        "release local-tiny-1-35-v2 is not signed by a trusted key (envelope 1: it is odd); ask its publisher "
        "to sign it with a trusted key ('csctl sign'), and do not use it until then"
    )
    assert enforce(NAME, Verification(("ours",), ("further",)), SignaturePolicy.REQUIRE) == ""


def test_message_lists_a_bounded_number_of_problems() -> None:
    assert "(0; 1; 2; 3; and 6 more)" in enforce(NAME, Verification((), tuple("0123456789")), SignaturePolicy.WARN)
