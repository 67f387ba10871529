"""Decides whether a release has the evidence that a stage must have given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import counted
from clusterstacks.model.kinds.clusterstackrelease import MAX_STAGE_STATEMENTS
from clusterstacks.model.names import release_named
from clusterstacks.model.objects import rfc3339
from clusterstacks.model.versions import StackVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.kinds.clusterstackrelease import StageEvidence
    from clusterstacks.model.names import ReleaseName

MAX_CLOCK_SKEW: Final = timedelta(minutes=5)
"""How far the clock of a stage may be ahead of ours. Arbitrary: NTP keeps clocks within a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRequirement:
    """The evidence that a release must have of one stage."""

    stage: str
    keys: frozenset[str] = frozenset()
    """Fingerprints of the keys of the stage."""
    soak: timedelta = timedelta()
    clusters: int = 1
    upgrades_from: tuple[str, ...] = ()
    """Versions of the same stack and minor, or releases."""


def missing_evidence(
    name: ReleaseName, required: StageRequirement, known: Iterable[StageEvidence], now: datetime, place: str = ""
) -> str:
    """Return what a release lacks of the evidence of a stage, in one sentence; empty when it has all.

    ``place`` is the repository in which the stage attests it, for the sentence; empty for a directory.

    One statement must have everything. A statement that the stage failed ends what was stated before it. Statements are
    compared by the clock of their stage, and soak is the difference of two of its times, so other clocks do not matter;
    only a statement of the future does not count yet, because no failure could follow it.
    """
    own = [one for one in known if one.stage == required.stage and not required.keys.isdisjoint(one.signed_by)]
    failed = max((one.verified_at for one in own if not one.passed), default="")
    passed = [one for one in own if one.passed and one.verified_at > failed]
    if failed and not passed:
        return (
            f"{name.version} failed in stage {required.stage} at {failed}: publish a new version, or attest again "
            "when the stage has passed"
        )
    latest = rfc3339(now + MAX_CLOCK_SKEW)
    present = [one for one in passed if one.verified_at <= latest]
    if passed and not present:
        ahead = min(one.verified_at for one in passed)
        return (
            f"{name.version} has evidence of stage {required.stage} that is dated {ahead}, and counts from then on: "
            "correct the clock that is wrong; if it is that of the stage, attest again"
        )
    remedy = f"csctl attest {place and f'{place}:'}{name} --stage {required.stage} --key KEY"
    if not present:
        return f"{name.version} has no evidence of stage {required.stage}: {remedy}"
    lacks = {one: _lacks(name, required, one) for one in present}
    best = min(present, key=lambda one: (bool(lacks[one]), -one.soak, -one.clusters))
    return f"{name.version} has evidence of stage {required.stage}{lacks[best]}: {remedy}" if lacks[best] else ""


def _lacks(name: ReleaseName, required: StageRequirement, one: StageEvidence) -> str:
    """Return how far a statement is from the requirement; empty if it is sufficient."""
    upgrades = [version for version in required.upgrades_from if _release(name, version) not in one.upgrades_from]
    if one.soak >= required.soak and one.clusters >= required.clusters and not upgrades:
        return ""
    soak = f" for {shown_duration(one.soak)} of {shown_duration(required.soak)}" if required.soak else ""
    missing = f", no upgrade from {' or '.join(upgrades)}" if upgrades else ""
    few = f"{one.clusters} of " if one.clusters < required.clusters else ""
    return f"{soak} ({few}{counted(max(one.clusters, required.clusters), 'cluster')}{missing})"


def _release(name: ReleaseName, version: str) -> str:
    if release_named(version) is not None:
        return version
    return replace(name, version=StackVersion.parse(version)).release


def shown_duration(duration: timedelta) -> str:
    """Write a duration for people, rounded down: ``72 h``, ``5 min``, ``30 s``."""
    seconds = int(duration.total_seconds())
    unit, name = next(((unit, name) for unit, name in ((3600, "h"), (60, "min")) if seconds >= unit), (1, "s"))
    return f"{seconds // unit} {name}"


def newest(*statements: Iterable[StageEvidence]) -> tuple[StageEvidence, ...]:
    """Return the statements once, newest first; of too many, the newest."""
    distinct = dict.fromkeys(one for several in statements for one in several)
    return tuple(sorted(distinct, key=lambda one: one.verified_at, reverse=True)[:MAX_STAGE_STATEMENTS])
