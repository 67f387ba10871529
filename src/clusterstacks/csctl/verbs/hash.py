"""``csctl hash``: print the hashes of a stack directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import DIRECTORY, TEXT, form_option, minor_options
from clusterstacks.model.errors import error_context

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.building.discover import StackDirectory
    from clusterstacks.model.files.hashes import Hashes


@click.command(short_help="Print the hashes of a stack directory.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@minor_options
@form_option()
def hash(directory: Path, form: str, kubernetes: str, *, all_minors: bool) -> None:  # noqa: A001 - the verb's name
    """Print the hashes of a stack directory, as in hashes.json of its releases.

    The hashes are identical to those of csctl written in Go. nodeImagesDir (of node-images/), clusterClassDir (of
    cluster-class/, in releases that count the class) and clusterAddonPinned (of cluster-addon/ with the versions of
    stack.yaml or versions.yaml) are additions. The first 7 characters of clusterStack are the version of --mode hash.
    Like 'csctl create', hash uses the release of csctl.yaml, or with --kubernetes or --all-minors the releases of
    versions.yaml and stack.yaml.
    """
    by_series = _hashes(directory, kubernetes, listed=all_minors or bool(kubernetes))
    if form != TEXT:
        documents = {name: hashes.document() for name, hashes in by_series.items()}
        output.print_document(documents if len(documents) > 1 else next(iter(documents.values())), form)
        return
    for number, (name, hashes) in enumerate(by_series.items()):
        output.say(f"{chr(10) if number else ''}{name}")
        for key, value in hashes.document().items():
            output.say(f"  {key:20}{value}".rstrip())


def _hashes(directory: Path, kubernetes: str, *, listed: bool) -> dict[str, Hashes]:
    from clusterstacks.csctl.building.discover import find_stacks, selected, stacks_of
    from clusterstacks.csctl.building.settings import open_minor
    from clusterstacks.csctl.building.source_tree import read_tree
    from clusterstacks.model.versions import KubernetesVersion

    stacks: list[StackDirectory] = []
    for root in find_stacks(directory):
        with error_context(root):
            tree = read_tree(root)
            minor = open_minor(tree, listed=listed)
            # No hash contains the patch, so any patch is valid here.
            patches = {minor: KubernetesVersion(minor.major, minor.minor, 0)} if minor else {}
            stacks += stacks_of(root, tree, patches, listed=listed)
    return {stack.settings.series: stack.hashes for stack in selected(stacks, kubernetes)}
