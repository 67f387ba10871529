"""Messages about combinations of versions that the rules refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.compat.rules.combination import CompatFinding, Setup

SHOWN_FACTS = 3
"""Facts a refusal names; arbitrary."""


def told_against(after: Setup, against: Sequence[CompatFinding]) -> str:
    """Say what speaks against a combination, on one line, for conditions and events."""
    return f"{_combination(after)}: {'; '.join(_blamed(against))}"


def listed_against(after: Setup, against: Sequence[CompatFinding]) -> str:
    """Say what speaks against a combination, one fact a line, for the answer that a person reads in a terminal."""
    return "\n  ".join([f"{_combination(after)} is refused:", *_blamed(against)])


def _combination(after: Setup) -> str:
    return f"class {after.candidate.name.class_name} with Kubernetes {after.kubernetes}"


def _blamed(against: Sequence[CompatFinding]) -> list[str]:
    more = [f"and {len(against) - SHOWN_FACTS} more"] if len(against) > SHOWN_FACTS else []
    return [*(_blame(one) for one in against[:SHOWN_FACTS]), *more]


def _blame(finding: CompatFinding) -> str:
    return f"cluster addon {finding.addon}: {finding.text}" if finding.addon else finding.text
