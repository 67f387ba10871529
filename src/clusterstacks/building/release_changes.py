"""What changed in a stack since an earlier release of it, as hashes tell, in words.

What cannot be compared counts as changed: a release too many is better than a change nobody gets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection

    from clusterstacks.domain.hashes import Hashes
    from clusterstacks.domain.metadata import Metadata
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.versions import KubernetesVersion

NAMED_FILES: Final = 3
"""How many changed files a reason names (arbitrary: one line of a terminal)."""


@dataclass(frozen=True, slots=True)
class StackSource:
    """What is to be released.

    Args:
        kubernetes: The version it is made for.
        hashes: Of the source directory.
    """

    kubernetes: KubernetesVersion
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The release the next one is compared with.

    Args:
        name: Its name.
        metadata: Its versions.
        hashes: Of the source it was built from; empty where nobody knows them.
        changed: Paths below the stack directory whose content is known to differ from the release's. It explains a
            decision and takes none: a release does not hold every file of its source.
    """

    name: ReleaseName
    metadata: Metadata
    hashes: Hashes
    changed: tuple[str, ...] = ()


def is_same(source: StackSource, before: Predecessor) -> bool:
    """Tell whether a release would be the same once more."""
    # stack.yaml may name a minor only: then the patch moves though no file does.
    same = source.hashes.cluster_stack == before.hashes.cluster_stack
    return same and source.kubernetes == before.metadata.kubernetes


def why_stack(source: StackSource, before: Predecessor) -> str:
    """Say why there is a new release."""
    old = before.metadata.kubernetes
    reasons = [f"Kubernetes {old} -> {source.kubernetes}"] if old != source.kubernetes else []
    reasons += [_listed(before.changed)] if before.changed else []
    # No release holds the files node images are made of.
    reasons += filter(None, [why_node_image(source.hashes, before)])
    if reasons:
        return ", ".join(reasons)
    known = bool(before.hashes.cluster_stack)
    return "a file changed that no release holds" if known else f"{before.name} has no hash of its source"


def why_addon(hashes: Hashes, before: Predecessor) -> str:
    """Say what changed of the addons; empty when nothing did."""
    old, reasons = before.hashes, []
    if hashes.cluster_addon_dir != old.cluster_addon_dir:
        reasons.append(_why_directory("cluster-addon/", before, known=bool(old.cluster_addon_dir)))
    elif hashes.cluster_addon_pinned != old.cluster_addon_pinned:
        reasons.append("the versions of addons in versions.yaml or stack.yaml changed")
    if hashes.cluster_addon_values != old.cluster_addon_values:
        reasons.append("cluster-addon-values.yaml changed")
    return ", ".join(reasons)


def why_node_image(hashes: Hashes, before: Predecessor) -> str:
    """Say what changed of the node images; empty when nothing did."""
    pairs = (
        ("node-image/", hashes.node_image_dir, before.hashes.node_image_dir),
        ("node-images/", hashes.node_images_dir, before.hashes.node_images_dir),
    )
    return ", ".join(_why_directory(name, before, known=bool(old)) for name, new, old in pairs if new != old)


def _why_directory(directory: str, before: Predecessor, *, known: bool) -> str:
    files = [path for path in before.changed if path.startswith(directory)]
    if files:
        return _listed(files)
    return f"{directory} changed" if known else f"{before.name} has no hash of {directory}"


def _listed(files: Collection[str]) -> str:
    shown = list(files)[:NAMED_FILES]
    rest = f" and {len(files) - len(shown)} more" if len(files) > len(shown) else ""
    return f"{', '.join(shown)}{rest} changed"
