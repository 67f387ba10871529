"""How long ``csctl`` takes to say something, against an interpreter that does nothing and a bare click program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.processes import interleaved, ratio
from benchmarks.report import Figure, show

if TYPE_CHECKING:
    from collections.abc import Sequence

RUNS = 15
PYTHON = "python -c pass"
CLICK = "a click program with one verb"
BARE = """
import click
@click.group()
def program(): "A program."
@program.command()
def verb(): "A verb."
program()
"""
VERBS = ("", "create", "lint", "push", "verify", "dev up")


def main() -> None:
    csctl = Path(sys.executable).with_name("csctl")
    commands: dict[str, Sequence[str | Path]] = {
        PYTHON: [sys.executable, "-c", "pass"],
        CLICK: [sys.executable, "-c", BARE, "--help"],
    }
    for verb in VERBS:
        arguments = [*verb.split(), "--help"]
        commands[" ".join(["csctl", *arguments])] = [csctl, *arguments]
    spent = interleaved(commands, RUNS)
    figures: list[Figure] = []
    for name, found in spent.items():
        figures.append(Figure(f"{name}: time", [1000 * one.seconds for one in found], "ms"))
        figures.append(Figure(f"{name}: CPU", [1000 * one.cpu for one in found], "ms"))
        figures.append(ratio(f"{name} against {PYTHON}: CPU", found, spent[PYTHON], "cpu"))
    figures.append(ratio(f"csctl --help against {CLICK}: CPU", spent["csctl --help"], spent[CLICK], "cpu"))
    show("Start of csctl", figures)


if __name__ == "__main__":
    main()
