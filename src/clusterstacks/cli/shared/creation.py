"""What ``csctl create`` does: finds stacks, decides on versions, builds, publishes, and says so.

Apart from the command, so that its options cost no time where they are only listed.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.building.build_release import Creator
from clusterstacks.building.discover_stacks import find_stacks
from clusterstacks.building.kubernetes_patch import newest_patch
from clusterstacks.building.previous_release import is_from_same_source
from clusterstacks.building.settings import open_minor
from clusterstacks.building.stack_directories import read_stack, selected, stacks_of
from clusterstacks.building.version_bump import Mode, NoStackChanged, NothingChanged
from clusterstacks.building.version_choice import Chooser, Versions
from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.chart_options import chart_dependencies
from clusterstacks.cli.shared.lint_check import check_sources
from clusterstacks.cli.shared.output_option import JSON
from clusterstacks.cli.shared.registry_options import ProgressPrinter, ServerTrust
from clusterstacks.domain.errors import SpecError, told_of
from clusterstacks.domain.versions import StackVersion
from clusterstacks.releases.errors import ReleaseTaken

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.building.remotes import Publisher
    from clusterstacks.building.stack_directories import StackDirectory
    from clusterstacks.building.version_bump import Move
    from clusterstacks.building.version_choice import Choice
    from clusterstacks.domain.versions import KubernetesMinor, KubernetesVersion
    from clusterstacks.http.client import Web


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """The command line."""

    directory: Path
    mode: str
    form: str
    into: Path
    kubernetes: str
    all_minors: bool
    remote: str
    remote_dir: Path | None
    publish: bool
    cluster_stack_version: str | None
    cluster_addon_version: str | None
    node_image_version: str | None
    registry: str
    dependencies: str
    offline: bool
    ca: Path | None
    plain_http: bool
    write_metadata: bool
    strict: bool

    @property
    def asks_remote(self) -> bool:
        """Whether the remote is asked: the modes hash and custom only publish there."""
        return self.publish or Mode(self.mode) in {Mode.STABLE, Mode.BETA}


def run(options: CreateOptions) -> None:
    """Create the releases.

    Raises:
        ClusterStacksError: One cannot be built or published; those before it are there.
        KeyboardInterrupt: By Ctrl-C or SIGTERM; no process of a plugin and no part of a release is left.
    """
    asyncio.run(_interruptible(options))


async def _interruptible(options: CreateOptions) -> None:
    task = asyncio.ensure_future(_create(options))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _create(options: CreateOptions) -> None:
    async with AsyncExitStack() as resources:
        web = await resources.enter_async_context(ServerTrust().web())
        into = options.into.resolve()
        stacks = await _stacks(options, into, web)
        check_sources({_shown(stack.root): stack.tree for stack in stacks}, strict=options.strict)
        if options.write_metadata and len({stack.root for stack in stacks}) < len(stacks):
            raise SpecError("MetadataAmbiguous", "metadata.yaml holds one version: choose a minor with --kubernetes")
        publisher = await _publisher(options, resources)
        chooser = Chooser(Mode(options.mode), publisher.remote if publisher else None, into, _versions(options))
        creator = Creator(
            into=into,
            dependencies=chart_dependencies(web, options.dependencies, offline=options.offline),
            registry=_registry(options.registry),
            writes_metadata=options.write_metadata,
            path=os.environ.get("PATH", os.defpath),
        )
        built = await _build_all(stacks, chooser, creator, _saying(options))
        published: dict[str, bool] = {}
        if publisher is not None and options.publish:
            for directory in built:
                published[directory.name] = await _published(publisher, directory)
        if options.form == JSON:
            output.print_json({"releases": [_document(directory, published) for directory in built]})


def _saying(options: CreateOptions) -> Callable[[Path], None]:
    """Return what reports a release that was built, as csctl written in Go does; JSON is printed at the end."""
    report = output.note if options.form == JSON else output.say
    return lambda directory: report(f"Created {options.into / directory.name}")


def _document(directory: Path, published: Mapping[str, bool]) -> dict[str, object]:
    """Describe a release that was built; ``new`` says whether the remote did not have it, null without --publish."""
    return {"release": directory.name, "directory": str(directory), "new": published.get(directory.name)}


async def _stacks(options: CreateOptions, into: Path, web: Web) -> tuple[StackDirectory, ...]:
    listed = options.all_minors or bool(options.kubernetes)
    found: list[StackDirectory] = []
    patches: dict[KubernetesMinor, KubernetesVersion] = {}
    for root in await asyncio.to_thread(find_stacks, options.directory):
        with told_of(_shown(root.absolute())):
            tree = await asyncio.to_thread(read_stack, root, into)
            minor = open_minor(tree, listed=listed)
            if minor and minor not in patches and not options.offline:
                patches[minor] = await newest_patch(web, minor)
            found += stacks_of(root, tree, patches, listed=listed)
    return selected(found, options.kubernetes)


async def _publisher(options: CreateOptions, resources: AsyncExitStack) -> Publisher | None:
    if options.remote == "none" or not options.asks_remote:
        return None
    from clusterstacks.building.remotes import directory_remote, open_remote
    from clusterstacks.sources.kinds import KINDS

    if options.remote_dir is not None:
        return directory_remote(options.remote_dir.absolute(), os.environ, output.note)
    # Not the connections to charts' repositories, which another CA may vouch for.
    web = await resources.enter_async_context(ServerTrust(options.ca, plain_http=options.plain_http).web())
    kind = KINDS[options.remote]
    return await open_remote(
        kind, web, os.environ, output.note, plain_http=options.plain_http, progress=ProgressPrinter()
    )


async def _published(publisher: Publisher, directory: Path) -> bool:
    """Publish a release, and return whether it was not there before."""
    place = publisher.remote.place
    try:
        new = await publisher.publish(directory)
    except ReleaseTaken:
        if not await is_from_same_source(publisher.remote, directory):
            raise
        same = "built from the same source by another csctl: it stays as it is there"
        output.note(f"{directory.name} is published already in {place}, {same}")
        return False
    output.note(f"{directory.name} {'is published' if new else 'was published before'} in {place}")
    return new


def _versions(options: CreateOptions) -> Versions | None:
    if options.mode != "custom":
        return None
    given = (options.cluster_stack_version, options.cluster_addon_version, options.node_image_version)
    stack, addon, node_image = (StackVersion.parse_dot(text) for text in given)
    return Versions(stack, addon, node_image)


def _registry(registry: str) -> str:
    return str(Path(registry).absolute()) if registry and Path(registry).exists() else registry


async def _build_all(
    stacks: tuple[StackDirectory, ...], chooser: Chooser, creator: Creator, say: Callable[[Path], None]
) -> list[Path]:
    for stack in stacks:
        with told_of(_shown(stack.root)):
            creator.check(stack)
    built, unchanged = [], None
    for stack in stacks:
        try:
            choice = await chooser.choose(stack)
        except NothingChanged as error:
            if len(stacks) == 1:
                raise
            output.note(f"{stack.settings.series}: {error.message}")
            unchanged = error
            continue
        _explain(stack, choice)
        with told_of(_shown(stack.root)):
            created = await creator.create(stack, choice.release.metadata)
        for note in created.notes:
            output.note(f"  {note}")
        say(created.directory)
        built.append(created.directory)
    if unchanged is not None and not built:
        raise NoStackChanged
    return built


def _explain(stack: StackDirectory, choice: Choice) -> None:
    after = f", after {choice.before}" if choice.before else ""
    output.note(f"{stack.settings.series} for Kubernetes {stack.settings.kubernetes} from {_shown(stack.root)}{after}")
    moves = choice.release.moves
    if len({(move.before, move.after, move.reason) for move in moves}) == 1:
        moves = (replace(moves[0], component="everything"),)
    for move in moves:
        output.note(f"  {_moved(move)}: {move.reason}")
    for note in choice.notes:
        output.note(f"  note: {note}")


def _moved(move: Move) -> str:
    if not move.before:
        return f"{move.component} {move.after}"
    return f"{move.component} {move.before}" + (f" -> {move.after}" if move.after != move.before else "")


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
