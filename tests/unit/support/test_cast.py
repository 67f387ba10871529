"""The recorder of terminal casts, and the cast of the README."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tools.cast import COLUMNS, LONGEST_PAUSE, LONGEST_SECONDS, PLAIN, ROWS, Sheet, record, shorten, shown_lines, svg

DOCS = Path(__file__).parents[3] / "docs"
MAX_BYTES = 100_000
GREEN = ("#9ece6a", False, False)


def printed(*texts: str) -> list[str]:
    sheet = Sheet(columns=10)
    for text in texts:
        sheet.write(text)
    return ["".join(text for text, _ in sheet.runs(row)) for row in range(len(sheet.lines))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("one\rtwo", ["two"]),
        ("0123456789ab", ["0123456789", "ab"]),
        ("one\r\ntwo\r\x1b[1A\x1b[2Kthree", ["three", "two"]),
        ("one\r\ntwo\x1b[1A\r\x1b[J", ["", ""]),
        ("a\x1b[3Cb", ["a   b"]),
        ("\x1b[?25lone\x1b[?25h  ", ["one"]),
    ],
)
def test_sheet_shows_what_a_terminal_shows(text: str, expected: list[str]) -> None:
    assert printed(text) == expected


def test_text_of_one_style_is_one_part() -> None:
    sheet = Sheet()
    sheet.write("\x1b[32mok\x1b[0m \x1b[1;2mdim")

    assert sheet.runs(0) == (("ok", GREEN), (" ", PLAIN), ("dim", ("", True, True)))


def test_redrawn_line_is_shown_until_it_changes() -> None:
    lines, _ = shown_lines([(0.0, "… one\r\n"), (1.0, "\x1b[1A\x1b[2K✓ one\r\n"), (2.0, "two")])

    assert [(one.row, one.runs[0][0], one.begin, one.end) for one in lines] == [
        (0, "… one", 0.0, 1.0),
        (0, "✓ one", 1.0, None),
        (1, "two", 2.0, None),
    ]


def test_window_follows_the_last_line() -> None:
    _, scrolled = shown_lines([(float(row), f"{row}\r\n") for row in range(ROWS + 2)])

    assert scrolled == [(0.0, 0), (float(ROWS), 1), (float(ROWS + 1), 2)]


def test_pauses_are_cut_and_a_long_run_is_scaled() -> None:
    assert shorten([(7.0, "a"), (16.0, "b")]) == [(0.0, "a"), (LONGEST_PAUSE, "b")], "it begins with the first text"
    assert shorten([(float(second), "") for second in range(200)])[-1][0] < LONGEST_SECONDS


def test_command_is_recorded_in_a_terminal_and_drawn() -> None:
    script = "import os, sys; print(os.isatty(1), os.get_terminal_size().columns, '<é>')"
    recorded = record([sys.executable, "-c", script])
    text = "".join(ET.fromstring(svg(recorded, "a & b")).itertext())

    assert f"True {COLUMNS} <é>" in text
    assert "a & b" in text


def test_failed_command_makes_no_picture() -> None:
    with pytest.raises(SystemExit, match="3"):
        record([sys.executable, "-c", "raise SystemExit(3)"])


@pytest.mark.regression("U-37")
def test_cast_of_the_readme_is_small_and_begins_with_the_refusal() -> None:
    picture = (DOCS / "demo.svg").read_text()
    (seconds,) = {float(one) for one in re.findall(r'dur="([\d.]+)s"', picture)}
    texts = list(ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text"))
    first = "\n".join("".join(one.itertext()) for one in texts if one.get("opacity") is None)

    assert len(picture) <= MAX_BYTES
    assert seconds <= LONGEST_SECONDS
    assert not re.search(r"https?://(?!www\.w3\.org)", picture)
    assert "denied the request" in first
    assert "Do this instead" in first
    assert "csctl upgrade" not in "".join(line for line in first.splitlines() if line.startswith("$"))
    assert "v1.36.3" in "".join(texts[-1].itertext())
