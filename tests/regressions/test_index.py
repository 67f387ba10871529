"""Closed defects of the Go operator and closed findings about this operator have tests that carry their numbers.

README.md beside this file lists them. ``UPDATE_INDEX=1 pytest tests/regressions/test_index.py`` writes the names of
test files in it again.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
INDEX = Path(__file__).parent / "README.md"
FUNCTION = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
NUMBER = re.compile(r"(?<=_)d(\d+)(?=_)")
FINDING = re.compile(r"(?<=_)(sec_\d+|live_[hml]\d+|live_lv_\d+|drop_[hml]\d+|user_\d+|u_\d+|case_\d+)(?=_)")

WANTED = [
    *range(1, 24),
    *range(25, 36),
    *range(41, 58),
    *range(59, 67),
    68,
    69,
    73,
    75,
    *range(77, 80),
    *range(80, 83),
]
"""Numbers of the defects as the regression list of the project counts them."""


FINDINGS = [
    *(f"sec_{number}" for number in (*range(1, 25), 28, 34)),
    *(f"live_h{number}" for number in range(1, 6)),
    *(f"live_m{number}" for number in range(1, 9)),
    *(f"live_l{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 10)),
    "live_lv_9",
    *(f"user_{number}" for number in (*range(3, 18), 19, 20)),
    "u_33",
    *(f"drop_h{number}" for number in range(1, 6)),
    *(f"drop_m{number}" for number in range(1, 7)),
    *(f"drop_l{number}" for number in range(1, 10)),
    *(f"case_{number:02}" for number in (1, 3, 4)),
]
"""Findings of the reviews: security, live faults, side by side with the Go tools, users, public reports."""


@functools.cache
def names() -> dict[Path, tuple[str, ...]]:
    """Return the names of every test file and of its tests, files of regressions first."""
    files = sorted(TESTS.rglob("test_*.py"), key=lambda one: (one.parent != INDEX.parent, one))
    return {file: (file.stem, *FUNCTION.findall(file.read_text())) for file in files}


def shown(pattern: re.Pattern[str]) -> set[str]:
    """Return what the pattern finds in the names of tests, and of files that are about one defect."""
    return {found for file in names().values() for name in file for found in pattern.findall(f"{name}_")}


@pytest.mark.parametrize("number", WANTED)
def test_every_listed_defect_has_a_test(number: int) -> None:
    assert str(number) in shown(NUMBER)


@pytest.mark.parametrize("finding", FINDINGS)
def test_every_listed_finding_has_a_test(finding: str) -> None:
    assert finding in shown(FINDING)


ROW = re.compile(r"^\| ((?:D|SEC-|LIVE-|LIVE-LV-|DROP-|USER-|U-|CASE-)[HML]?\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
"""A line of the index: id, defect, and names of test files or an answer."""
FILES = re.compile(r"`(test_\w+\.py)`")
SHOWN_FILES = 2
"""How many test files a line names at most; arbitrary."""


def word(number: str) -> str:
    """Spell an id as in the names of tests: ``LIVE-H1`` is ``live_h1``."""
    return number.lower().replace("-", "_")


def files_by_id() -> dict[str, list[str]]:
    """Return the names of the test files of each id, those of regressions first."""
    found: dict[str, list[str]] = {}
    for file, words in names().items():
        text = "".join(f"_{one}_" for one in words)
        for number in {*(f"d{one}" for one in NUMBER.findall(text)), *FINDING.findall(text)}:
            if file.name not in found.setdefault(number, []):
                found[number].append(file.name)
    return found


def test_every_id_in_a_test_name_is_in_the_index() -> None:
    listed = [word(number) for number, _, _ in ROW.findall(INDEX.read_text())]

    assert len(listed) == len({*listed})
    assert sorted(files_by_id().keys() - {*listed}) == []


def test_the_index_names_a_test_file_or_an_answer_for_every_id() -> None:
    found = files_by_id()
    if os.environ.get("UPDATE_INDEX"):
        _update(found)
    rows = {word(number): cell for number, _, cell in ROW.findall(INDEX.read_text())}

    outdated = [one for one, files in found.items() if one in rows and not {*FILES.findall(rows[one])} & {*files}]
    assert outdated == [], "run UPDATE_INDEX=1 pytest tests/regressions/test_index.py"
    assert [one for one, cell in rows.items() if not cell.strip("? ")] == []
    existing = {file.name for file in TESTS.rglob("test_*.py")}
    assert {file for cell in rows.values() for file in FILES.findall(cell)} <= existing


def _update(found: dict[str, list[str]]) -> None:
    def row(match: re.Match[str]) -> str:
        number, defect, cell = match.groups()
        files = found.get(word(number), [])
        cell = ", ".join(f"`{file}`" for file in files[:SHOWN_FILES]) or cell
        return f"| {number} | {defect} | {cell} |"

    INDEX.write_text(ROW.sub(row, INDEX.read_text()))
