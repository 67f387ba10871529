"""Facts files of one user, laid over the built-in ones."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.compat.consistency import check_consistency
from clusterstacks.compat.library import MAX_BYTES, OWN_SHAPE, SUFFIX, read_facts
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from datetime import date
    from pathlib import Path

    from clusterstacks.compat.statements import ComponentFacts


def install(file: Path, into: Path, today: date) -> ComponentFacts:
    """Check a facts file and install it; the file of the same component that was there is replaced at once.

    Args:
        file: The new facts.
        into: The directory of installed facts; made when it is not there.
        today: The day of the check.

    Returns:
        The facts as they are now in force.

    Raises:
        SpecError: The file is not of the schema, breaks a rule of it, or is about Kubernetes itself.
        OSError: A file cannot be read or written.
    """
    with file.open("rb") as reader:
        content = reader.read(MAX_BYTES + 1)
    document = yaml.load(content, name=str(file), max_bytes=MAX_BYTES)
    component = document.get("component") if isinstance(document, dict) else None
    if component in OWN_SHAPE:
        raise SpecError("FactsBuiltIn", f"{file} is about Kubernetes itself; these facts come with csctl: update csctl")
    found = read_facts(content, str(file))
    check_consistency(document, file=str(file), today=today)
    into.mkdir(parents=True, exist_ok=True)
    place = into / f"{found.name}{SUFFIX}"
    hidden = place.with_name(f".{place.name}.{os.getpid()}")
    try:
        hidden.write_bytes(content)
        hidden.replace(place)
    finally:
        hidden.unlink(missing_ok=True)
    return replace(found, origin=str(place))
