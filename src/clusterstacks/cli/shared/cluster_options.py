"""Management cluster options, and the outlook of a Cluster: its versions, known releases, rules and upstream facts."""

from __future__ import annotations

import os
import shlex
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared.options import DIRECTORY, FILE
from clusterstacks.domain.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from clusterstacks.clusters.context import Outlook
    from clusterstacks.compat.statements import UpstreamFacts
    from clusterstacks.kube.client import Client
    from clusterstacks.planner.model_builder import Target


@dataclass(frozen=True, slots=True)
class ManagementCluster:
    """A management cluster as the options name it.

    Args:
        kubeconfig: A kubeconfig file; None to find one as kubectl does.
        context: A context of the kubeconfig; empty for the current one.
    """

    kubeconfig: Path | None = None
    context: str = ""

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """Yield a client.

        Raises:
            SpecError: The kubeconfig does not exist or is broken.
        """
        from clusterstacks.kube.client import Client
        from clusterstacks.kube.kubeconfig import default_connection
        from clusterstacks.kube.transport import Pool

        connection = default_connection(os.environ, str(self.kubeconfig or ""), self.context)
        async with Pool() as pool:
            yield Client(connection, pool)

    def kubectl(self, *arguments: str) -> str:
        """Return a kubectl command for the same cluster."""
        named = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        named += [f"--context={self.context}"] if self.context else []
        return shlex.join(["kubectl", *arguments, *named])


class ClusterName(click.ParamType[ObjectKey]):
    """Parameter type of ``NAMESPACE/CLUSTER``."""

    name = "NAMESPACE/CLUSTER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ObjectKey:  # noqa: ANN401 - click's signature
        """Parse the name of a Cluster."""
        if isinstance(value, ObjectKey):
            return value
        namespace, slash, name = str(value).partition("/")
        if not (namespace and slash and name) or "/" in name:
            self.fail(f"{value!r} is not a Cluster (expected NAMESPACE/NAME, for example team-a/prod)", param, ctx)
        return ObjectKey(namespace, name)


def management_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig and --context, passed as ``management``, and --releases."""

    @wraps(command)
    def call(*, kubeconfig: Path | None, context: str, **rest: Any) -> Any:  # noqa: ANN401 - the arguments of the verb
        return command(management=ManagementCluster(kubeconfig, context), **rest)

    for option in (
        click.option(
            "--releases",
            type=DIRECTORY,
            help="Directory with releases that neither the management cluster nor a source provides.",
        ),
        click.option("--context", default="", help="Context of the kubeconfig.  [default: the current one]"),
        click.option(
            "--kubeconfig", type=FILE, help="Kubeconfig of the management cluster.  [default: as for kubectl]"
        ),
    ):
        call = option(call)
    return call


QUICK_SEARCH_COMBINATIONS = 300_000
"""Limit of the search for a plan without sources, in combinations (about a second). After it, sources are read."""


async def read_cluster_outlook(
    client: Client, cluster: ObjectKey, releases: Path | None, goal: Target | None = None
) -> Outlook:
    """Read a Cluster and its possible versions with the rights of the user.

    The status of ClusterStackReleases comes first. Sources are read only if the status does not explain the versions of
    the Cluster or leads to no plan: the plan may need releases that the management cluster does not have yet.

    Raises:
        ClusterStacksError: As :func:`~.context.read_outlook` of ``clusters``; or a file below ``releases`` is broken.
    """
    from datetime import UTC, datetime

    from clusterstacks.clusters.context import ReleasesUnknown, Surroundings, read_outlook
    from clusterstacks.releases.compat_statements import read_candidates
    from clusterstacks.sources.source_opener import SecretReader, SourceOpener

    around = Surroundings(
        # Source directories belong to the file system of the operator, so none can be read here.
        opener=SourceOpener(secrets=SecretReader(client), release_dir=Path(os.devnull), environ=os.environ),
        upstream=upstream_facts(),
        given=read_candidates(releases) if releases is not None else (),
        now=datetime.now(UTC),
    )
    with suppress(ReleasesUnknown):
        outlook = await read_outlook(client, cluster, replace(around, opener=None))
        if goal is None or _leads_to_plan(outlook, goal):
            return outlook
    return await read_outlook(client, cluster, around)


def _leads_to_plan(outlook: Outlook, goal: Target) -> bool:
    from clusterstacks.domain.errors import SpecError
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.planner.budget import Budget
    from clusterstacks.planner.planner import Plan, find_plan

    if isinstance(goal, ReleaseName) and goal not in {one.name for one in outlook.world.candidates}:
        return False
    try:
        return isinstance(find_plan(outlook.world, outlook.state, goal, Budget(QUICK_SEARCH_COMBINATIONS)), Plan)
    except SpecError:
        return False


INSTALLED = Path("cluster-stacks", "compatibility")
"""Directory of installed facts, below the user's data directory (XDG base directory specification)."""


def installed_facts_directory() -> Path:
    """Return the directory in which ``csctl compat update`` installs facts; it may not exist."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / INSTALLED


def upstream_facts() -> UpstreamFacts:
    """Return the built-in facts, overridden by the facts that the user installed."""
    from clusterstacks.compat.library import facts

    return facts(installed_facts_directory())
