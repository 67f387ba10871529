"""``csctl create``: build releases of stacks, and publish them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.chart_options import dependency_options
from clusterstacks.cli.shared.minor_options import minor_options
from clusterstacks.cli.shared.output_option import JSON, form_and_directory, form_or_directory_options
from clusterstacks.cli.shared.registry_options import trust_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.cli.shared.creation import CreateOptions

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
    from clusterstacks.cli.shared.creation import CreateOptions, run

    form, into = form_and_directory(arguments.pop("wanted"), arguments.pop("directory_given"), INTO)
    options = CreateOptions(**arguments, form=form, into=into)
    _check_versions(options)
    if options.asks_remote:
        options = _with_remote(options, os.environ)
    try:
        run(options)
    except NothingChanged as error:
        output.show_error(error)
        if form == JSON:
            output.print_json({"releases": []})
        return UNCHANGED
    return 0


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
