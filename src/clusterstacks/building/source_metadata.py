"""metadata.yaml in a stack directory: the versions of its newest release, written down by its author.

It is the base of the next versions where no remote is asked, and part of the source like any other file.
"""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.building.yaml_edit import Place, with_values
from clusterstacks.domain.metadata import Metadata, parse_metadata
from clusterstacks.releases.release import METADATA
from clusterstacks.releases.staging import sync_directory

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def written_metadata(tree: Mapping[str, bytes]) -> Metadata | None:
    """Read the file; None when there is none.

    Raises:
        SpecError: It is wrong.
    """
    return parse_metadata(yaml.load(tree[METADATA], name=METADATA)) if METADATA in tree else None


def renewed(tree: Mapping[str, bytes], metadata: Metadata) -> bytes:
    """Return the file with other versions in it; comments stay where it has a place for each version."""
    document = metadata.document()
    if METADATA in tree:
        versions = document["versions"]
        values: dict[Place, str] = {("versions", key): versions[key] for key in ("clusterStack", "kubernetes")}
        values |= {("versions", "components", key): value for key, value in versions["components"].items()}
        changed = with_values(tree[METADATA], values, name=METADATA)
        if changed is not None:
            return changed
    return yaml.dump(document).encode()


def write_metadata(root: Path, content: bytes) -> None:
    """Put the file in its place at once.

    Raises:
        OSError: The directory cannot be written.
    """
    target = root / METADATA
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    fresh = root / f".{METADATA}.{secrets.token_hex(4)}"
    try:
        with fresh.open("xb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        fresh.rename(target)
    finally:
        fresh.unlink(missing_ok=True)
    sync_directory(root)
