"""What the verbs share that ask a management cluster: options, the connection, the name of a Cluster, its outlook."""

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
    """A management cluster and who asks it.

    Args:
        kubeconfig: A file; None to choose as kubectl does.
        context: Of the kubeconfig; empty for its current one.
    """

    kubeconfig: Path | None = None
    context: str = ""

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """Give a client of it.

        Raises:
            SpecError: There is no kubeconfig, or it is broken.
        """
        from clusterstacks.kube.client import Client
        from clusterstacks.kube.kubeconfig import default_connection
        from clusterstacks.kube.transport import Pool

        connection = default_connection(os.environ, str(self.kubeconfig or ""), self.context)
        async with Pool() as pool:
            yield Client(connection, pool)

    def kubectl(self, *arguments: str) -> str:
        """Write a command that asks the same cluster."""
        named = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        named += [f"--context={self.context}"] if self.context else []
        return shlex.join(["kubectl", *arguments, *named])


class ClusterName(click.ParamType[ObjectKey]):
    """``NAMESPACE/CLUSTER``."""

    name = "NAMESPACE/CLUSTER"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ObjectKey:  # noqa: ANN401 - click's signature
        """Read the name of a Cluster."""
        if isinstance(value, ObjectKey):
            return value
        namespace, slash, name = str(value).partition("/")
        if not (namespace and slash and name) or "/" in name:
            self.fail(f"{value!r} is no Cluster: write its namespace and its name, like team-a/prod", param, ctx)
        return ObjectKey(namespace, name)


def management_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig and --context, given on as ``management``, and --releases."""

    @wraps(command)
    def call(*, kubeconfig: Path | None, context: str, **rest: Any) -> Any:  # noqa: ANN401 - whatever the verb takes
        return command(management=ManagementCluster(kubeconfig, context), **rest)

    for option in (
        click.option(
            "--releases",
            type=DIRECTORY,
            help="Directory with releases, for those that neither the management cluster nor a source gives.",
        ),
        click.option("--context", default="", help="Context of the kubeconfig.  [default: its current one]"),
        click.option("--kubeconfig", type=FILE, help="Of the management cluster.  [default: as kubectl]"),
    ):
        call = option(call)
    return call


QUICK_SEARCH_COMBINATIONS = 300_000
"""Combinations looked at to see whether sources need not be asked: about a second. Where that is too few they are."""


async def read_cluster_outlook(
    client: Client, cluster: ObjectKey, releases: Path | None, goal: Target | None = None
) -> Outlook:
    """Read a Cluster and what it could become, as the user of this program sees it.

    The facts in the status of ClusterStackReleases come first. Sources are asked only where these do not tell what the
    Cluster has, or show no plan for the goal: it may need releases that the management cluster does not have yet.

    Raises:
        ClusterStacksError: As :func:`~.context.read_outlook` of ``clusters``; or a file below ``releases`` is broken.
    """
    from datetime import UTC, datetime

    from clusterstacks.cli.shared.cluster_options import upstream_facts
    from clusterstacks.clusters.context import ReleasesUnknown, Surroundings, read_outlook
    from clusterstacks.releases.compat_statements import read_candidates
    from clusterstacks.sources.source_opener import SecretReader, SourceOpener

    around = Surroundings(
        # No source is a directory here: that would be one of the operator's.
        opener=SourceOpener(secrets=SecretReader(client), release_dir=Path(os.devnull), environ=os.environ),
        upstream=upstream_facts(),
        given=read_candidates(releases) if releases is not None else (),
        now=datetime.now(UTC),
    )
    with suppress(ReleasesUnknown):
        outlook = await read_outlook(client, cluster, replace(around, opener=None))
        if goal is None or _shows_a_plan(outlook, goal):
            return outlook
    return await read_outlook(client, cluster, around)


def _shows_a_plan(outlook: Outlook, goal: Target) -> bool:
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
"""Below the user's data directory (XDG base directory specification)."""


def installed_facts_directory() -> Path:
    """Return the directory of the facts that ``csctl compat update`` installs; it need not exist."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / INSTALLED


def upstream_facts() -> UpstreamFacts:
    """Return the built-in facts with those laid over them that the user installed."""
    from clusterstacks.compat.library import facts

    return facts(installed_facts_directory())
