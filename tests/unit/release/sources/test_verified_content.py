"""SEC-30: what the status of a ClusterStackRelease says was verified decides; the pin in its annotation is a wish."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.kinds.names import DIGEST_ANNOTATION
from clusterstacks.release.sources.verified_content import (
    RequiredSignature,
    VerifiedContent,
    changed_pin,
    reason_to_verify,
)

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

A, B = (f"sha256:{digit * 64}" for digit in "ab")
OURS, FOREIGN = "1" * 64, "2" * 64
HERE, THERE = "oci://here.example.org/stacks", "oci://there.example.org/stacks"
REQUIRED = RequiredSignature(HERE, (frozenset({OURS}),))
VERIFIED = VerifiedContent(A, (OURS,), HERE)


@pytest.mark.regression("SEC-30")
@pytest.mark.parametrize(
    ("wished", "verified", "required", "words"),
    [
        (A, VERIFIED, REQUIRED, ""),
        (A, VerifiedContent(A, (FOREIGN, OURS), HERE), REQUIRED, ""),
        (B, VERIFIED, REQUIRED, f"was changed to {B}, but {A} was verified; set it back, or remove it"),
        (A, VerifiedContent(A, (FOREIGN,), HERE), REQUIRED, "none of the keys"),
        (A, VerifiedContent(A, (), HERE), REQUIRED, "none of the keys"),
        (A, VERIFIED, RequiredSignature(HERE, (frozenset(),)), "none of the keys"),
        (A, VERIFIED, RequiredSignature(THERE, (frozenset({OURS}),)), f"verified in {HERE}, but its source is {THERE}"),
        (A, VerifiedContent(A, (OURS,)), REQUIRED, "status does not say"),  # of an earlier version
        (A, VerifiedContent("", (OURS,), HERE), REQUIRED, "status does not say"),
        (A, VerifiedContent(), REQUIRED, "status does not say"),  # moved, or dropped by the CRDs of the Go operator
        ("", VERIFIED, REQUIRED, "status does not say"),
        # Without required signatures, it must only come from its source.
        (A, VERIFIED, None, ""),
        (A, VerifiedContent(A), None, ""),
        pytest.param(A, VerifiedContent(), None, "does not say", marks=pytest.mark.regression("SEC-33")),
        (B, VerifiedContent(A), None, f"was changed to {B}"),
    ],
)
def test_stored_content_is_used_only_if_the_status_proves_its_verification(
    wished: str, verified: VerifiedContent, required: RequiredSignature | None, words: str
) -> None:
    reason = reason_to_verify(wished, verified, required, confirmed=False)

    assert words in reason
    assert bool(words) == bool(reason)


@pytest.mark.regression("SEC-33")
def test_content_that_was_found_in_its_source_is_used_without_a_status() -> None:
    assert not reason_to_verify(A, VerifiedContent(), None, confirmed=True)
    assert reason_to_verify(A, VerifiedContent(), REQUIRED, confirmed=True)  # no signature was verified
    assert reason_to_verify(A, VerifiedContent(B), None, confirmed=True)


digests, sources = st.sampled_from(["", A, B]), st.sampled_from(["", HERE, THERE])
keys = st.sets(st.sampled_from([OURS, FOREIGN]))


@pytest.mark.regression("SEC-30")
@given(digests, digests, keys, sources, keys)
def test_required_signature_needs_digest_source_and_a_trusted_key(
    wished: str, digest: str, signers: set[str], source: str, trusted: set[str]
) -> None:
    verified = VerifiedContent(digest, tuple(sorted(signers)), source)
    usable = not reason_to_verify(wished, verified, RequiredSignature(HERE, (frozenset(trusted),)), confirmed=False)

    assert usable == (bool(wished) and wished == digest and source == HERE and bool(signers & trusted))
    # Whatever may be used with required signatures may be used without.
    assert not usable or not reason_to_verify(wished, verified, None, confirmed=False)


@pytest.mark.regression("SEC-30")
def test_pin_is_changed_only_if_other_content_was_verified() -> None:
    assert DIGEST_ANNOTATION in changed_pin(B, VERIFIED)
    assert not changed_pin(A, VERIFIED)
    assert not changed_pin("", VERIFIED)
    assert not changed_pin(B, VerifiedContent())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"digest": A, "signedBy": ["a", "b"], "verifiedSource": HERE}, VerifiedContent(A, ("a", "b"), HERE)),
        ({"digest": A, "signedBy": "a"}, VerifiedContent(A)),
        ({"digest": A, "signedBy": [1, {}, "a"]}, VerifiedContent(A, ("a",))),
        ({"digest": 1, "verifiedSource": []}, VerifiedContent()),
        ({}, VerifiedContent()),
    ],
)
def test_verified_content_is_read_from_the_status(status: Manifest, expected: VerifiedContent) -> None:
    assert VerifiedContent.of(status) == expected


def test_signers_are_known_only_for_the_verified_content_in_the_same_source() -> None:
    assert VERIFIED.signers_of(A, HERE) == (OURS,)
    assert VERIFIED.signers_of(B, HERE) == ()
    assert VERIFIED.signers_of(A, THERE) == ()
    assert VerifiedContent(signers=(OURS,), source=HERE).signers_of("", HERE) == ()
