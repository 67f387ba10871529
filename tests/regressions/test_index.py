"""README.md beside this file is the index of the tests with a marker ``regression``.

``UPDATE_INDEX=1 pytest tests/regressions/test_index.py`` writes its last column.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
INDEX = Path(__file__).parent / "README.md"
ROW = re.compile(r"^\| ((?:[A-Z]+-)*[A-Z]*\d+) \| (.+) \| (.+) \|$", re.MULTILINE)
"""A line of the index: id, defect, and test files or an answer."""
MARKER = re.compile(r"mark\.regression\(([^)]+)\)")
SHOWN_FILES = 2
"""Test files named in a line (arbitrary)."""


def files_by_id() -> dict[str, list[str]]:
    """Return the files with tests of each id, those beside the index first."""
    by_id = defaultdict[str, list[str]](list)
    for file in sorted(TESTS.rglob("test_*.py"), key=lambda file: (file.parent != INDEX.parent, file)):
        marked = " ".join(MARKER.findall(file.read_text()))
        for number in dict.fromkeys(re.findall(r'"([^"]+)"', marked)):
            by_id[number].append(str(file.relative_to(TESTS)))
    return by_id


def test_index_lists_the_tests_of_every_id() -> None:
    files = files_by_id()
    text = INDEX.read_text()
    listed = [number for number, _, _ in ROW.findall(text)]
    assert len(listed) == len({*listed})
    assert sorted(files.keys() - {*listed}) == [], "add a line for each to README.md"

    def row(match: re.Match[str]) -> str:
        number, defect, answer = match.groups()
        return f"| {number} | {defect} | {', '.join(f'`{file}`' for file in files[number][:SHOWN_FILES]) or answer} |"

    current = ROW.sub(row, text)
    if os.environ.get("UPDATE_INDEX"):
        INDEX.write_text(current)
    assert current == INDEX.read_text(), "run UPDATE_INDEX=1 pytest tests/regressions/test_index.py"
    named = re.findall(r"`([\w/]+\.py)`", " ".join(answer for _, _, answer in ROW.findall(current)))
    lost = {file for file in named if not (TESTS / file).exists()}
    assert lost == set(), "the tests of these lines are gone; an id without a test needs an answer"
