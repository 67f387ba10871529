"""Builds releases of stacks and publishes them (``csctl create``)."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import (
    TEXT,
    chart_dependencies,
    dependency_options,
    form_and_directory,
    form_or_directory_options,
    minor_options,
)
from clusterstacks.csctl.shared.registry_options import ServerTrust, trust_options
from clusterstacks.model.documents import listed
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from clusterstacks.csctl.building.discover import StackDirectory
    from clusterstacks.csctl.building.remotes import Publisher
    from clusterstacks.csctl.building.version_inputs import CustomVersions

MODES = ["stable", "hash", "custom", "beta"]
REMOTES = ["github", "oci", "directory", "none"]
_VARIABLES = {
    "github": ("GIT_PROVIDER", "GIT_ORG_NAME", "GIT_REPOSITORY_NAME"),
    "oci": ("OCI_REGISTRY", "OCI_REPOSITORY"),
}
"""The environment variables that select a remote."""
INTO = Path(".release")

_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.argument("directory", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)),
    click.option(
        "--mode", "-m", type=click.Choice(MODES), default="stable", show_default=True, help="Versioning mode."
    ),
    form_or_directory_options(INTO, "the releases"),
    minor_options,
    click.option(
        "--remote",
        metavar=f"[{'|'.join(REMOTES)}]",
        default="",
        help="Remote of the releases.  [default: github if GIT_* is set, else oci if OCI_* is set, else none]",
    ),
    click.option(
        "--remote-dir",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="The directory of --remote directory.",
    ),
    click.option("--publish", is_flag=True, help="Publish the built releases to the remote."),
    click.option("--cluster-stack-version", metavar="VERSION", help="Version of the stack, with --mode custom."),
    click.option("--cluster-addon-version", metavar="VERSION", help="Version of the addons, with --mode custom."),
    click.option("--node-image-version", metavar="VERSION", help="Version of the node images, with --mode custom."),
    click.option(
        "--cluster-class-version",
        metavar="VERSION",
        help="Version of the class, with --mode custom.  [default: that of metadata.yaml, which may have none]",
    ),
    click.option("--node-image-registry", "-r", "registry", default="", help="Registry for the node image plugin."),
    dependency_options,
    trust_options,
    click.option("--strict", is_flag=True, help="Fail if 'csctl lint' finds anything in the source files."),
    click.option("--write-metadata", is_flag=True, help="Write the new versions into metadata.yaml of the stack."),
)

UNCHANGED = output.NEGATIVE
"""Exit code if there is nothing to build, so that a job can distinguish it from an invalid stack."""


def _with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(short_help="Build releases of stacks, and publish them.")
@_with_options
def create(trust: ServerTrust, **arguments: Any) -> int:  # noqa: ANN401 - click passes the options above
    """Build the releases of a stack directory, or of all stacks of a repository (providers/PROVIDER/STACK).

    By default, csctl builds the release of csctl.yaml, and its charts stay unchanged. With --kubernetes or
    --all-minors, or if csctl.yaml has no full Kubernetes version, it builds minors of versions.yaml and stack.yaml. The
    values and templates of the class must not contain the version of another minor in this case.

    'Created DIR/NAME' is printed for each release, as by csctl written in Go. The decisions and their reasons go to
    standard error.

    stable: v4 after v3; the version of a component changes when its files change.

    beta: v4-beta.1, v4-beta.2, ... before v4, and v0-beta.N while there is no stable release. A beta never changes the
    number before it.

    hash: v0-sha.<hash of the source>. custom: the versions of the three options. Neither mode reads a remote.

    The newest release is read from the remote. Without --remote, environment variables select it. github: GIT_PROVIDER,
    GIT_ORG_NAME, GIT_REPOSITORY_NAME, GIT_ACCESS_TOKEN. oci: OCI_REGISTRY, OCI_REPOSITORY and OCI_USERNAME with
    OCI_PASSWORD, or OCI_ACCESS_TOKEN, or the credentials of 'docker login'. none: metadata.yaml of the stack names the
    newest release.

    An earlier build of the same name is replaced. If no stack changed since its newest release, nothing is built and
    the exit code is 3.
    """
    from clusterstacks.csctl.building.plugins import interruptible
    from clusterstacks.csctl.building.version_rules import NothingChanged

    into = default_output(arguments["directory"])
    form, into = form_and_directory(arguments.pop("wanted"), arguments.pop("directory_given"), into)
    options = CreateOptions(**arguments, form=form, into=into, trust=trust)
    _check_versions(options)
    if options.uses_remote:
        options = _with_remote(options, os.environ)
    try:
        output.run_counted(interruptible(_create(options)))
    except NothingChanged as error:
        output.show_error(error)
        if form != TEXT:
            output.print_document({"releases": []}, form)
        return UNCHANGED
    return 0


def default_output(directory: Path) -> Path:
    """Return ``.release`` in the working directory, or in the root of the repository if that is inside of the stack."""
    from clusterstacks.csctl.building.discover import PROVIDERS

    here, stack = Path.cwd(), directory.resolve()
    providers = next((path for path in (stack, *stack.parents) if path.name == PROVIDERS), None)
    if providers is None or not here.is_relative_to(stack):
        return INTO
    return Path(os.path.relpath(providers.parent / INTO))


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateOptions:
    """The options of the command line."""

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
    cluster_class_version: str | None
    registry: str
    dependencies: str
    offline: bool
    trust: ServerTrust
    write_metadata: bool
    strict: bool
    lacks_remote: bool = False
    """A remote would be read, but neither an option nor a variable names one."""

    @property
    def uses_remote(self) -> bool:
        """True if the remote is read or written: the modes hash and custom only publish."""
        return self.publish or self.mode in {"stable", "beta"}


async def _create(options: CreateOptions) -> None:
    from clusterstacks.csctl.building.discover import discover_stacks, newest_patch, shown_path
    from clusterstacks.csctl.building.release_builder import ReleaseBuilder, create_releases, publish_release
    from clusterstacks.csctl.building.version_inputs import VersionChooser
    from clusterstacks.csctl.building.version_rules import Mode
    from clusterstacks.csctl.shared.transfer_bar import transfer_bar

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
        await _check_sources({shown_path(stack.root): stack.tree for stack in stacks}, strict=options.strict)
        if options.lacks_remote:
            _check_newest_is_known(stacks)
        if options.write_metadata and len({stack.root for stack in stacks}) < len(stacks):
            raise SpecError(
                "MetadataAmbiguous", "metadata.yaml can contain only one version: choose a minor with --kubernetes"
            )
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
            progress=transfer_bar(),
        )
        report = output.note if options.form != TEXT else output.say
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
        if options.form != TEXT:
            output.print_document({"releases": [_document(directory, published) for directory in built]}, options.form)


def _check_newest_is_known(stacks: Sequence[StackDirectory]) -> None:
    """Refuse to begin at v1 only because a job lost the variables of its registry."""
    from clusterstacks.csctl.building.discover import shown_path
    from clusterstacks.release.release import METADATA

    for stack in stacks:
        if METADATA not in stack.tree:
            raise SpecError(
                "NewestReleaseUnknown",
                f"{shown_path(stack.root)}: the newest release is unknown, because neither GIT_* nor OCI_* is set and "
                f"the stack has no {METADATA}; set the variables of the registry, or use --remote none for a first "
                "release",
            )


async def _check_sources(trees: Mapping[str, Mapping[str, bytes]], *, strict: bool) -> None:
    """Print the findings of lint rules that need no chart rendered; fail if a release is useless, or if ``strict``."""
    from clusterstacks.csctl.authoring.linter import BEFORE_BUILD, REFUSED, apply_rules
    from clusterstacks.csctl.authoring.render_check import compile_conditions
    from clusterstacks.csctl.authoring.stack import load_stack
    from clusterstacks.deliver.render.renderer import Renderer

    refused: list[str] = []
    renderer = Renderer()
    try:
        loaded = {
            directory: [await compile_conditions(stack, renderer) for stack in load_stack(tree, directory)]
            for directory, tree in trees.items()
        }
    finally:
        await renderer.close()
    for directory, stacks in loaded.items():
        for finding in apply_rules(stacks, BEFORE_BUILD):
            problem = finding.problem
            line = f"{directory}/{problem.path}:{problem.line}: {problem.message}: {problem.remedy}"
            if strict or finding.rule in REFUSED:
                refused.append(line)
            else:
                output.warn(f"{line} ({finding.rule})")
    if refused:
        shown = refused[: output.NOTED]
        more = [f"{len(refused) - len(shown)} more; 'csctl lint' prints them"] if len(refused) > len(shown) else []
        raise SpecError("SourceRefused", listed("correct the source before a release is built:", [*shown, *more]))


def _document(directory: Path, published: Mapping[str, bool]) -> dict[str, object]:
    """Describe a release that was built; ``new`` is false if the remote had it already, null without --publish."""
    return {"release": directory.name, "directory": str(directory), "new": published.get(directory.name)}


async def _publisher(options: CreateOptions, resources: AsyncExitStack) -> Publisher | None:
    if options.remote == "none" or not options.uses_remote:
        return None
    from clusterstacks.csctl.building.remotes import directory_remote, open_remote
    from clusterstacks.csctl.shared.transfer_bar import transfer_bar
    from clusterstacks.release.sources.source_kinds import KINDS

    if options.remote_dir is not None:
        return directory_remote(options.remote_dir.absolute(), os.environ, output.note)
    # Separate from the connections to chart repositories, which may need another CA.
    web = await resources.enter_async_context(options.trust.web())
    return await open_remote(
        KINDS[options.remote],
        web,
        os.environ,
        output.note,
        plain_http=options.trust.plain_http,
        progress=transfer_bar(),
    )


def _custom_versions(options: CreateOptions) -> CustomVersions | None:
    from clusterstacks.csctl.building.version_inputs import CustomVersions
    from clusterstacks.model.versions import StackVersion

    if options.mode != "custom":
        return None
    given = (
        options.cluster_stack_version,
        options.cluster_addon_version,
        options.node_image_version,
        options.cluster_class_version,
    )
    return CustomVersions(*(StackVersion.parse_dot(text) for text in given if text))


def _absolute_if_path(registry: str) -> str:
    return str(Path(registry).absolute()) if registry and Path(registry).exists() else registry


def default_remote(environ: Mapping[str, str]) -> tuple[str, str]:
    """Choose the remote of a command line without ``--remote`` by the variables of csctl written in Go.

    Return the remote, and the reason.
    """
    for remote, variables in _VARIABLES.items():
        for variable in variables:
            if environ.get(variable):
                return remote, f"{variable} is set"
    return "none", "neither GIT_* nor OCI_* is set: metadata.yaml of the stack names the newest release"


def _with_remote(options: CreateOptions, environ: Mapping[str, str]) -> CreateOptions:
    remote, reason = (options.remote, "") if options.remote else default_remote(environ)
    if remote not in REMOTES:
        raise click.UsageError(f"{remote!r} is not a valid remote: --remote takes one of {', '.join(REMOTES)}")
    if (remote == "directory") != (options.remote_dir is not None):
        raise click.UsageError("--remote directory and --remote-dir must be used together")
    if options.publish and remote == "none":
        raise click.UsageError(
            "--publish needs a remote: use --remote github, oci or directory"
            + (", or the variables of one (csctl create --help)" if reason else "")
        )
    if reason:
        output.note(f"remote {remote}, because {reason} (--remote selects another)")
    return replace(options, remote=remote, lacks_remote=remote == "none" and bool(reason))


def _check_versions(options: CreateOptions) -> None:
    given = {
        "--cluster-stack-version": options.cluster_stack_version,
        "--cluster-addon-version": options.cluster_addon_version,
        "--node-image-version": options.node_image_version,
    }
    if options.mode == "custom" and (missing := [name for name, value in given.items() if not value]):
        raise click.UsageError(f"--mode custom needs {', '.join(missing)}")
    given["--cluster-class-version"] = options.cluster_class_version
    if options.mode != "custom" and (extra := [name for name, value in given.items() if value]):
        raise click.UsageError(f"{', '.join(extra)} can only be used with --mode custom")
    if options.write_metadata and options.mode == "hash":
        raise click.UsageError("--write-metadata changes the source and its hash: use another --mode")
