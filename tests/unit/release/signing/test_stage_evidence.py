"""Statements of stages: what trusted keys state, and everything that proves nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.digests import content_digest
from clusterstacks.model.kinds.clusterstackrelease import FAILED, PASSED, StageEvidence
from clusterstacks.model.names import parse_release
from clusterstacks.release.release_source import Evidence
from clusterstacks.release.signing.attestation import write_statement
from clusterstacks.release.signing.envelope import Envelope
from clusterstacks.release.signing.stage_evidence import (
    EVIDENCE_TYPE,
    StageFacts,
    StageStatement,
    read_evidence,
)
from clusterstacks.release.signing.verifier import verify
from tests.support.builders.signatures import FILES, NAME, ecdsa_key, ed25519_key, signed

if TYPE_CHECKING:
    from clusterstacks.release.signing.keys import PrivateKey

DIGEST = content_digest(FILES.items())
BEFORE = parse_release("local-tiny-1-35-v1")
KEY = ecdsa_key("staging")
FACTS = StageFacts(
    clusters={"v1.35.4": 2, "v1.35.5": 1},
    since="2026-11-24T10:00:00Z",
    upgrades={
        (BEFORE.release, NAME.release, "Delivered"): 3,
        ("local-tiny-1-34-v1", NAME.release, "RolledBack"): 1,
        (NAME.release, "local-tiny-1-36-v1", "Delivered"): 1,
    },
    not_read=("you may not list the Clusters of all namespaces",),
)
STATEMENT = StageStatement(
    release=NAME,
    place=f"oci://registry.example.org/stacks:{NAME}",
    stage="staging",
    verdict=PASSED,
    verified=datetime(2026, 11, 27, 12, tzinfo=UTC),
    facts=FACTS,
    reports={"report.xml": f"sha256:{'1' * 64}"},
)


def envelope(key: PrivateKey = KEY, files: dict[str, str] = FILES, **changed: Any) -> bytes:
    return replace(STATEMENT, **changed).envelope(files).signed(key).text()


def forged(**predicate: Any) -> bytes:
    """Return an envelope by the stage whose predicate has other fields."""
    document = {**STATEMENT.predicate(), **predicate}
    return Envelope(write_statement(EVIDENCE_TYPE, FILES.items(), document)).signed(KEY).text()


def read(*envelopes: bytes, keys: tuple[PrivateKey, ...] = (KEY,)) -> tuple[list[StageEvidence], tuple[str, ...]]:
    found, problems = read_evidence(NAME, DIGEST, Evidence(envelopes), [key.public for key in keys])
    return list(found), problems


def test_statement_has_the_fields_of_a_verification_summary_and_what_was_observed() -> None:
    assert json.loads(STATEMENT.envelope(FILES).payload) == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": FILES[name]}} for name in sorted(FILES)],
        "predicateType": "https://clusterstack.x-k8s.io/evidence/v1",
        "predicate": {
            "verifier": {"id": "https://clusterstack.x-k8s.io/csctl"},
            "timeVerified": "2026-11-27T12:00:00Z",
            "resourceUri": "oci://registry.example.org/stacks:local-tiny-1-35-v2",
            "policy": {"uri": "https://clusterstack.x-k8s.io/stages/staging"},
            "inputAttestations": [{"uri": "report.xml", "digest": {"sha256": "1" * 64}}],
            "verificationResult": "PASSED",
            "release": "local-tiny-1-35-v2",
            "stage": "staging",
            "since": "2026-11-24T10:00:00Z",
            "clusters": [
                {"kubernetesVersion": "v1.35.4", "count": 2},
                {"kubernetesVersion": "v1.35.5", "count": 1},
            ],
            "upgrades": [
                {"from": "local-tiny-1-35-v1", "to": "local-tiny-1-35-v2", "result": "Delivered", "count": 3},
                {"from": "local-tiny-1-34-v1", "to": "local-tiny-1-35-v2", "result": "RolledBack", "count": 1},
                {"from": "local-tiny-1-35-v2", "to": "local-tiny-1-36-v1", "result": "Delivered", "count": 1},
            ],
            "notRead": ["you may not list the Clusters of all namespaces"],
        },
    }


def test_statement_of_a_trusted_key_is_read() -> None:
    (found,), problems = read(envelope())

    assert problems == ()
    assert found == StageEvidence(
        stage="staging",
        verdict=PASSED,
        verified_at="2026-11-27T12:00:00Z",
        since="2026-11-24T10:00:00Z",
        clusters=3,
        upgrades_from=(BEFORE.release,),
        signed_by=(KEY.public.fingerprint,),
    )
    assert found.soak.total_seconds() == 74 * 3600


def test_statements_of_two_stages_are_read_newest_first() -> None:
    second = ed25519_key("perf")
    later = envelope(second, stage="perf", verdict=FAILED, verified=datetime(2026, 11, 28, tzinfo=UTC))

    found, _ = read(envelope(), later, keys=(KEY, second))

    assert [(one.stage, one.verdict) for one in found] == [("perf", FAILED), ("staging", PASSED)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # The tag was moved: the statement is about what was under it before.
        (envelope(files={**FILES, "metadata.yaml": "0" * 64}), "it is for other files of the release, sha256:"),
        (envelope(release=BEFORE), "it is for release 'local-tiny-1-35-v1', not for local-tiny-1-35-v2"),
        (envelope(ed25519_key()), "not by a trusted key"),
        # The key of a stage signs a release: that is no evidence.
        (signed(KEY), "expected https://clusterstack.x-k8s.io/evidence/v1"),
        (forged(verificationResult="MAYBE"), "expected PASSED or FAILED"),
        (forged(timeVerified="yesterday"), "expected a time as 2026-01-31T12:00:00Z"),
        (forged(since="9999-12-31T23:59:59-23:59"), "expected a time"),
        (forged(stage="x" * 5000), "its predicate is not valid"),
        (forged(clusters=[{"count": 10**9}]), "expected a number up to 1000000"),
        (forged(clusters="many"), "write a list"),
        (b"{}", "the payload type of the envelope"),
    ],
)
def test_invalid_statement_is_reported_and_does_not_affect_a_valid_one(text: bytes, problem: str) -> None:
    found, problems = read(text, envelope())

    assert len(found) == 1
    assert len(problems) == 1
    assert problem in problems[0]


def test_evidence_is_no_signature_of_a_release() -> None:
    """The key of a stage is also trusted for releases, as after a mistake."""
    found = verify(NAME, FILES, Evidence((envelope(),)), [KEY.public])

    assert not found.signed_by
    assert "expected https://clusterstack.x-k8s.io/release/v1" in found.problems[0]


def test_five_hundred_statements_of_strangers_hide_nothing() -> None:
    stranger = ed25519_key("stranger")
    others = [envelope(stranger, stage=f"s{number}") for number in range(500)]

    found, problems = read(*others, envelope())

    assert len(found) == 1
    assert len(problems) == 500
