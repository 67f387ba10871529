"""Evidence of a stage: signed statements that a management cluster has run a release.

A statement is an in-toto Statement about the files of a release. Its predicate has the fields of a SLSA Verification
Summary (https://slsa.dev/spec/v1.0/verification_summary) and what was observed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from clusterstacks.model.digests import content_digest
from clusterstacks.model.documents import shown
from clusterstacks.model.kinds.clusterstackrelease import FAILED, PASSED, StageEvidence
from clusterstacks.model.objects import rfc3339
from clusterstacks.release.signing.attestation import write_statement
from clusterstacks.release.signing.envelope import Envelope, parse_envelope
from clusterstacks.release.signing.errors import SignatureRefused
from clusterstacks.release.signing.stage_requirement import newest
from clusterstacks.release.signing.statement import read_files, read_statement
from clusterstacks.release.signing.verifier import MAX_VERIFICATIONS, untrusted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.model.documents import Node
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.release_source import Evidence
    from clusterstacks.release.signing.keys import PublicKey

EVIDENCE_TYPE: Final = "https://clusterstack.x-k8s.io/evidence/v1"
"""Our own type: a key that signs evidence does not thereby sign releases, nor the reverse."""

VERIFIER: Final = "https://clusterstack.x-k8s.io/csctl"
STAGES: Final = "https://clusterstack.x-k8s.io/stages/"

MAX_CLUSTERS: Final = 1_000_000
"""Most clusters with one version in a statement (arbitrary)."""

DELIVERED: Final = "Delivered"
"""Result of an upgrade that succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageFacts:
    """What a management cluster shows about a release."""

    clusters: Mapping[str, int]
    """Number of clusters with the release, by their Kubernetes version."""
    since: str = ""
    """Since when all of them are ready, healthy and in sync (RFC 3339); empty if they are not, or there are none."""
    upgrades: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    """Number of upgrades from the release and to it, by the release before, the one after and the result."""
    troubles: tuple[str, ...] = ()
    """Clusters that are not ready, healthy and in sync with exactly this release, with the reasons."""
    not_read: tuple[str, ...] = ()
    """What the user may not read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageStatement:
    """What a stage states about a release."""

    release: ReleaseName
    place: str
    """Where the release is published."""
    stage: str
    verdict: str
    verified: datetime
    """Time of the clock that dated the facts."""
    facts: StageFacts
    reports: Mapping[str, str] = field(default_factory=dict)
    """Digests (``sha256:<hex>``) of attached reports by file name."""

    def predicate(self) -> dict[str, object]:
        """Return the predicate of the statement."""
        return {
            "verifier": {"id": VERIFIER},
            "timeVerified": rfc3339(self.verified),
            "resourceUri": self.place,
            "policy": {"uri": f"{STAGES}{self.stage}"},
            "inputAttestations": [
                {"uri": file, "digest": {"sha256": digest.removeprefix("sha256:")}}
                for file, digest in self.reports.items()
            ],
            "verificationResult": self.verdict,
            "release": self.release.release,
            "stage": self.stage,
            "since": self.facts.since,
            "clusters": [{"kubernetesVersion": name, "count": count} for name, count in self.facts.clusters.items()],
            "upgrades": [
                {"from": before, "to": after, "result": result, "count": count}
                for (before, after, result), count in self.facts.upgrades.items()
            ],
            "notRead": list(self.facts.not_read),
        }

    def envelope(self, files: Mapping[str, str]) -> Envelope:
        """Return the statement about the files of the release, not signed yet."""
        return Envelope(write_statement(EVIDENCE_TYPE, sorted(files.items()), self.predicate()))


def read_evidence(
    name: ReleaseName, digest: str, found: Evidence, keys: Sequence[PublicKey]
) -> tuple[tuple[StageEvidence, ...], tuple[str, ...]]:
    """Return what trusted ``keys`` state about the content of a release, newest first, and why the rest is ignored.

    Anyone who can write to the source can add envelopes, so invalid ones are only reported.
    """
    stated: list[StageEvidence] = []
    problems = list(found.problems)
    share = MAX_VERIFICATIONS // max(len(keys) * len(found.envelopes), 1)
    for at, text in enumerate(found.envelopes, 1):
        try:
            envelope = parse_envelope(text)
            if not (signers := envelope.signers(keys, max(share, 1))):
                raise SignatureRefused(untrusted(envelope, keys))  # noqa: TRY301 - a problem like the others
            signed_by = tuple(sorted(key.fingerprint for key in signers))
            stated.append(_parse(name, digest, envelope.payload).model_copy(update={"signed_by": signed_by}))
        except SignatureRefused as refused:
            problems.append(f"statement {at}: {refused}")
    return newest(stated), tuple(problems)


def _parse(name: ReleaseName, digest: str, payload: bytes) -> StageEvidence:
    root = read_statement(payload, EVIDENCE_TYPE)
    predicate = root.child("predicate")
    if (release := predicate.child("release").text()) != name.release:
        raise SignatureRefused(f"it is for release {shown(release)}, not for {name}")
    if (stated := content_digest(read_files(root).items())) != digest:
        raise SignatureRefused(f"it is for other files of the release, {stated}, not for {digest}")
    verdict = predicate.child("verificationResult")
    if verdict.value not in (PASSED, FAILED):
        raise verdict.refuse(f"expected {PASSED} or {FAILED}")
    since = predicate.child("since")
    upgrades = [
        upgrade.child("from").text()
        for upgrade in predicate.child("upgrades").items()
        if upgrade.child("to").value == name.release and upgrade.child("result").value == DELIVERED
    ]
    clusters = sum(_count(entry.child("count")) for entry in predicate.child("clusters").items())
    try:
        return StageEvidence(
            stage=predicate.child("stage").text(),
            verdict=verdict.text(),
            verified_at=_time(predicate.child("timeVerified")),
            since=_time(since) if since.optional_text() else "",
            clusters=clusters,
            upgrades_from=tuple(dict.fromkeys(upgrades)),
        )
    except ValidationError as error:
        raise SignatureRefused(f"its predicate is not valid: {error.errors()[0]['msg']}") from None


def _count(node: Node) -> int:
    if not isinstance(node.value, int) or not 0 <= node.value <= MAX_CLUSTERS:
        raise node.refuse(f"expected a number up to {MAX_CLUSTERS}")
    return node.value


def _time(node: Node) -> str:
    """Return a time in the one form that sorts as text."""
    expected = "expected a time as 2026-01-31T12:00:00Z"
    try:
        moment = datetime.fromisoformat(node.text(expected))
        return rfc3339(moment) if moment.tzinfo else rfc3339(moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise node.refuse(expected) from None
