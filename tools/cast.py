"""Records a command in a terminal of its own, and writes what the terminal showed as an animated SVG: ``make cast``.

    python -m tools.cast docs/demo.svg tools/demo.sh

The picture is a long sheet with every line that was printed, and a window that moves down over it. Lines that the
command redrew have one element for each text. It begins with the first text, so that its first frame has something to
read, also where it is not animated. Pauses are shortened, so that the whole lasts 20 seconds at most.
"""

from __future__ import annotations

import os
import pty
import re
import select
import struct
import subprocess
import sys
import time
from codecs import getincrementaldecoder
from dataclasses import dataclass, field
from fcntl import ioctl
from html import escape
from pathlib import Path
from termios import TIOCSWINSZ
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS: Final = 100
ROWS: Final = 26
LONGEST_SECONDS: Final = 20.0
LONGEST_PAUSE: Final = 5.0
"""Seconds; longer pauses are cut to this, before everything is scaled to the longest duration."""
LAST_PICTURE: Final = 3.0
"""Seconds for which the end stays."""

_WIDTH, _HEIGHT, _MARGIN = 8.5, 18, 12
_COLOURS: Final = {31: "#f07178", 32: "#9ece6a", 33: "#e0af68", 34: "#7aa2f7", 35: "#bb9af7", 36: "#7dcfff"}
_STYLES: Final = (
    "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "fill:#c8ccd4;white-space:pre}.b{font-weight:bold}.d{opacity:.6}</style>"
)
_SEQUENCE: Final = re.compile(r"\x1b\[([?\d;]*)([A-Za-z])|\x1b[()].|\x1b.|([\r\n\x08\x07])|([^\x1b\r\n\x08\x07]+)")
_CUT: Final = re.compile(r"\x1b(\[[?\d;]*)?\Z")
"""A sequence of which the rest comes later."""

Style: TypeAlias = tuple[str, bool, bool]
"""Colour, bold, dim."""
Run: TypeAlias = tuple[str, Style]
"""Text of one style."""
PLAIN: Final[Style] = ("", False, False)


@dataclass(slots=True)
class Sheet:
    """The lines that a command printed, with the cursor; enough of a terminal for rich and click.

    Args:
        columns: The width, at which long lines wrap.
    """

    columns: int = COLUMNS
    lines: list[list[tuple[str, Style]]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: Style = PLAIN

    def write(self, text: str) -> None:
        """Print text with control sequences; those that are not known have no effect."""
        for parameters, action, control, printed in _SEQUENCE.findall(text):
            if printed:
                for character in printed:
                    self._put(character)
            elif control == "\n":
                self._down()
            elif control == "\r":
                self.column = 0
            elif control == "\x08":
                self.column = max(0, self.column - 1)
            elif action:
                self._act(action, [int(one) for one in re.findall(r"\d+", parameters)])

    def runs(self, row: int) -> tuple[Run, ...]:
        """Return the text of a line in parts of one style, without blanks at its end."""
        found: list[Run] = []
        for character, style in self.lines[row]:
            if found and found[-1][1] == style:
                found[-1] = (found[-1][0] + character, style)
            else:
                found.append((character, style))
        while found and not found[-1][0].rstrip():
            found.pop()
        return (*found[:-1], (found[-1][0].rstrip(), found[-1][1])) if found else ()

    def _put(self, character: str) -> None:
        if self.column >= self.columns:
            self.column = 0
            self._down()
        line = self.lines[self.row]
        line.extend([(" ", PLAIN)] * (self.column + 1 - len(line)))
        line[self.column] = (character, self.style)
        self.column += 1

    def _down(self) -> None:
        self.row += 1
        if self.row == len(self.lines):
            self.lines.append([])

    def _act(self, action: str, numbers: Sequence[int]) -> None:
        count = numbers[0] if numbers else 1
        match action:
            case "A":
                self.row = max(0, self.row - count)
            case "B":
                self.row = min(len(self.lines) - 1, self.row + count)
            case "C":
                self.column += count
            case "G":
                self.column = count - 1
            case "K":
                self._erase_line(numbers[0] if numbers else 0)
            case "J":
                self._erase_line(0)
                for line in self.lines[self.row + 1 :]:
                    line.clear()
            case "m":
                for number in numbers or (0,):
                    self._set_style(number)
            case _:
                pass

    def _erase_line(self, part: int) -> None:
        if part == 2:
            self.lines[self.row].clear()
        elif part == 0:
            del self.lines[self.row][self.column :]

    def _set_style(self, number: int) -> None:
        colour, bold, dim = self.style
        match number:
            case 0:
                self.style = PLAIN
            case 1:
                self.style = (colour, True, dim)
            case 2:
                self.style = (colour, bold, True)
            case 22:
                self.style = (colour, False, False)
            case 39:
                self.style = ("", bold, dim)
            case _:
                self.style = (_COLOURS.get(number - 60 if number > 89 else number, colour), bold, dim)


@dataclass(frozen=True, slots=True)
class Shown:
    """A text of a line, and the seconds from which and up to which it is shown; None for the end."""

    row: int
    runs: tuple[Run, ...]
    begin: float
    end: float | None = None


def record(command: Sequence[str]) -> list[tuple[float, str]]:
    """Run a command in a terminal, and return what it prints with the seconds since its start.

    Raises:
        SystemExit: The command fails.
    """
    outer, inner = pty.openpty()
    ioctl(inner, TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    environ = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
    began, found, rest = time.monotonic(), list[tuple[float, str]](), ""
    decoder = getincrementaldecoder("utf-8")(errors="replace")
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environ, start_new_session=True)
    os.close(inner)
    while True:
        try:
            ready = select.select([outer], [], [], 1)[0]
            content = os.read(outer, 65536) if ready else b""
        except OSError:  # the command has closed the terminal
            break
        if ready:
            text = rest + decoder.decode(content)
            rest = cut[0] if (cut := _CUT.search(text)) else ""
            found.append((time.monotonic() - began, text.removesuffix(rest)))
        elif process.poll() is not None:
            break
    os.close(outer)
    if code := process.wait():
        sys.exit(code)
    return found


def shorten(recorded: Iterable[tuple[float, str]], pause: float = LONGEST_PAUSE) -> list[tuple[float, str]]:
    """Cut pauses, also that before the first text, and scale the times to the longest duration."""
    shortened, now, before = list[tuple[float, str]](), 0.0, None
    for moment, text in recorded:
        now += 0.0 if before is None else min(moment - before, pause)
        before = moment
        shortened.append((now, text))
    factor = min(1.0, (LONGEST_SECONDS - LAST_PICTURE) / now) if now else 1.0
    return [(moment * factor, text) for moment, text in shortened]


def shown_lines(recorded: Iterable[tuple[float, str]]) -> tuple[list[Shown], list[tuple[float, int]]]:
    """Return every text of every line with its times, and the number of lines above the window after each change."""
    sheet, current = Sheet(), dict[int, Shown]()
    done, scrolled = list[Shown](), [(0.0, 0)]
    for moment, text in recorded:
        sheet.write(text)
        for row in range(len(sheet.lines)):
            runs, before = sheet.runs(row), current.get(row)
            if before is not None and before.runs != runs:
                done.append(Shown(row, before.runs, before.begin, moment))
                del current[row]
            if runs and row not in current:
                current[row] = Shown(row, runs, moment)
        above = max(0, _last(sheet) + 1 - ROWS, scrolled[-1][1])
        if above != scrolled[-1][1]:
            scrolled.append((moment, above))
    return [one for one in (*done, *current.values()) if one.end is None or one.end > one.begin], scrolled


def _last(sheet: Sheet) -> int:
    return max((row for row, line in enumerate(sheet.lines) if line), default=0)


def svg(recorded: Sequence[tuple[float, str]], title: str) -> str:
    """Return the animation as a picture that repeats."""
    lines, scrolled = shown_lines(recorded)
    seconds = (recorded[-1][0] if recorded else 0.0) + LAST_PICTURE
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, ROWS * _HEIGHT + 2 * _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        _STYLES,
        f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#1b1e28"/>',
        f'<svg x="{_MARGIN}" y="{_MARGIN}" width="{width - 2 * _MARGIN:.0f}" height="{ROWS * _HEIGHT}"><g>',
    ]
    if len(scrolled) > 1:
        values = ";".join(f"0 {-above * _HEIGHT}" for _, above in scrolled)
        times = ";".join(_share(moment, seconds) for moment, _ in scrolled)
        parts.append(
            f'<animateTransform attributeName="transform" type="translate" calcMode="discrete" values="{values}" '
            f'keyTimes="{times}" dur="{seconds:.1f}s" repeatCount="indefinite"/>'
        )
    parts += (_element(one, seconds) for one in sorted(lines, key=lambda one: (one.begin, one.row)))
    return "\n".join((*parts, "</g></svg></svg>\n"))


def _element(one: Shown, seconds: float) -> str:
    runs = "".join(_run(text, style) for text, style in one.runs)
    begin = _share(one.begin, seconds)
    until = "" if one.end is None else f";{_share(one.end, seconds)}"
    values = "0;1" if one.end is None else "0;1;0"
    animation = (
        f'<animate attributeName="opacity" calcMode="discrete" values="{values}" keyTimes="0;{begin}{until}" '
        f'dur="{seconds:.1f}s" repeatCount="indefinite"/>'
    )
    moves = "" if begin == "0" and one.end is None else animation
    hidden = "" if begin == "0" else ' opacity="0"'
    return f'<text y="{one.row * _HEIGHT + 14}"{hidden} xml:space="preserve">{runs}{moves}</text>'


def _run(text: str, style: Style) -> str:
    colour, bold, dim = style
    classes = " ".join(name for name, set_ in (("b", bold), ("d", dim)) if set_)
    attributes = (f' class="{classes}"' if classes else "") + (f' fill="{colour}"' if colour else "")
    styled = attributes.replace(' fill="', ' style="fill:')
    return f"<tspan{styled}>{escape(text)}</tspan>" if attributes else escape(text)


def _share(moment: float, seconds: float) -> str:
    return f"{moment / seconds:.4f}".rstrip("0").rstrip(".")


def main() -> None:
    """Record the command of the arguments, and write the picture."""
    file, *command = sys.argv[1:]
    recorded = record(command)
    Path(file).write_text(svg(shorten(recorded), " ".join(command)), encoding="utf-8")
    sys.stdout.write(f"{file}: {Path(file).stat().st_size} bytes, {recorded[-1][0]:.0f} s recorded\n")


if __name__ == "__main__":
    main()
