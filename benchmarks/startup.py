"""How long ``csctl`` takes to say something, against an interpreter that does nothing and a bare click program.

The longest is the matrix of a release with all components that have facts.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.processes import interleaved, ratio
from benchmarks.report import Figure, show
from clusterstacks.plan.compat.library import facts

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
METADATA = "versions: {clusterStack: v1, kubernetes: v1.36.1, components: {clusterAddon: v1}}\n"


def write_release(directory: Path) -> int:
    """Write the facts of a release that contains every component with facts; return their number."""
    rows = []
    for name, component in facts().components.items():
        first = component.statements[-1].versions.alternatives[0][0]
        rows.append(f"- {{name: {name}, version: {'.'.join(map(str, first.numbers))}}}\n")
    stated = "apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1\nkubernetes: '>=1.33 <1.37'\ncomponents:\n"
    directory.mkdir()
    (directory / "metadata.yaml").write_text(METADATA)
    (directory / "compatibility.yaml").write_text(stated + "".join(rows))
    return len(rows)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        _measure(Path(scratch, "bench-facts-1-36-v1"))


def _measure(release: Path) -> None:
    csctl = Path(sys.executable).with_name("csctl")
    commands: dict[str, Sequence[str | Path]] = {
        PYTHON: [sys.executable, "-c", "pass"],
        CLICK: [sys.executable, "-c", BARE, "--help"],
    }
    for verb in VERBS:
        arguments = [*verb.split(), "--help"]
        commands[" ".join(["csctl", *arguments])] = [csctl, *arguments]
    commands[f"csctl compat matrix of {write_release(release)} components"] = [csctl, "compat", "matrix", release]
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
