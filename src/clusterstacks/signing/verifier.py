"""Whether a release is signed by somebody who is trusted, and if not, why not."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.domain.documents import shown
from clusterstacks.releases.release import class_chart_file
from clusterstacks.releases.release_source import MAX_FILES, MAX_SIGNATURE_BYTES
from clusterstacks.signing.envelope import parse_envelope, read_document
from clusterstacks.signing.errors import SHOWN_PROBLEMS, SignatureRefused, SignatureRequired, SignaturesUnclear
from clusterstacks.signing.keys import SHORT_CHARACTERS
from clusterstacks.signing.statement import Statement, parse_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.release_source import CosignSignature, Evidence
    from clusterstacks.signing.envelope import Envelope
    from clusterstacks.signing.keys import PublicKey

MAX_VERIFICATIONS = 32_000
"""Most attempts at a signature with a key, shared evenly among all that is looked at.

Arbitrary: they take 0.1 ms each, so 3 s in a thread. With one key these are 32 signatures of each of 1000 envelopes.
"""


class SignaturePolicy(StrEnum):
    """What happens to a release that no trusted key signed."""

    REQUIRE = "Require"
    WARN = "Warn"


@dataclass(frozen=True, slots=True)
class Verification:
    """What the signatures of a release prove.

    Args:
        signed_by: Names of the trusted keys that signed exactly this release; it is signed when there is one.
        problems: What is wrong with every signature that proves nothing. Whoever can write to the source can add such
            ones, so they do not take away from ``signed_by``.
        complete: Whether all signatures were looked at.
        signers: Fingerprints of the keys in ``signed_by``.
    """

    signed_by: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    complete: bool = True
    signers: tuple[str, ...] = ()


def verify(name: ReleaseName, files: Mapping[str, str], evidence: Evidence, keys: Sequence[PublicKey]) -> Verification:
    """Verify the signatures of a release. Never raises because of what the evidence holds.

    Takes about 0.1 ms for each signature and key; hostile evidence can make it some seconds.

    Args:
        name: The release in hand.
        files: Name and sha256 in lower-case hex of every file that is really there.
        evidence: The signatures, as they were found.
        keys: Who is trusted; one signature of one of them is enough. Without any, nothing is signed.
    """
    if not keys:
        return Verification(problems=("no key was given to verify it with",))
    signers: set[str] = set()
    problems = list(evidence.problems)
    for label, check in _checks(Statement(name.release, files), name, evidence, keys):
        try:
            signers |= {key.fingerprint for key in check()}
        except SignatureRefused as refused:
            problems.append(f"{label}: {refused}")
    if not signers and not problems:
        problems.append("there is no signature beside it")
    names = (key.name for key in keys if key.fingerprint in signers)
    return Verification(tuple(dict.fromkeys(names)), tuple(problems), evidence.complete, tuple(sorted(signers)))


def enforce(name: ReleaseName, verification: Verification, policy: SignaturePolicy = SignaturePolicy.REQUIRE) -> str:
    """Hold a policy against a verification; returns what to warn about, empty when the release is signed.

    Raises:
        SignatureRequired: The policy is ``Require`` and no trusted key signed the release.
        SignaturesUnclear: The policy is ``Require``, and not all signatures were looked at.
    """
    if verification.signed_by:
        return ""
    kind = SignatureRequired if verification.complete else SignaturesUnclear
    unsigned = kind(name, verification.problems)
    if policy is SignaturePolicy.WARN:
        return unsigned.message
    raise unsigned


def _checks(
    held: Statement, name: ReleaseName, evidence: Evidence, keys: Sequence[PublicKey]
) -> Iterator[tuple[str, Callable[[], tuple[PublicKey, ...]]]]:
    share = MAX_VERIFICATIONS // (len(keys) * max(len(evidence.envelopes) + len(evidence.cosign), 1))
    for at, text in enumerate(evidence.envelopes, 1):
        yield f"envelope {at}", partial(_envelope_signers, text, held, keys, max(share, 1))
    for at, made in enumerate(evidence.cosign, 1):
        yield f"cosign signature {at}", partial(_cosign_signers, made, evidence.manifest, held, name, keys)


def _envelope_signers(text: bytes, held: Statement, keys: Sequence[PublicKey], most: int) -> tuple[PublicKey, ...]:
    envelope = parse_envelope(text)
    signers = envelope.signers(keys, most)
    if not signers:
        raise SignatureRefused(_nobody(envelope, keys))
    parse_statement(envelope.payload).require(held)
    return signers


def _cosign_signers(
    made: CosignSignature, manifest: bytes, held: Statement, name: ReleaseName, keys: Sequence[PublicKey]
) -> tuple[PublicKey, ...]:
    signers = tuple(key for key in keys if key.verifies(made.payload, made.signature))
    if not signers:
        raise SignatureRefused(f"it is by none of the trusted keys {_trusted(keys)}")
    require_manifest(made.payload, manifest)
    stated_by(manifest, name).require(held)
    return signers


def _nobody(envelope: Envelope, keys: Sequence[PublicKey]) -> str:
    claimed = {made.keyid for made in envelope.signatures}
    for key in keys:
        if key.fingerprint in claimed:
            return f"it claims to be by {key.name} ({key.short}) but is not: it was changed after it was signed"
    names = sorted(shown(keyid[:SHORT_CHARACTERS]) if keyid else "an unnamed key" for keyid in claimed)
    found = ", ".join(names[:SHOWN_PROBLEMS]) + (" and others" if len(names) > SHOWN_PROBLEMS else "")
    return f"it is by {found}, none of the trusted keys {_trusted(keys)}"


def _trusted(keys: Sequence[PublicKey]) -> str:
    return ", ".join(f"{key.name} ({key.short})" for key in keys)


SIGNATURE_TYPE = "cosign container image signature"
_TITLE = "org.opencontainers.image.title"


def require_manifest(payload: bytes, manifest: bytes) -> None:
    """Compare what was signed with a manifest.

    Raises:
        SignatureRefused: The payload is no document of cosign's, or of another manifest.
    """
    critical = read_document(payload, name="the payload", limit=MAX_SIGNATURE_BYTES).child("critical")
    kind = critical.child("type")
    if kind.value != SIGNATURE_TYPE:
        raise kind.refuse(f"cosign writes {SIGNATURE_TYPE}")
    signed, held = critical.child("image").child("docker-manifest-digest").value, _digest(manifest)
    if signed != held:
        raise SignatureRefused(f"it is for the manifest {shown(signed)}, not for {held}")


def stated_by(manifest: bytes, name: ReleaseName) -> Statement:
    """Return what a manifest says about the files of a release.

    A manifest does not hold the release's name, but the class chart's file name does.

    Raises:
        SignatureRefused: It is no manifest of this release.
    """
    layers = read_document(manifest, name="the manifest", limit=MAX_SIGNATURE_BYTES).child("layers").items()
    if len(layers) > MAX_FILES:
        raise SignatureRefused(f"the manifest names more than {MAX_FILES} files")
    files: dict[str, str] = {}
    for layer in layers:
        title = layer.child("annotations").child(_TITLE).text()
        if title in files:
            raise SignatureRefused(f"the manifest names the file {shown(title)} twice")
        files[title] = layer.child("digest").text().removeprefix("sha256:")
    if class_chart_file(name) not in files:
        raise SignatureRefused(f"it is for another release: {class_chart_file(name)} is not in the manifest")
    return Statement(name.release, files)


def _digest(manifest: bytes) -> str:
    return f"sha256:{sha256(manifest).hexdigest()}"
