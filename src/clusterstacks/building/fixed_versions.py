"""Building one release whose versions are known, without network and plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.building.output_directory import place, staged
from clusterstacks.building.packaging import Blueprint, packed, prepared
from clusterstacks.building.settings import read_settings
from clusterstacks.building.source_tree import hash_tree, overlaid, read_tree
from clusterstacks.domain.metadata import Metadata
from clusterstacks.domain.versions import StackVersion

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.domain.names import ReleaseName


def build_release(
    source: Path,
    into: Path,
    *,
    cluster_stack: str,
    cluster_addon: str,
    node_image: str,
    changes: Path | None = None,
) -> ReleaseName:
    """Build a release into ``into/<release name>/``; the same source always gives the same bytes (INCUMBENT D73).

    The directory appears at once and complete. An earlier build of the same name is replaced.

    Args:
        source: A stack directory for one Kubernetes minor.
        into: Where the release directory is made; made itself when it is missing.
        cluster_stack: Version of the release, e.g. ``v1`` or ``v0-sha.abc1234``.
        cluster_addon: Version of the addons.
        node_image: Version of the node images; the Go operator refuses releases without one.
        changes: A directory laid over ``source``, see :func:`~clusterstacks.building.source_tree.overlaid`.

    Raises:
        SpecError: The source is incomplete or wrong, or something else has the release's name.
        OSError: ``into`` cannot be written.
    """
    tree = read_tree(source)
    if changes is not None:
        tree = overlaid(tree, read_tree(changes))
    settings, *_ = read_settings(tree)
    stack, addon, image = (StackVersion.parse(text) for text in (cluster_stack, cluster_addon, node_image))
    metadata = Metadata(stack, settings.kubernetes, addon, image)
    blueprint = Blueprint(settings, metadata, hash_tree(tree))
    with staged(packed(blueprint, prepared(tree, settings, metadata)), into) as staging:
        place(blueprint.name, staging, into)
    return blueprint.name
