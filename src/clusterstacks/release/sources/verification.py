"""Verifies that a key of a ClusterStack signed a release."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterstackrelease import MAX_SIGNERS
from clusterstacks.model.kinds.names import Reason
from clusterstacks.release.signing.errors import SHOWN_PROBLEMS

if TYPE_CHECKING:
    from clusterstacks.release.release import Release
    from clusterstacks.release.release_source import Evidence
    from clusterstacks.release.signing.keys import PublicKey
    from clusterstacks.release.sources.source_opener import SecretReader
    from clusterstacks.release.sources.spec import SignatureTrust


class Unsigned(SpecError):
    """No trusted key signed the release."""

    def __init__(self, complaint: str) -> None:
        super().__init__(Reason.SIGNATURE_REQUIRED, complaint)


@dataclass(frozen=True, slots=True)
class SignatureVerdict:
    """Decision about a release by its signatures, with the keys that signed it."""

    required: bool
    """Whether a release without a trusted signature is rejected."""
    complaint: str
    """Why it has no trusted signature; empty if it has one."""
    signers: tuple[str, ...] = ()
    """Fingerprints of the keys known to have signed the release, trusted now or earlier."""

    @property
    def refused(self) -> bool:
        """True if the release is rejected for its missing signature."""
        return self.required and bool(self.complaint)


async def trusted_keys(trust: SignatureTrust, secrets: SecretReader) -> tuple[PublicKey, ...]:
    """Read the current keys.

    Raises:
        DependencyError: A Secret is missing, or lacks the key.
        SpecError: A value is not a public key.
    """
    # Only sources with keys load the cryptography.
    from clusterstacks.release.signing.keys import parse_public_keys  # noqa: PLC0415

    keys: list[PublicKey] = []
    for number, key in enumerate(trust.keys, start=1):
        name, pem = f"{trust.setting}[{number - 1}]", key.pem.encode()
        if key.secret:
            name = f"{trust.namespace}/{key.secret}"
            pem = await secrets.value(trust.namespace, key.secret, key.key, purpose=trust.setting)
        keys += parse_public_keys(pem, name=name)
    return tuple(keys)


async def verify_release(
    release: Release, evidence: Evidence, keys: tuple[PublicKey, ...], trust: SignatureTrust, signers: tuple[str, ...]
) -> SignatureVerdict:
    """Verify the signatures of a release in a thread, because hostile ones may take long.

    ``signers`` are keys known to have signed it before.

    Raises:
        SignaturesUnclear: A signature is required, not all could be read, and no earlier one is known.
    """
    from clusterstacks.release.signing.verifier import SignaturePolicy, enforce, verify  # noqa: PLC0415 - as above

    proof = await asyncio.to_thread(verify, release.name, release.contents.files, evidence, keys)
    unclear = trust.required and not proof.complete and not signers
    complaint = enforce(release.name, proof, SignaturePolicy.REQUIRE if unclear else SignaturePolicy.WARN)
    known = tuple(dict.fromkeys((*signers, *proof.signers)))
    return SignatureVerdict(trust.required, complaint, known[-MAX_SIGNERS:])


def uncovered(release: Release) -> str:
    """Describe the charts that no signature of the release covers; empty when it contains all it needs."""
    needs = [
        f"{chart} needs {requirement} of {requirement.repository or 'its own charts/'}"
        for chart, lacking in sorted(release.lacking.items())
        for requirement in lacking
    ]
    needs += [f"{resolved.chart} needs {resolved}" for resolved in release.dependencies]
    if not needs:
        return ""
    further = len(needs) - SHOWN_PROBLEMS
    listed = "; ".join((*needs[:SHOWN_PROBLEMS], f"{further} more") if further > 0 else needs)
    return (
        f"release {release.name} is signed, but it does not contain all charts that its charts need, so no signature "
        f"covers these ({listed}): build it with 'csctl create', which puts them into the release, and sign that"
    )
