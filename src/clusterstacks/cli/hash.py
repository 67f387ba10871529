"""``csctl hash``: what a stack directory hashes to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import form_option, minor_options
from clusterstacks.domain.errors import told_of

if TYPE_CHECKING:
    from clusterstacks.building.discover import StackDirectory
    from clusterstacks.domain.hashes import Hashes


@click.command(short_help="Print the hashes of a stack directory.")
@click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path))
@minor_options
@form_option()
def hash(directory: Path, form: str, kubernetes: str, *, all_minors: bool) -> None:  # noqa: A001 - the verb's name
    """Print the hashes of a stack directory as hashes.json of its releases holds them.

    They are those of csctl written in Go, bit for bit; nodeImagesDir (of node-images/) and clusterAddonPinned (of
    cluster-addon/ with the versions of stack.yaml or versions.yaml) are additions. The first 7 characters of
    clusterStack make the version of --mode hash. As csctl create does, it takes the release that csctl.yaml names, or
    with --kubernetes or --all-minors those of versions.yaml and stack.yaml.
    """
    found = _hashes(directory, kubernetes, listed=all_minors or bool(kubernetes))
    if form == "json":
        documents = {name: hashes.document() for name, hashes in found.items()}
        output.print_json(documents if len(documents) > 1 else next(iter(documents.values())))
        return
    for number, (name, hashes) in enumerate(found.items()):
        output.say(f"{chr(10) if number else ''}{name}")
        for key, value in hashes.document().items():
            output.say(f"  {key:20}{value}".rstrip())


def _hashes(directory: Path, kubernetes: str, *, listed: bool) -> dict[str, Hashes]:
    from clusterstacks.building.discover import find_stacks, selected, stacks_of
    from clusterstacks.building.settings import open_minor
    from clusterstacks.building.source_tree import read_tree
    from clusterstacks.domain.versions import KubernetesVersion

    found: list[StackDirectory] = []
    for root in find_stacks(directory):
        with told_of(root):
            tree = read_tree(root)
            minor = open_minor(tree, listed=listed)
            # The patch is in no hash, so any will do.
            patches = {minor: KubernetesVersion(minor.major, minor.minor, 0)} if minor else {}
            found += stacks_of(root, tree, patches, listed=listed)
    return {stack.settings.series: stack.hashes for stack in selected(found, kubernetes)}
