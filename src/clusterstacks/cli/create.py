"""``csctl create``: build releases of stacks, and publish them."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import (
    JSON,
    chart_dependencies,
    dependency_options,
    form_and_directory,
    form_or_directory_options,
    minor_options,
)
from clusterstacks.cli.shared.registry_options import trust_options
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.building.remotes import Publisher
    from clusterstacks.building.version_choice import CustomVersions

MODES = ["stable", "hash", "custom", "beta"]
REMOTES = ["github", "oci", "directory", "none"]
_VARIABLES = {
    "github": ("GIT_PROVIDER", "GIT_ORG_NAME", "GIT_REPOSITORY_NAME"),
    "oci": ("OCI_REGISTRY", "OCI_REPOSITORY"),
}
"""The variables that name a remote."""
INTO = Path(".release")

_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)),
    click.option(
        "--mode", "-m", type=click.Choice(MODES), default="stable", show_default=True, help="Choose versions."
    ),
    form_or_directory_options(INTO, "the releases"),
    minor_options,
    click.option(
        "--remote",
        metavar=f"[{'|'.join(REMOTES)}]",
        default="",
        help="What is published?  [default: github where GIT_* is set, else oci where OCI_* is set, else none]",
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
    dependency_options,
    trust_options,
    click.option(
        "--strict", is_flag=True, help="Build nothing where 'csctl lint' finds something in the source files."
    ),
    click.option("--write-metadata", is_flag=True, help="Write the new versions into metadata.yaml of the stack."),
)

UNCHANGED = output.NEGATIVE
"""Exit code when there is nothing to build, so that a job can tell it from a stack that is wrong."""


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(short_help="Build releases of stacks, and publish them.")
@_with_options
def create(**arguments: Any) -> int:  # noqa: ANN401 - click passes what the options above say
    """Build the releases of a stack directory, or of all stacks in a repository (providers/PROVIDER/STACK).

    Builds what csctl.yaml says, with the charts as they are. The Kubernetes minors of versions.yaml and stack.yaml are
    built with --kubernetes or --all-minors; a class whose values or templates name the version of another minor is an
    error then. Where csctl.yaml names no full Kubernetes version, those files decide.

    Prints 'Created DIR/NAME' for each release, as csctl written in Go does at its end; what was decided, and why, goes
    to standard error.

    stable: v4 after v3; a component's version moves when its files changed.

    beta: v4-beta.1, v4-beta.2, ... on the way to v4, and v0-beta.N while there is no stable release. A beta never moves
    the number before it.

    hash: v0-sha.<hash of the source>. custom: as given by the three options. Both ask no remote.

    The newest release is looked up in the remote. Without --remote, the variables that are set choose it. github:
    GIT_PROVIDER, GIT_ORG_NAME, GIT_REPOSITORY_NAME, GIT_ACCESS_TOKEN. oci: OCI_REGISTRY, OCI_REPOSITORY and
    OCI_USERNAME with OCI_PASSWORD, or OCI_ACCESS_TOKEN, or what 'docker login' left. none: metadata.yaml of the stack
    says what was released.

    An earlier build of the same name is replaced. When nothing changed since the newest release, in no stack of a
    repository, nothing is built and the exit code is 3.
    """
    from clusterstacks.building.version_bump import NothingChanged

    form, into = form_and_directory(arguments.pop("wanted"), arguments.pop("directory_given"), INTO)
    options = CreateOptions(**arguments, form=form, into=into)
    _check_versions(options)
    if options.uses_remote:
        options = _with_remote(options, os.environ)
    try:
        asyncio.run(_interruptible(options))
    except NothingChanged as error:
        output.show_error(error)
        if form == JSON:
            output.print_json({"releases": []})
        return UNCHANGED
    return 0


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
    def uses_remote(self) -> bool:
        """True if the remote is read or written: the modes hash and custom only publish."""
        return self.publish or self.mode in {"stable", "beta"}


async def _interruptible(options: CreateOptions) -> None:
    """Create the releases; Ctrl-C and SIGTERM end plugins and remove incomplete releases."""
    task = asyncio.ensure_future(_create(options))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        await task
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _create(options: CreateOptions) -> None:
    from clusterstacks.building.create import ReleaseBuilder, create_releases, publish_release
    from clusterstacks.building.discover import discover_stacks, newest_patch, shown_path
    from clusterstacks.building.version_bump import Mode
    from clusterstacks.building.version_choice import VersionChooser
    from clusterstacks.cli.shared.lint_check import check_sources
    from clusterstacks.cli.shared.registry_options import ServerTrust

    async with AsyncExitStack() as resources:
        web = await resources.enter_async_context(ServerTrust().web())
        into = options.into.resolve()
        stacks = await discover_stacks(
            options.directory,
            into,
            kubernetes=options.kubernetes,
            all_minors=options.all_minors,
            newest=None if options.offline else partial(newest_patch, web),
        )
        check_sources({shown_path(stack.root): stack.tree for stack in stacks}, strict=options.strict)
        if options.write_metadata and len({stack.root for stack in stacks}) < len(stacks):
            raise SpecError("MetadataAmbiguous", "metadata.yaml holds one version: choose a minor with --kubernetes")
        publisher = await _publisher(options, resources)
        chooser = VersionChooser(
            Mode(options.mode), publisher.remote if publisher else None, into, _custom_versions(options)
        )
        builder = ReleaseBuilder(
            into=into,
            dependencies=chart_dependencies(web, options.dependencies, offline=options.offline),
            registry=_absolute_if_path(options.registry),
            writes_metadata=options.write_metadata,
            path=os.environ.get("PATH", os.defpath),
        )
        report = output.note if options.form == JSON else output.say
        built = await create_releases(
            stacks,
            chooser,
            builder,
            note=output.note,
            created=lambda directory: report(f"Created {options.into / directory.name}"),
        )
        published: dict[str, bool] = {}
        if publisher is not None and options.publish:
            for directory in built:
                published[directory.name] = await publish_release(publisher, directory, output.note)
        if options.form == JSON:
            output.print_json({"releases": [_document(directory, published) for directory in built]})


def _document(directory: Path, published: Mapping[str, bool]) -> dict[str, object]:
    """Describe a release that was built; ``new`` is false if the remote had it already, null without --publish."""
    return {"release": directory.name, "directory": str(directory), "new": published.get(directory.name)}


async def _publisher(options: CreateOptions, resources: AsyncExitStack) -> Publisher | None:
    from clusterstacks.building.remotes import directory_remote, open_remote
    from clusterstacks.cli.shared.registry_options import ProgressPrinter, ServerTrust
    from clusterstacks.sources.kinds import KINDS

    if options.remote == "none" or not options.uses_remote:
        return None
    if options.remote_dir is not None:
        return directory_remote(options.remote_dir.absolute(), os.environ, output.note)
    # Separate from the connections to chart repositories, which may need another CA.
    web = await resources.enter_async_context(ServerTrust(options.ca, plain_http=options.plain_http).web())
    return await open_remote(
        KINDS[options.remote], web, os.environ, output.note, plain_http=options.plain_http, progress=ProgressPrinter()
    )


def _custom_versions(options: CreateOptions) -> CustomVersions | None:
    from clusterstacks.building.version_choice import CustomVersions
    from clusterstacks.domain.versions import StackVersion

    if options.mode != "custom":
        return None
    given = (options.cluster_stack_version, options.cluster_addon_version, options.node_image_version)
    return CustomVersions(*(StackVersion.parse_dot(text) for text in given))


def _absolute_if_path(registry: str) -> str:
    return str(Path(registry).absolute()) if registry and Path(registry).exists() else registry


def default_remote(environ: Mapping[str, str]) -> tuple[str, str]:
    """Choose the remote of a command line that names none, as csctl written in Go names it by its variables.

    Returns:
        The remote, and the reason.
    """
    for remote, variables in _VARIABLES.items():
        for variable in variables:
            if environ.get(variable):
                return remote, f"{variable} is set"
    return "none", "neither GIT_* nor OCI_* is set: metadata.yaml of the stack says what was released"


def _with_remote(options: CreateOptions, environ: Mapping[str, str]) -> CreateOptions:
    remote, reason = (options.remote, "") if options.remote else default_remote(environ)
    if remote not in REMOTES:
        raise click.UsageError(f"there is no remote {remote!r}: --remote takes one of {', '.join(REMOTES)}")
    if (remote == "directory") != (options.remote_dir is not None):
        raise click.UsageError("--remote directory and --remote-dir belong together")
    if options.publish and remote == "none":
        raise click.UsageError(
            "--publish takes a remote to publish to: --remote github, oci or directory"
            + (", or the variables of one (csctl create --help)" if reason else "")
        )
    if reason:
        output.note(f"remote {remote}, as {reason} (--remote chooses another)")
    return replace(options, remote=remote)


def _check_versions(options: CreateOptions) -> None:
    given = {
        "--cluster-stack-version": options.cluster_stack_version,
        "--cluster-addon-version": options.cluster_addon_version,
        "--node-image-version": options.node_image_version,
    }
    if options.mode == "custom" and (missing := [name for name, value in given.items() if not value]):
        raise click.UsageError(f"--mode custom takes {', '.join(missing)}, too")
    if options.mode != "custom" and (extra := [name for name, value in given.items() if value]):
        raise click.UsageError(f"{', '.join(extra)} belongs to --mode custom")
    if options.write_metadata and options.mode == "hash":
        raise click.UsageError("--write-metadata changes the source and so its hash: choose another --mode")
