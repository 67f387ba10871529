"""No defect of the Go operator that this version closes is without a test that carries its number."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FUNCTION = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
NUMBER = re.compile(r"(?<=_)d(\d+)(?=_)")

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


def numbers_shown() -> set[int]:
    """Numbers in the names of tests, and of files that are about one defect."""
    names = []
    for file in TESTS.rglob("test_*.py"):
        names.append(file.stem)
        names += FUNCTION.findall(file.read_text())
    return {int(number) for name in names for number in NUMBER.findall(f"{name}_")}


@pytest.mark.parametrize("number", WANTED)
def test_the_defect_has_a_test(number: int) -> None:
    assert number in numbers_shown()
