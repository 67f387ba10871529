"""``csctl diff``: show the differences of two stacks or releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import (
    TEXT,
    chart_dependencies,
    dependency_options,
    example_objects_option,
    form_option,
    kubernetes_option,
)
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options
from clusterstacks.csctl.shared.release_ref import DIRECTORY_OR_REF, open_release_directory
from clusterstacks.model.errors import error_context

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.authoring.release_diff import ReleaseDiff
    from clusterstacks.csctl.shared.release_ref import DirectoryOrRef
    from clusterstacks.release.release import Release

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffOptions:
    """Options of the command line."""

    before: DirectoryOrRef
    after: DirectoryOrRef
    cluster: Path | None
    kubernetes: str
    dependencies: str
    offline: bool
    trust: ServerTrust


@click.command(short_help="Show the differences of two stacks or releases.")
@click.argument("before", metavar="A", type=DIRECTORY_OR_REF)
@click.argument("after", metavar="B", type=DIRECTORY_OR_REF)
@form_option()
@example_objects_option
@click.option("--exit-code", is_flag=True, help="Exit with 1 if there is a difference, like diff(1) and git diff.")
@kubernetes_option
@dependency_options
@trust_options
def diff(trust: ServerTrust, form: str, *, exit_code: bool, **arguments: Any) -> int:  # noqa: ANN401 - click passes the options above
    """Show the changes from A to B: versions, files, values of addons, rendered objects.

    A and B are directories of releases or stacks, or references to releases as for 'csctl pull'; --ca and --plain-http
    are for the servers of these references. Secret values are shown as digests. Names of class objects that
    contain the name of the release are not a difference, nor are values that change with each rendering, such as
    generated certificates. With --dependencies leave, addons whose charts lack dependencies are compared by their files
    only. Exits with 0 even if there are differences, unless --exit-code is set.
    """
    difference, incomplete = output.run_counted(_difference(DiffOptions(**arguments, trust=trust)))
    for addon in incomplete:
        output.note(f"addon {addon}: values and objects are not compared, because its chart lacks dependencies")
    _print(difference, form)
    return output.FAILED if exit_code and not difference.empty else 0


async def _difference(options: DiffOptions) -> tuple[ReleaseDiff, tuple[str, ...]]:
    import asyncio
    from contextlib import AsyncExitStack
    from functools import partial

    from clusterstacks.csctl.authoring.example_objects import read_example_objects
    from clusterstacks.csctl.authoring.open_directory import open_as_release
    from clusterstacks.csctl.authoring.release_diff import diff_releases
    from clusterstacks.csctl.building.discover import newest_patch
    from clusterstacks.deliver.render.renderer import Renderer

    async with AsyncExitStack() as resources:
        file = options.cluster
        examples = read_example_objects(await asyncio.to_thread(file.read_bytes), str(file)) if file else None
        web = await resources.enter_async_context(ServerTrust().web())
        newest = partial(newest_patch, web)
        charts = chart_dependencies(web, options.dependencies, offline=options.offline)
        renderer = Renderer()
        resources.push_async_callback(renderer.close)

        async def release(source: DirectoryOrRef) -> Release:
            directory = await resources.enter_async_context(open_release_directory(source, options.trust))
            opened = open_as_release(directory, newest, kubernetes=options.kubernetes, dependencies=charts)
            with error_context(source):
                return await resources.enter_async_context(opened)

        return await diff_releases(await release(options.before), await release(options.after), renderer, examples)


def _print(diff: ReleaseDiff, form: str) -> None:
    from clusterstacks.csctl.authoring.release_diff import diff_document, diff_lines

    if form != TEXT:
        output.print_document(diff_document(diff), form)
        return
    for line in diff_lines(diff):
        output.say(line, colour=COLOURS.get(line[:1]), bold=line.startswith("#"))
