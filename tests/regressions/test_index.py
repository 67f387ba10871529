"""Closed defects of the Go operator and closed findings about this operator have tests that carry their numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FUNCTION = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
NUMBER = re.compile(r"(?<=_)d(\d+)(?=_)")
FINDING = re.compile(r"(?<=_)(sec_\d+|live_[hml]\d+|drop_[hml]\d+|user_\d+)(?=_)")

WANTED = [
    *range(1, 6),
    *range(7, 23),
    *range(28, 36),
    *range(41, 58),
    59,
    *range(61, 66),
    66,
    68,
    69,
    73,
    75,
    *range(77, 80),
    *range(80, 83),
]
"""Numbers of the defects as the regression list of the project counts them."""


FINDINGS = [
    *(f"sec_{number}" for number in range(1, 25)),
    *(f"live_h{number}" for number in range(1, 6)),
    *(f"live_m{number}" for number in range(1, 9)),
    *(f"live_l{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 10)),
    *(f"user_{number}" for number in (*range(3, 18), 19, 20)),
    *(f"drop_h{number}" for number in range(1, 6)),
    *(f"drop_m{number}" for number in range(1, 7)),
    *(f"drop_l{number}" for number in range(1, 10)),
]
"""Findings of the reviews of version 0.1.0: security, live faults, side by side with the Go tools, users."""


def shown(pattern: re.Pattern[str]) -> set[str]:
    """What the pattern finds in the names of tests, and of files that are about one defect."""
    names = []
    for file in TESTS.rglob("test_*.py"):
        names.append(file.stem)
        names += FUNCTION.findall(file.read_text())
    return {found for name in names for found in pattern.findall(f"{name}_")}


@pytest.mark.parametrize("number", WANTED)
def test_the_defect_has_a_test(number: int) -> None:
    assert str(number) in shown(NUMBER)


@pytest.mark.parametrize("finding", FINDINGS)
def test_the_finding_has_a_test(finding: str) -> None:
    assert finding in shown(FINDING)
