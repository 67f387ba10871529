"""``csctl create``: build releases of stacks, and publish them."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli import output
from clusterstacks.domain.errors import ClusterStacksError, DependencyError, SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from clusterstacks.domain.releasing import Mode, Move
    from clusterstacks.domain.versions import KubernetesMinor, KubernetesVersion
    from clusterstacks.releases.building.choosing import Choice, Chooser, Versions
    from clusterstacks.releases.building.creating import Creator
    from clusterstacks.releases.building.remotes import Publisher
    from clusterstacks.releases.building.stacks import Stack
    from clusterstacks.releases.dependencies.vendoring import ChartDependencies
    from clusterstacks.releases.web import Web

MODES = ["stable", "hash", "custom", "beta"]
REMOTES = ["github", "oci", "directory", "none"]
DIRECTORY = click.Path(file_okay=False, path_type=Path)

_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)),
    click.option(
        "--mode", "-m", type=click.Choice(MODES), default="stable", show_default=True, help="Choose versions."
    ),
    click.option(
        "--output", "-o", "into", type=DIRECTORY, default=".release", show_default=True, help="Build in here."
    ),
    click.option("--kubernetes", metavar="1-35", default="", help="Build for this minor only.  [default: for all]"),
    click.option(
        "--remote", type=click.Choice(REMOTES), default="github", show_default=True, help="What is published?"
    ),
    click.option(
        "--remote-dir",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The directory of --remote directory.",
    ),
    click.option("--publish", is_flag=True, help="Publish to the remote what was built."),
    click.option("--cluster-stack-version", metavar="VERSION", help="With --mode custom."),
    click.option("--cluster-addon-version", metavar="VERSION", help="With --mode custom."),
    click.option("--node-image-version", metavar="VERSION", help="With --mode custom."),
    click.option("--node-image-registry", "-r", "registry", default="", help="For the provider's node image plugin."),
    click.option(
        "--dependencies",
        type=click.Choice(["vendor", "leave"]),
        default="vendor",
        show_default=True,
        help="Put chart dependencies into the release, or leave them to whoever renders it.",
    ),
    click.option("--offline", is_flag=True, help="Take chart dependencies from the cache only."),
    click.option("--write-metadata", is_flag=True, help="Write the new versions into metadata.yaml of the stack."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The command line."""

    directory: Path
    mode: str
    into: Path
    kubernetes: str
    remote: str
    remote_dir: Path | None
    publish: bool
    cluster_stack_version: str | None
    cluster_addon_version: str | None
    node_image_version: str | None
    registry: str
    dependencies: str
    offline: bool
    write_metadata: bool


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(short_help="Build releases of stacks, and publish them.")
@_with_options
def create(**arguments: Any) -> None:  # noqa: ANN401 - click passes what the options above say
    """Build the releases of a stack directory, or of all stacks in a repository (providers/PROVIDER/STACK).

    Prints the directory of each release; what was decided, and why, goes to standard error.

    stable: v4 after v3; a component's version moves when its files changed.

    beta: v4-beta.1, v4-beta.2, ... on the way to v4, and v0-beta.N while there is no stable release. A beta never moves
    the number before it.

    hash: v0-sha.<hash of the source>. custom: as given by the three options. Both ask no remote.

    The newest release is looked up in the remote. github: GIT_PROVIDER, GIT_ORG_NAME, GIT_REPOSITORY_NAME,
    GIT_ACCESS_TOKEN. oci: OCI_REGISTRY, OCI_REPOSITORY and OCI_USERNAME with OCI_PASSWORD, or OCI_ACCESS_TOKEN, or
    what 'docker login' left. none: metadata.yaml of the stack says what was released.

    An earlier build of the same name is replaced. Nothing changed since the newest release is an error, unless another
    stack of the repository did.
    """
    options = Options(**arguments)
    _check(options)
    asyncio.run(_interruptible(_create(options)))


async def _interruptible(work: Any) -> None:  # noqa: ANN401 - a coroutine
    """Let SIGTERM end plugins and remove half a build as Ctrl-C does."""
    task = asyncio.ensure_future(work)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def _check(options: Options) -> None:
    given = {
        "--cluster-stack-version": options.cluster_stack_version,
        "--cluster-addon-version": options.cluster_addon_version,
        "--node-image-version": options.node_image_version,
    }
    if options.mode == "custom" and (missing := [name for name, value in given.items() if not value]):
        raise click.UsageError(f"--mode custom takes {', '.join(missing)}, too")
    if options.mode != "custom" and (extra := [name for name, value in given.items() if value]):
        raise click.UsageError(f"{', '.join(extra)} belongs to --mode custom")
    if (options.remote == "directory") != (options.remote_dir is not None):
        raise click.UsageError("--remote directory and --remote-dir belong together")
    if options.publish and options.remote == "none":
        raise click.UsageError("--publish takes a remote to publish to: --remote github, oci or directory")
    if options.write_metadata and options.mode == "hash":
        raise click.UsageError("--write-metadata changes the source and so its hash: choose another --mode")


async def _create(options: Options) -> None:
    from clusterstacks.domain.releasing import Mode
    from clusterstacks.releases.building.choosing import Chooser
    from clusterstacks.releases.building.creating import Creator
    from clusterstacks.releases.web import Web

    async with AsyncExitStack() as resources:
        web = await resources.enter_async_context(Web())
        into = options.into.absolute()
        stacks = await _stacks(options, into, web)
        if options.write_metadata and len({stack.root for stack in stacks}) < len(stacks):
            raise SpecError("MetadataAmbiguous", "metadata.yaml holds one version: choose a minor with --kubernetes")
        mode = Mode(options.mode)
        publisher = await _publisher(options, web, mode)
        chooser = Chooser(mode, publisher.remote if publisher else None, into, _versions(options))
        creator = Creator(
            into=into,
            dependencies=_dependencies(options, web),
            registry=_registry(options.registry),
            writes_metadata=options.write_metadata,
            path=os.environ.get("PATH", os.defpath),
        )
        built = await _build_all(stacks, chooser, creator)
        if publisher is not None and options.publish:
            for directory in built:
                new = await publisher.publish(directory)
                _say(
                    f"{directory.name} {'is published' if new else 'was published before'} in {publisher.remote.place}"
                )


async def _stacks(options: Options, into: Path, web: Web) -> tuple[Stack, ...]:
    from clusterstacks.releases.building.discovery import find_stacks
    from clusterstacks.releases.building.kubernetes import newest_patch
    from clusterstacks.releases.building.settings import open_minor
    from clusterstacks.releases.building.stacks import read_stack, selected, stacks_of

    found: list[Stack] = []
    patches: dict[KubernetesMinor, KubernetesVersion] = {}
    for root in await asyncio.to_thread(find_stacks, options.directory):
        with _named(root):
            tree = await asyncio.to_thread(read_stack, root, into)
            minor = open_minor(tree)
            if minor and minor not in patches and not options.offline:
                patches[minor] = await newest_patch(web, minor)
            found += stacks_of(root, tree, patches)
    return selected(found, options.kubernetes)


@contextmanager
def _named(root: Path) -> Iterator[None]:
    """Put the stack's directory in front of what is wrong with a file in it."""
    try:
        yield
    except ClusterStacksError as error:
        kind = DependencyError if isinstance(error, DependencyError) else SpecError
        raise kind(error.code, f"{_shown(root.absolute())}: {error.message}") from None


async def _publisher(options: Options, web: Web, mode: Mode) -> Publisher | None:
    from clusterstacks.domain.releasing import Mode
    from clusterstacks.releases.building.remotes import directory_remote, github_remote, oci_remote

    if options.remote == "none" or (mode in {Mode.HASH, Mode.CUSTOM} and not options.publish):
        return None
    if options.remote == "oci":
        return await oci_remote(web, os.environ)
    if options.remote_dir is not None:
        return directory_remote(options.remote_dir.absolute())
    return github_remote(web, os.environ, _say)


def _versions(options: Options) -> Versions | None:
    from clusterstacks.domain.versions import StackVersion
    from clusterstacks.releases.building.choosing import Versions

    if options.mode != "custom":
        return None
    given = (options.cluster_stack_version, options.cluster_addon_version, options.node_image_version)
    stack, addon, node_image = (StackVersion.parse_dot(text) for text in given)
    return Versions(stack, addon, node_image)


def _dependencies(options: Options, web: Web) -> ChartDependencies | None:
    from clusterstacks.releases.dependencies.vendoring import ChartDependencies
    from clusterstacks.releases.oci.credentials import find

    if options.dependencies == "leave":
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return ChartDependencies(
        web,
        home / "cluster-stacks" / "charts",
        offline=options.offline,
        credentials=partial(find, environ=os.environ),
    )


def _registry(registry: str) -> str:
    return str(Path(registry).absolute()) if registry and Path(registry).exists() else registry


async def _build_all(stacks: tuple[Stack, ...], chooser: Chooser, creator: Creator) -> list[Path]:
    from clusterstacks.domain.releasing import NothingChanged

    for stack in stacks:
        with _named(stack.root):
            creator.check(stack)
    built, unchanged = [], None
    for stack in stacks:
        try:
            choice = await chooser.choose(stack)
        except NothingChanged as error:
            if len(stacks) == 1:
                raise
            _say(f"{stack.settings.series}: {error.message}")
            unchanged = error
            continue
        _explain(stack, choice)
        with _named(stack.root):
            created = await creator.create(stack, choice.release.metadata)
        for note in created.notes:
            _say(f"  {note}")
        output.say(str(created.directory))
        built.append(created.directory)
    if unchanged is not None and not built:
        raise SpecError("NothingChanged", "nothing was built: no stack changed since its newest release")
    return built


def _explain(stack: Stack, choice: Choice) -> None:
    after = f", after {choice.before}" if choice.before else ""
    _say(f"{stack.settings.series} for Kubernetes {stack.settings.kubernetes} from {_shown(stack.root)}{after}")
    moves = choice.release.moves
    if len({(move.before, move.after, move.reason) for move in moves}) == 1:
        moves = (replace(moves[0], component="everything"),)
    for move in moves:
        _say(f"  {_moved(move)}: {move.reason}")
    for note in choice.notes:
        _say(f"  note: {note}")


def _moved(move: Move) -> str:
    if not move.before:
        return f"{move.component} {move.after}"
    return f"{move.component} {move.before}" + (f" -> {move.after}" if move.after != move.before else "")


def _shown(path: Path) -> str:
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _say(text: str) -> None:
    click.echo(text, err=True)
