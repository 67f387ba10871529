"""``csctl diff``: what the next release changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.chart_options import chart_dependencies, dependency_options
from clusterstacks.cli.shared.output_option import form_option
from clusterstacks.cli.shared.paths import DIRECTORY, FILE
from clusterstacks.cli.shared.registry_options import ServerTrust
from clusterstacks.domain.errors import told_of

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.authoring.release_diff import Difference
    from clusterstacks.releases.release import Release

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@click.command(short_help="Show what two stacks or releases differ in.")
@click.argument("before", metavar="A", type=DIRECTORY)
@click.argument("after", metavar="B", type=DIRECTORY)
@form_option()
@click.option("--cluster", type=FILE, help="YAML file with Cluster, control plane and infrastructure object.")
@click.option("--exit-code", is_flag=True, help="Exit with 1 when there is a difference, like diff(1) and git diff.")
@click.option(
    "--kubernetes",
    metavar="1-35",
    default="",
    help="For this minor of versions.yaml or stack.yaml.  [default: for the version of csctl.yaml]",
)
@dependency_options
def diff(form: str, *, exit_code: bool, **arguments: Any) -> int:  # noqa: ANN401 - click passes what is said above
    """Show what B changes against A: versions, files, values of the addons, rendered objects.

    A and B are directories of releases or stacks. Secret values are shown as digests. That a class's objects are
    called after the release is no difference, nor is what changes with each rendering, like a generated certificate.
    With --dependencies leave, addons whose charts lack dependencies are compared by their files alone. Exits with 0
    whether or not there is a difference, unless --exit-code is given.
    """
    import asyncio

    found, incomplete = asyncio.run(_difference(**arguments))
    for addon in incomplete:
        output.note(f"addon {addon}: its chart lacks dependencies, so its values and objects are not compared")
    _print(found, form)
    return output.FAILED if exit_code and not found.empty else 0


async def _difference(
    before: Path, after: Path, cluster: Path | None, kubernetes: str, dependencies: str, *, offline: bool
) -> tuple[Difference, tuple[str, ...]]:
    import asyncio
    from contextlib import AsyncExitStack
    from functools import partial

    from clusterstacks.authoring.example_objects import read_roots
    from clusterstacks.authoring.open_directory import opened
    from clusterstacks.authoring.rendered_diff import difference
    from clusterstacks.building.kubernetes_patch import newest_patch
    from clusterstacks.render.renderer import Renderer

    async with AsyncExitStack() as resources:
        roots = read_roots(await asyncio.to_thread(cluster.read_bytes), str(cluster)) if cluster else None
        web = await resources.enter_async_context(ServerTrust().web())
        newest = partial(newest_patch, web)
        charts = chart_dependencies(web, dependencies, offline=offline)
        renderer = Renderer()
        resources.push_async_callback(renderer.close)

        async def release(directory: Path) -> Release:
            source = opened(directory, newest, kubernetes=kubernetes, dependencies=charts)
            with told_of(directory):
                return await resources.enter_async_context(source)

        return await difference(await release(before), await release(after), renderer, roots)


def _print(difference: Difference, form: str) -> None:
    from clusterstacks.authoring import unified_diff

    if form == "json":
        output.print_json(unified_diff.document(difference))
        return
    for line in unified_diff.lines(difference):
        output.say(line, colour=COLOURS.get(line[:1]), bold=line.startswith("#"))
