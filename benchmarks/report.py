"""Figures and how they are printed."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table: several runs of one measurement."""

    what: str
    runs: Sequence[float]
    unit: str

    def __str__(self) -> str:
        middle = statistics.median(self.runs)
        spread = f"{min(self.runs):.3g}-{max(self.runs):.3g}" if len(self.runs) > 1 else ""
        return f"| {self.what} | {middle:.3g} {self.unit} | {spread} | {len(self.runs)} |"


def show(title: str, figures: Sequence[Figure]) -> None:
    """Print a Markdown table."""
    print(f"\n## {title}\n\n| what | median | range | runs |\n|---|---|---|---|")
    for figure in figures:
        print(figure)
