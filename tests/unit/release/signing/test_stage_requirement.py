"""What a release lacks of the evidence of a stage, in one sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.kinds.clusterstackrelease import FAILED, MAX_STAGE_STATEMENTS, PASSED, StageEvidence
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import rfc3339
from clusterstacks.release.signing.stage_requirement import StageRequirement, missing_evidence, newest

NAME = parse_release("openstack-scs-1-36-v7")
NOW = datetime(2026, 11, 27, 12, tzinfo=UTC)
REQUIRED = StageRequirement(stage="staging", keys=frozenset({"key"}), soak=timedelta(hours=72), clusters=3)
V6 = "openstack-scs-1-36-v6"


def stated(
    hours_ago: float = 0,
    *,
    soak: float = 80,
    clusters: int = 3,
    verdict: str = PASSED,
    stage: str = "staging",
    by: str = "key",
) -> StageEvidence:
    at = NOW - timedelta(hours=hours_ago)
    return StageEvidence(
        stage=stage,
        verdict=verdict,
        verified_at=rfc3339(at),
        since=rfc3339(at - timedelta(hours=soak)) if verdict == PASSED else "",
        clusters=clusters,
        upgrades_from=(V6,),
        signed_by=(by,),
    )


def failed(hours_ago: float = 0) -> StageEvidence:
    return stated(hours_ago, verdict=FAILED)


ATTEST = "csctl attest openstack-scs-1-36-v7 --stage staging --key KEY"
NONE = f"v7 has no evidence of stage staging: {ATTEST}"


def has(what: str) -> str:
    return f"v7 has evidence of stage staging for {what}: {ATTEST}"


def failed_at(time: str) -> str:
    remedy = "publish a new version, or attest again when the stage has passed"
    return f"v7 failed in stage staging at {time}: {remedy}"


def ahead(time: str) -> str:
    remedy = "correct the clock that is wrong; if it is that of the stage, attest again"
    return f"v7 has evidence of stage staging that is dated {time}, and counts from then on: {remedy}"


@pytest.mark.parametrize(
    ("known", "sentence"),
    [
        ([stated()], ""),
        ([], NONE),
        ([stated(soak=20, clusters=2)], has("20 h of 72 h (2 of 3 clusters)")),
        ([stated(soak=20)], has("20 h of 72 h (3 clusters)")),
        ([stated(clusters=2)], has("80 h of 72 h (2 of 3 clusters)")),
        # What was proven once stays proven; two halves are no proof.
        ([stated(5), stated(1, clusters=1)], ""),
        ([stated(5, soak=20), stated(1, clusters=2)], has("80 h of 72 h (2 of 3 clusters)")),
        ([stated(stage="perf")], NONE),
        ([stated(by="release key")], NONE),
        ([stated(5), failed(2)], failed_at("2026-11-27T10:00:00Z")),
        ([failed(2), stated(1)], ""),
        # In the same second the failure counts.
        ([failed(1), stated(1)], failed_at("2026-11-27T11:00:00Z")),
        # The clock of the stage is a day ahead, or ours a day behind: evidence waits, a failure counts at once.
        ([stated(-24)], ahead("2026-11-28T12:00:00Z")),
        ([stated(-24), stated(1)], ""),
        ([stated(1), failed(-24)], failed_at("2026-11-28T12:00:00Z")),
        ([stated(-0.05)], ""),
        # The clock of the stage is a day behind.
        ([stated(24)], ""),
        ([stated(24), failed(23)], failed_at("2026-11-26T13:00:00Z")),
    ],
)
def test_sentence_says_what_is_missing(known: list[StageEvidence], sentence: str) -> None:
    assert missing_evidence(NAME, REQUIRED, known, NOW) == sentence
    assert missing_evidence(NAME, REQUIRED, known[::-1], NOW) == sentence


@pytest.mark.parametrize(
    ("wanted", "missing"),
    [
        (["v6"], ""),
        ([V6], ""),
        (["v6", "v5"], ", no upgrade from v5"),
        (["openstack-scs-1-35-v6", "v5"], ", no upgrade from openstack-scs-1-35-v6 or v5"),
    ],
)
def test_upgrades_are_from_a_version_of_the_stack_or_from_a_release(wanted: list[str], missing: str) -> None:
    required = replace(REQUIRED, upgrades_from=tuple(wanted))

    sentence = missing_evidence(NAME, required, [stated()], NOW)

    assert sentence == (
        missing and f"v7 has evidence of stage staging for 80 h of 72 h (3 clusters{missing}): {ATTEST}"
    )


@given(hours=st.floats(-500, 500), soak=st.floats(0, 200))
def test_soak_does_not_depend_on_the_clock_of_this_cluster(hours: float, soak: float) -> None:
    """A clock that is behind only delays evidence; none adds to it."""
    enough = not missing_evidence(NAME, REQUIRED, [stated(hours, soak=soak)], NOW)

    assert not enough or soak >= 72 - 1 / 3600
    assert enough == (
        not missing_evidence(NAME, REQUIRED, [stated(hours, soak=soak)], NOW + timedelta(days=1)) and hours > -0.1
    )


def test_newest_statements_are_kept_once() -> None:
    known = [stated(hours) for hours in range(MAX_STAGE_STATEMENTS + 9)]

    kept = newest(reversed(known), known[:5])

    assert list(kept) == known[:MAX_STAGE_STATEMENTS]
