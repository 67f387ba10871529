"""Stack directories: copies of tests/stacks that a test may edit."""

from __future__ import annotations

import shutil
from pathlib import Path

from clusterstacks.csctl.building.discover import StackDirectory, stacks_of
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.versions import KubernetesVersion, StackVersion

REPOSITORY = Path(__file__).parents[2] / "stacks"
LAYOUTS = {
    "single": "local-single-1-33",
    "staged": "local-staged-1-34",
    "several": "local-several-1-35",
    "minor": "local-minor-1-35",
}
"""The first release of each miniature, without its version."""


def directory_of(layout: str, repository: Path = REPOSITORY) -> Path:
    inner = {"single": "single/1-33", "staged": "staged/1-34", "several": "several", "minor": "minor/1-35"}
    return repository / "providers" / "local" / inner[layout]


def copied(layout: str, into: Path) -> Path:
    """Copy one miniature and return its directory."""
    return shutil.copytree(directory_of(layout), into / layout)


def first_stack(root: Path) -> StackDirectory:
    return stacks_of(root, read_tree(root))[0]


def versions(stack: str = "v1", addon: str = "v1", node_image: str = "v1", kubernetes: str = "v1.34.2") -> Metadata:
    return Metadata(
        StackVersion.parse(stack),
        KubernetesVersion.parse(kubernetes),
        StackVersion.parse(addon),
        StackVersion.parse(node_image) if node_image else None,
    )
