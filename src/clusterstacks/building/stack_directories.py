"""Stack directories that were read, and which of their releases are wanted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.building.leftover_versions import other_versions
from clusterstacks.building.pinning import exact_versions, with_addon_versions
from clusterstacks.building.settings import StackSettings, read_settings
from clusterstacks.building.source_tree import TAGS, fill_tags, hash_tree, read_tree
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.versions import KubernetesMinor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from clusterstacks.domain.hashes import Hashes
    from clusterstacks.domain.versions import KubernetesVersion


@dataclass(frozen=True, slots=True)
class StackDirectory:
    """One release to be built: a stack directory and one of the Kubernetes versions it is for.

    Args:
        root: The directory; absolute.
        tree: Its files.
        settings: What the release is.
        others: The other Kubernetes versions that were read from the directory.
    """

    root: Path
    tree: Mapping[str, bytes] = field(repr=False)
    settings: StackSettings
    others: tuple[KubernetesVersion, ...] = ()

    @property
    def hashes(self) -> Hashes:
        """The hashes of its source.

        Raises:
            SpecError: An addon whose version the settings list is not there, or a chart cannot be read.
        """
        if not (exact := exact_versions(self.settings)):
            return hash_tree(self.tree)
        filled = fill_tags(self.tree, dict.fromkeys(TAGS, "v0"))
        # Where the charts have these versions anyway, the hash of their directory says all.
        pinned = with_addon_versions(filled, self.settings) != filled
        return hash_tree(self.tree, exact if pinned else None)


def read_stack(root: Path, output: Path) -> dict[str, bytes]:
    """Read the files of a stack directory.

    Args:
        root: The directory.
        output: Where releases are written.

    Raises:
        SpecError: The directory cannot be read, or ``output`` lies in it, so that every release would change the hash
            of its own source.
    """
    if output.resolve().is_relative_to(root.resolve()):
        raise SpecError(
            "OutputInSource",
            f"{output} lies in the stack directory {root} and would be part of the source: "
            "choose a directory outside with -d, or call csctl from the root of the repository",
        )
    return read_tree(root)


def stacks_of(
    root: Path,
    tree: Mapping[str, bytes],
    patches: Mapping[KubernetesMinor, KubernetesVersion] | None = None,
    *,
    listed: bool = False,
) -> tuple[StackDirectory, ...]:
    """Return the releases to be built from a directory.

    Args:
        root: The directory.
        tree: Its files.
        patches: The newest patch of a minor.
        listed: Whether those of stack.yaml and versions.yaml are wanted, see
            :func:`~clusterstacks.building.settings.read_settings`.

    Raises:
        SpecError: What it says of itself is wrong.
    """
    found = read_settings(tree, patches, listed=listed)
    return tuple(StackDirectory(root.absolute(), tree, one, other_versions(found, one)) for one in found)


def selected(stacks: Iterable[StackDirectory], wanted: str) -> tuple[StackDirectory, ...]:
    """Return the stacks for one Kubernetes minor.

    Args:
        stacks: All there are.
        wanted: The minor as ``1-35`` or ``1.35``; empty for all.

    Raises:
        SpecError: ``wanted`` is no minor, there is no stack for it, or two are for the same releases.
    """
    known = tuple(stacks)
    minor = KubernetesMinor.parse(wanted.replace("-", ".")) if wanted else None
    found = tuple(one for one in known if minor in (None, one.settings.kubernetes.series))
    if not found:
        there = ", ".join(sorted({str(one.settings.kubernetes.series) for one in known}))
        raise SpecError("KubernetesUnknown", f"no stack is for Kubernetes {minor}: --kubernetes takes one of {there}")
    for one, other in _doubles(found):
        name = one.settings.series
        raise SpecError("StackTwice", f"{one.root} and {other.root} are both {name}: remove one, or name the directory")
    return found


def _doubles(stacks: tuple[StackDirectory, ...]) -> Iterator[tuple[StackDirectory, StackDirectory]]:
    seen: dict[str, StackDirectory] = {}
    for stack in stacks:
        if stack.settings.series in seen:
            yield seen[stack.settings.series], stack
        seen[stack.settings.series] = stack
