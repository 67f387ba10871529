"""Verification of the signatures of a release: DSSE envelopes, and signatures of ``cosign sign --key``.

Source of cosign's format: https://github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md. Certificates and the
transparency log are not checked: a key is trusted because the user configured it. The newer bundle format of cosign 3
is not supported; ``cosign sign --new-bundle-format=false --use-signing-config=false --tlog-upload=false`` makes the
supported one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.documents import shown
from clusterstacks.release.release import class_chart_file
from clusterstacks.release.release_source import MAX_FILES, MAX_SIGNATURE_BYTES
from clusterstacks.release.signing.envelope import parse_envelope, read_document
from clusterstacks.release.signing.errors import SHOWN_PROBLEMS, SignatureRefused, SignatureRequired, SignaturesUnclear
from clusterstacks.release.signing.keys import SHORT_CHARACTERS
from clusterstacks.release.signing.statement import Statement, parse_statement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.release_source import CosignSignature, Evidence
    from clusterstacks.release.signing.envelope import Envelope
    from clusterstacks.release.signing.keys import PublicKey

MAX_VERIFICATIONS = 32_000
"""Most verifications of a signature with a key, shared evenly among all envelopes and cosign signatures.

Arbitrary: they take 0.1 ms each, so 3 s in a thread. With one key these are 32 signatures of each of 1000 envelopes.
"""


class SignaturePolicy(StrEnum):
    """The consequence for a release that no trusted key signed."""

    REQUIRE = "Require"
    WARN = "Warn"


@dataclass(frozen=True, slots=True)
class Verification:
    """The trusted keys that signed a release, and the problems of its other signatures."""

    signed_by: tuple[str, ...] = ()
    """Names of the trusted keys that signed exactly this release; it is signed when there is one."""
    problems: tuple[str, ...] = ()
    """The problem of every signature that proves nothing.

    Anyone who can write to the source can add such signatures, so they do not affect ``signed_by``.
    """
    complete: bool = True
    """Whether all signatures were read."""
    signers: tuple[str, ...] = ()
    """Fingerprints of the keys in ``signed_by``."""


def verify(name: ReleaseName, files: Mapping[str, str], evidence: Evidence, keys: Sequence[PublicKey]) -> Verification:
    """Verify the signatures of a release. Invalid signatures are reported and never raise an error.

    One signature by one of the trusted ``keys`` is enough; without keys nothing is signed. ``files`` maps every file
    that exists to its sha256 in lower-case hex. It takes about 0.1 ms for each signature and key, and some seconds for
    hostile signatures.
    """
    if not keys:
        return Verification(problems=("no key was given to verify it",))
    signers: set[str] = set()
    problems = list(evidence.problems)
    for label, check in _checks(Statement(name.release, files), name, evidence, keys):
        try:
            signers |= {key.fingerprint for key in check()}
        except SignatureRefused as refused:
            problems.append(f"{label}: {refused}")
    if not signers and not problems:
        problems.append("it has no signature")
    names = (key.name for key in keys if key.fingerprint in signers)
    return Verification(tuple(dict.fromkeys(names)), tuple(problems), evidence.complete, tuple(sorted(signers)))


def enforce(name: ReleaseName, verification: Verification, policy: SignaturePolicy = SignaturePolicy.REQUIRE) -> str:
    """Apply a policy to the result of a verification; return the warning, empty when the release is signed.

    Raises:
        SignatureRequired: The policy is ``Require`` and no trusted key signed the release.
        SignaturesUnclear: The policy is ``Require``, and not all signatures were read.
    """
    if verification.signed_by:
        return ""
    kind = SignatureRequired if verification.complete else SignaturesUnclear
    unsigned = kind(name, verification.problems)
    if policy is SignaturePolicy.WARN:
        return unsigned.message
    raise unsigned


def _checks(
    release: Statement, name: ReleaseName, evidence: Evidence, keys: Sequence[PublicKey]
) -> Iterator[tuple[str, Callable[[], tuple[PublicKey, ...]]]]:
    share = MAX_VERIFICATIONS // (len(keys) * max(len(evidence.envelopes) + len(evidence.cosign), 1))
    for at, text in enumerate(evidence.envelopes, 1):
        yield f"envelope {at}", partial(_envelope_signers, text, release, keys, max(share, 1))
    for at, signature in enumerate(evidence.cosign, 1):
        yield f"cosign signature {at}", partial(_cosign_signers, signature, evidence.manifest, release, name, keys)


def _envelope_signers(text: bytes, release: Statement, keys: Sequence[PublicKey], most: int) -> tuple[PublicKey, ...]:
    envelope = parse_envelope(text)
    signers = envelope.signers(keys, most)
    if not signers:
        raise SignatureRefused(untrusted(envelope, keys))
    parse_statement(envelope.payload).require(release)
    return signers


def _cosign_signers(
    signature: CosignSignature, manifest: bytes, release: Statement, name: ReleaseName, keys: Sequence[PublicKey]
) -> tuple[PublicKey, ...]:
    signers = tuple(key for key in keys if key.verifies(signature.payload, signature.signature))
    if not signers:
        raise SignatureRefused(f"it is not by a trusted key ({_trusted(keys)})")
    require_manifest(signature.payload, manifest)
    stated_by(manifest, name).require(release)
    return signers


def untrusted(envelope: Envelope, keys: Sequence[PublicKey]) -> str:
    """Say why none of the keys signed an envelope."""
    claimed = {made.keyid for made in envelope.signatures}
    for key in keys:
        if key.fingerprint in claimed:
            return f"it claims to be by {key.name} ({key.short}) but is not; it was changed after it was signed"
    names = sorted(shown(keyid[:SHORT_CHARACTERS]) if keyid else "an unnamed key" for keyid in claimed)
    signers = ", ".join(names[:SHOWN_PROBLEMS]) + (" and others" if len(names) > SHOWN_PROBLEMS else "")
    return f"it is by {signers}, not by a trusted key ({_trusted(keys)})"


def _trusted(keys: Sequence[PublicKey]) -> str:
    return ", ".join(f"{key.name} ({key.short})" for key in keys)


SIGNATURE_TYPE = "cosign container image signature"
_TITLE = "org.opencontainers.image.title"


def require_manifest(payload: bytes, manifest: bytes) -> None:
    """Refuse a signed payload that is not one of cosign, or is for another manifest."""
    critical = read_document(payload, name="the payload", limit=MAX_SIGNATURE_BYTES).child("critical")
    kind = critical.child("type")
    if kind.value != SIGNATURE_TYPE:
        raise kind.refuse(f"expected {SIGNATURE_TYPE}")
    signed, actual = critical.child("image").child("docker-manifest-digest").value, sha256_digest(manifest)
    if signed != actual:
        raise SignatureRefused(f"it is for the manifest {shown(signed)}, not for {actual}")


def stated_by(manifest: bytes, name: ReleaseName) -> Statement:
    """Return the files of a release as a manifest lists them.

    A manifest does not contain the name of the release, but the file name of the class chart does.
    """
    layers = read_document(manifest, name="the manifest", limit=MAX_SIGNATURE_BYTES).child("layers").items()
    if len(layers) > MAX_FILES:
        raise SignatureRefused(f"the manifest lists more than {MAX_FILES} files")
    files: dict[str, str] = {}
    for layer in layers:
        title = layer.child("annotations").child(_TITLE).text()
        if title in files:
            raise SignatureRefused(f"the manifest lists the file {shown(title)} twice")
        files[title] = layer.child("digest").text().removeprefix("sha256:")
    if class_chart_file(name) not in files:
        raise SignatureRefused(f"it is for another release: {class_chart_file(name)} is not in the manifest")
    return Statement(name.release, files)
