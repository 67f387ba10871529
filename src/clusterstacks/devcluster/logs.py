"""Read the log of a component, and go on reading while it is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from clusterstacks.devcluster import process_records
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.devcluster.state_directory import StateDirectory

POLL_SECONDS = 0.2
CHUNK_CHARACTERS = 65_536


def read_log(state: StateDirectory, component: str, *, follow: bool = False) -> Iterator[str]:
    """Yield the text of a component's log; with ``follow``, what is added too, until the file is removed.

    Raises:
        SpecError: there is no such log; names those there are.
    """
    path = state.log(component)
    if not path.resolve().is_relative_to(state.root.resolve()) or not path.is_file():
        known = ", ".join(components(state))
        there = f"there are: {known}" if known else "no environment runs there"
        raise SpecError("NoSuchLog", f"there is no log of {component} in {state.root}; {there}")
    with path.open(errors="replace") as file:
        while True:
            text = file.read(CHUNK_CHARACTERS)
            if text:
                yield text
            elif not follow or not path.exists():
                return
            else:
                time.sleep(POLL_SECONDS)


def components(state: StateDirectory) -> list[str]:
    """Name the components that have a log."""
    found = {path.stem for path in (state.root / "logs").glob("*.log")}
    found |= {record.name for record in process_records.read_all(state.records)}
    if state.supervisor_log.exists():
        found.add("supervisor")
    return sorted(found)
