"""Verifies that a key of a ClusterStack signed a release."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.clusterstackrelease import MAX_SIGNERS
from clusterstacks.api.names import Reason
from clusterstacks.domain.errors import SpecError
from clusterstacks.signing.errors import SHOWN_PROBLEMS
from clusterstacks.signing.keys import PublicKey, parse_public_keys
from clusterstacks.signing.verifier import SignaturePolicy, enforce, verify

if TYPE_CHECKING:
    from clusterstacks.releases.release import Release
    from clusterstacks.releases.release_source import Evidence
    from clusterstacks.sources.source_opener import SecretReader
    from clusterstacks.sources.spec import SignatureTrust

KEYS = "spec.source.verification"


class Unsigned(SpecError):
    """A release is refused because no trusted key signed it."""

    def __init__(self, complaint: str) -> None:
        super().__init__(Reason.SIGNATURE_REQUIRED, complaint)


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """What the signatures prove.

    Args:
        required: Whether a release without proof may not be used.
        complaint: Why there is no proof; empty when there is.
        signers: Fingerprints of the keys that are known to have signed the release, trusted now or before.
    """

    required: bool
    complaint: str
    signers: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the release may not be used."""
        return self.required and bool(self.complaint)


async def trusted_keys(trust: SignatureTrust, secrets: SecretReader) -> tuple[PublicKey, ...]:
    """Read the keys as they are now.

    Raises:
        SecretUnusable: A Secret is missing, or lacks the key.
        KeyUnusable: A text is no public key.
    """
    found: list[PublicKey] = []
    for number, key in enumerate(trust.keys, start=1):
        name, pem = f"{KEYS}.keys[{number - 1}]", key.pem.encode()
        if key.secret:
            name = f"{trust.namespace}/{key.secret}"
            pem = await secrets.value(trust.namespace, key.secret, key.key, purpose=KEYS)
        found += parse_public_keys(pem, name=name)
    return tuple(found)


async def verify_release(
    release: Release, evidence: Evidence, keys: tuple[PublicKey, ...], trust: SignatureTrust, signers: tuple[str, ...]
) -> SignatureVerdict:
    """Verify the signatures of a release; in a thread, as hostile ones take their time.

    Args:
        release: The release in hand.
        evidence: Its signatures, as they were found.
        keys: The trusted keys.
        trust: Whether one of them must have signed it.
        signers: Keys that are known to have signed it.

    Raises:
        SignaturesUnclear: One must have, not all signatures could be looked at, and none is known of before.
    """
    proof = await asyncio.to_thread(verify, release.name, release.contents.files, evidence, keys)
    unclear = trust.required and not proof.complete and not signers
    complaint = enforce(release.name, proof, SignaturePolicy.REQUIRE if unclear else SignaturePolicy.WARN)
    known = tuple(dict.fromkeys((*signers, *proof.signers)))
    return SignatureVerdict(trust.required, complaint, known[-MAX_SIGNERS:])


def uncovered(release: Release) -> str:
    """Say that a release is used with charts that no signature of it covers; empty where it holds all it needs."""
    needs = [
        f"{chart} needs {one} of {one.repository or 'its own charts/'}"
        for chart, lacking in sorted(release.lacking.items())
        for one in lacking
    ]
    needs += [f"{one.chart} needs {one}" for one in release.dependencies]
    if not needs:
        return ""
    further = len(needs) - SHOWN_PROBLEMS
    listed = "; ".join((*needs[:SHOWN_PROBLEMS], f"{further} more") if further > 0 else needs)
    return (
        f"release {release.name} is signed, but it does not hold all charts that its charts need, so no signature "
        f"covers these ({listed}): build it with 'csctl create', which puts them into the release, and sign that"
    )
