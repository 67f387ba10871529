"""Options of the management cluster, and the upgrade context of a Cluster in it."""

from __future__ import annotations

import os
import shlex
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared.options import DIRECTORY, FILE
from clusterstacks.model.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

    from click.shell_completion import CompletionItem

    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.connection import Connection
    from clusterstacks.plan.clusters.context import UpgradeContext
    from clusterstacks.plan.compat.statements import UpstreamFacts
    from clusterstacks.plan.planner.model_builder import Goal


@dataclass(frozen=True, slots=True)
class ManagementCluster:
    """A management cluster as the options name it."""

    kubeconfig: Path | None = None
    """A kubeconfig file; None to find one as kubectl does."""
    context: str = ""
    """A context of the kubeconfig; empty for the current one."""
    namespace: str = ""
    """Namespace of objects that are named without one; empty for that of the context."""

    def connection(self) -> Connection:
        """Return the address, credentials and default namespace.

        Raises:
            SpecError: The kubeconfig does not exist or is broken.
        """
        from clusterstacks.net.kube.kubeconfig import default_connection

        connection = default_connection(os.environ, str(self.kubeconfig or ""), self.context)
        return replace(connection, namespace=self.namespace or connection.namespace)

    def full_key(self, key: ObjectKey) -> ObjectKey:
        """Return the key of an object that may be named without its namespace; raises as :meth:`connection`."""
        if key.namespace and self.namespace not in ("", key.namespace):
            raise click.UsageError(f"{key} is not in namespace {self.namespace}: remove --namespace, or correct it")
        return key if key.namespace else ObjectKey(self.connection().namespace, key.name)

    @asynccontextmanager
    async def connected(self, *, retries: bool = True) -> AsyncIterator[Client]:
        """Yield a client, which repeats failed requests if ``retries``; raises as :meth:`connection`."""
        from clusterstacks.net.tls import without_system_cas

        with without_system_cas():
            from clusterstacks.net.kube.client import Client
            from clusterstacks.net.pool import Pool
            from clusterstacks.net.retry import RetryPolicy

        connection = self.connection()
        async with Pool() as pool:
            yield Client(connection, pool, retries=RetryPolicy() if retries else RetryPolicy(attempts=1))

    def kubectl(self, *arguments: str) -> str:
        """Return a kubectl command for the same cluster."""
        named = [f"--kubeconfig={self.kubeconfig}"] if self.kubeconfig else []
        named += [f"--context={self.context}"] if self.context else []
        return shlex.join(["kubectl", *arguments, *named])


def management_of(context: click.Context) -> ManagementCluster | None:
    """Return the management cluster of an incomplete command line; None if its options name several, or no file."""
    given = context.params
    contexts = given.get("contexts") or (given.get("context") or "",)
    if len(contexts) > 1 or _names_no_file(context):
        return None
    return ManagementCluster(given.get("kubeconfig"), contexts[0], given.get("namespace") or "")


def _names_no_file(context: click.Context) -> bool:
    """Return whether --kubeconfig of an incomplete command line is not a file, which click ignores."""
    given = context.get_parameter_source("kubeconfig") is click.core.ParameterSource.COMMANDLINE
    return given and context.params.get("kubeconfig") is None


def complete_names(
    context: click.Context,
    incomplete: str,
    read: Callable[[Client, ManagementCluster], Awaitable[Iterable[str]]],
) -> list[CompletionItem]:
    """Return the names that ``read`` finds in the management cluster of an incomplete command line."""
    from clusterstacks.csctl.shared.name_completion import complete

    management = management_of(context)
    if management is None:
        return []
    return complete(incomplete, management.connected(retries=False), lambda client: read(client, management))


def complete_namespaces(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the namespaces of the management cluster."""
    from clusterstacks.csctl.shared.name_completion import namespaces

    return complete_names(context, incomplete, lambda client, _: namespaces(client))


def complete_releases(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Complete the releases to which the Cluster before the cursor may move."""
    from clusterstacks.csctl.shared.name_completion import releases

    # After an option without a value, click leaves arguments before it unparsed.
    named = context.params.get("cluster") or next(iter(context.args), "")
    try:
        cluster = ClusterName().convert(named, None, None)
    except click.BadParameter:
        return []
    return complete_names(context, incomplete, lambda client, chosen: releases(client, chosen.full_key(cluster)))


def _complete_contexts(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from clusterstacks.csctl.shared.name_completion import matching
    from clusterstacks.model.errors import SpecError
    from clusterstacks.net.kube.kubeconfig import context_names

    if _names_no_file(context):
        return []
    try:
        return matching(context_names(os.environ, str(context.params.get("kubeconfig") or "")), incomplete)
    except SpecError:
        return []


class ObjectName(click.ParamType[ObjectKey]):
    """Parameter type of ``NAME`` or ``NAMESPACE/NAME``; without a namespace, :func:`cluster_options` completes it."""

    name = "NAME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ObjectKey:  # noqa: ANN401 - click's signature
        """Parse the name."""
        if isinstance(value, ObjectKey):
            return value
        namespace, slash, name = str(value).rpartition("/")
        if not name or "/" in namespace or bool(namespace) is not bool(slash):
            problem = (
                f"{value!r} is not the name of an object (expected NAME or NAMESPACE/NAME, for example team-a/prod)"
            )
            self.fail(problem, param, ctx)
        return ObjectKey(namespace, name)


class ClusterName(ObjectName):
    """Parameter type of the name of a Cluster."""

    name = "CLUSTER"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """Complete the Clusters of the management cluster."""
        from clusterstacks.csctl.shared.name_completion import clusters

        return complete_names(
            ctx, incomplete, lambda client, management: clusters(client, incomplete, management.connection().namespace)
        )


_KUBECONFIG = click.option(
    "--kubeconfig", type=FILE, help="Kubeconfig of the management cluster.  [default: as for kubectl]"
)


def connection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig and --context, passed as ``management``."""

    @wraps(command)
    def call(*, kubeconfig: Path | None, context: str, **rest: Any) -> Any:  # noqa: ANN401 - the arguments of the verb
        return command(management=ManagementCluster(kubeconfig, context), **rest)

    context = click.option(
        "--context",
        default="",
        help="Context of the kubeconfig.  [default: the current one]",
        shell_complete=_complete_contexts,
    )
    return _KUBECONFIG(context(call))


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, --context and --namespace, passed as ``management``, and complete the names of objects."""

    @wraps(command)
    def call(*, management: ManagementCluster, namespace: str, **rest: Any) -> Any:  # noqa: ANN401 - as above
        management = replace(management, namespace=namespace)
        keys = {name: management.full_key(value) for name, value in rest.items() if isinstance(value, ObjectKey)}
        return command(management=management, **rest | keys)

    title = "Namespace of names without one; NAMESPACE/NAME has it."
    return connection_options(_namespace_option("that of the context", title)(call))


def contexts_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig and a repeatable --context, passed as ``managements``."""

    @wraps(command)
    def call(*, kubeconfig: Path | None, contexts: Sequence[str], **rest: Any) -> Any:  # noqa: ANN401 - as above
        chosen = tuple(ManagementCluster(kubeconfig, context) for context in dict.fromkeys(contexts or ("",)))
        return command(managements=chosen, **rest)

    several = "Context of the kubeconfig; repeatable.  [default: the current one]"
    context = click.option("--context", "contexts", multiple=True, help=several, shell_complete=_complete_contexts)
    return _KUBECONFIG(context(call))


@dataclass(frozen=True, slots=True)
class ListScope:
    """The namespaces and labels that a user asks for; an empty namespace means all of them."""

    namespace: str = ""
    labels: str = ""


_SELECTOR = click.option(
    "--selector", "-l", default="", help="Label selector of Clusters, for example team=a,stage!=test."
)


def _namespace_option(default: str, title: str = "Namespace.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    return click.option(
        "--namespace", "-n", default="", help=f"{title}  [default: {default}]", shell_complete=complete_namespaces
    )


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --namespace, by default all, and --selector, passed as ``scope``."""

    @wraps(command)
    def call(*, namespace: str, selector: str, **rest: Any) -> Any:  # noqa: ANN401 - the arguments of the verb
        return command(scope=ListScope(namespace, selector), **rest)

    return _namespace_option("all")(_SELECTOR(call))


def scopes_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubeconfig, a repeatable --context, --namespace, -A and --selector.

    They are passed as ``scopes``, the scope of each management cluster.
    """

    @wraps(command)
    def call(managements: Sequence[ManagementCluster], **given: Any) -> Any:  # noqa: ANN401 - the arguments of the verb
        namespace, everywhere, labels = (given.pop(option) for option in ("namespace", "all_namespaces", "selector"))
        if namespace and everywhere:
            raise click.UsageError("--namespace cannot be combined with --all-namespaces")
        scopes = {
            management: ListScope("" if everywhere else namespace or management.connection().namespace, labels)
            for management in managements
        }
        return command(scopes=scopes, **given)

    everywhere = click.option("--all-namespaces", "-A", is_flag=True, help="Objects of all namespaces.")
    return contexts_options(_namespace_option("that of the context")(everywhere(_SELECTOR(call))))


def management_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of :func:`cluster_options`, and --releases."""
    releases = click.option(
        "--releases",
        type=DIRECTORY,
        help="Directory with releases that neither the management cluster nor a source provides.",
    )
    return cluster_options(releases(command))


async def read_live(
    management: ManagementCluster, cluster: ObjectKey, releases: Path | None, goal: Goal | None = None
) -> UpgradeContext:
    """Connect, and read a Cluster; raises as :func:`read_cluster_context`."""
    async with management.connected() as client:
        return await read_cluster_context(client, cluster, releases, goal)


QUICK_SEARCH_COMBINATIONS = 300_000
"""Limit of the search for a plan without sources, in combinations (about a second). After it, sources are read."""


async def read_cluster_context(
    client: Client, cluster: ObjectKey, releases: Path | None, goal: Goal | None = None
) -> UpgradeContext:
    """Read a Cluster and its possible versions with the rights of the user.

    The status of ClusterStackReleases comes first. Sources are read only if the status does not explain the versions of
    the Cluster or leads to no plan: the plan may need releases that the management cluster does not have yet.

    Raises:
        ClusterStacksError: As :func:`~.context.read_context` of ``plan.clusters``; or a file below
            ``releases`` is broken.
    """
    from datetime import UTC, datetime

    from clusterstacks.plan.clusters.context import ReleasesUnknown, read_context
    from clusterstacks.plan.compat.release_statements import read_candidates
    from clusterstacks.release.sources.source_opener import SecretReader, SourceOpener

    given = read_candidates(releases) if releases is not None else ()
    read = partial(read_context, client, cluster, upstream=upstream_facts(), given=given, now=datetime.now(UTC))
    with suppress(ReleasesUnknown):
        context = await read(opener=None)
        if goal is None or _leads_to_plan(context, goal):
            return context
    # Source directories belong to the file system of the operator, so none can be read here.
    return await read(
        opener=SourceOpener(secrets=SecretReader(client), release_dir=Path(os.devnull), environ=os.environ)
    )


def _leads_to_plan(context: UpgradeContext, goal: Goal) -> bool:
    from clusterstacks.model.errors import SpecError
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.planner import Plan, find_plan

    world = context.world
    if isinstance(goal, ReleaseName) and goal not in {candidate.name for candidate in world.candidates}:
        return False
    try:
        answer = find_plan(world, context.state, world.target(goal), Budget(QUICK_SEARCH_COMBINATIONS))
        return isinstance(answer, Plan)
    except SpecError:
        return False


INSTALLED = Path("cluster-stacks", "compatibility")
"""Directory of installed facts, below the user's data directory (XDG base directory specification)."""


def installed_facts_directory() -> Path:
    """Return the directory in which ``csctl compat update`` installs facts; it may not exist."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / INSTALLED


def upstream_facts() -> UpstreamFacts:
    """Return the built-in facts, overridden by the facts that the user installed."""
    from clusterstacks.plan.compat.library import facts

    return facts(installed_facts_directory())
