"""Reads the compatibility statements of releases and stacks from their directories, without building anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.csctl.authoring.stack import load_stack
from clusterstacks.csctl.building.discover import find_stacks
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.model import yaml
from clusterstacks.model.files.compatibility import FILE, parse_compatibility
from clusterstacks.model.names import release_named
from clusterstacks.plan.compat.release_statements import read_candidate, read_candidates
from clusterstacks.plan.compat.world import Candidate
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.release import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from clusterstacks.csctl.authoring.stack import LintedStack
    from clusterstacks.model.files.compatibility import Compatibility


def read_statements(directory: Path) -> tuple[tuple[str, Candidate], ...]:
    """Read one release, all releases in a directory, or all stacks at or below it; return each with a label.

    A stack is read once for each of its Kubernetes versions.

    Raises:
        SpecError: A file is broken, or there is neither a release nor a stack.
    """
    whole = directory.absolute()
    name = release_named(whole.name) if (whole / METADATA).is_file() else None
    if name is not None:
        return ((str(name), read_candidate(name, whole)),)
    if releases := read_candidates(directory):
        return tuple((str(release.name), release) for release in releases)
    return tuple(labelled for root in find_stacks(directory) for labelled in _of_stack(root))


def _of_stack(root: Path) -> Iterator[tuple[str, Candidate]]:
    tree = read_tree(root)
    stacks = load_stack(tree, str(root), listed=True)
    for stack in stacks:
        if stack.settings is None or stack.name is None:
            raise SourceBroken(root, f"is not a valid stack: {stack.settings_problem}")
        label = f"{root} for {stack.settings.kubernetes.series}" if len(stacks) > 1 else str(root)
        yield label, Candidate(stack.name, stack.settings.kubernetes, stack_compatibility(stack, str(root / FILE)))


def stack_compatibility(stack: LintedStack, file: str = FILE) -> Compatibility | None:
    """Read the compatibility.yaml of a stack, ``file`` in messages; None if it has none."""
    if FILE not in stack.tree:
        return None
    return parse_compatibility(yaml.load(stack.content(FILE), name=file), file=file)
