"""``csctl ui``: show the Clusters and releases of a management cluster in a browser."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.cluster_options import (
    ListScope,
    ManagementCluster,
    read_cluster_context,
    scopes_options,
)
from clusterstacks.csctl.shared.management_objects import BINDINGS, UPGRADES, ObjectQuery, Outage, follow, read_objects
from clusterstacks.csctl.shared.plan_output import (
    live_commands,
    patch_command,
    running_upgrade,
    search_live_plan,
)
from clusterstacks.csctl.shared.upgrade_decision import decide, decision_document
from clusterstacks.deliver.apply.health_rules import HealthState
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.plan.clusters.cluster_tree import NodeState, Snapshot
from clusterstacks.plan.planner.step_titles import step_title

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from socket import socket

    from clusterstacks.csctl.ui.page_access import PageAccess
    from clusterstacks.csctl.ui.page_server import ContextState
    from clusterstacks.csctl.verbs.cluster_drift import Compared
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.context import UpgradeContext


SHOWN_EVENTS = 50
"""Events of a Cluster on the page (arbitrary: two screens); ``kubectl events`` lists all."""

RETRY_SECONDS = 10
"""Interval at which one of several management clusters that could not be read is tried again (arbitrary)."""

OPENING = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={address}"><title>csctl ui</title></head>
<body><a href="{address}">Continue</a></body>
</html>
"""
"""A file that opens the page."""


@click.command(short_help="Show clusters and releases in a browser.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on loopback.  [default: 0, which is a free port]"
)
@click.option("--open/--no-open", "open_browser", default=True, help="Open the page in the browser.  [default: --open]")
@scopes_options
def ui(scopes: Mapping[ManagementCluster, ListScope], port: int, *, open_browser: bool) -> None:
    """Serve a read-only page with the releases and Clusters of management clusters, until Ctrl-C.

    The page shows the fleet, the troubled Clusters first; it can be filtered, sorted and grouped, and its address names
    what is shown. For each Cluster, it shows objects, rollout, health, drift, deliveries and events, the plan of an
    upgrade, and which versions work together. It changes while the objects change. It has the rights of your
    kubeconfig, and is only served on 127.0.0.1 and ::1, to browsers that open the printed address.

    One of several management clusters that cannot be read does not stop the others.
    """
    from clusterstacks.csctl.ui.page_server import listen

    listening = listen(port)
    with TemporaryDirectory(prefix="csctl-ui-") as private:
        asyncio.run(_serve(scopes, listening, Path(private) if open_browser else None))


async def _serve(scopes: Mapping[ManagementCluster, ListScope], listening: list[socket], private: Path | None) -> None:
    async with AsyncExitStack() as connections:
        contexts = [
            ShownContext(
                management.context or management.connection().server,
                await connections.enter_async_context(management.connected()),
                management,
                scope,
            )
            for management, scope in scopes.items()
        ]
        await serve_page(contexts, listening, lambda access: announce(access, private))


@dataclass(frozen=True, slots=True)
class ShownContext:
    """A management cluster on the page, whose client has the rights of the user."""

    name: str
    client: Client
    management: ManagementCluster
    scope: ListScope

    async def follow(self, state: ContextState) -> None:
        """Show its objects and each change, until cancelled.

        Raises:
            DependencyError: Clusters are not served, or the user may not read them.
        """

        def show(objects: Sequence[list[Manifest]]) -> None:
            kinds = ("stacks", "releases", "clusters", "addons", "bindings", "pools", "machines", "upgrades")
            state.show(Snapshot(**dict(zip(kinds, objects, strict=True))))

        def warn(notices: list[str]) -> None:
            output.warn_all(notices)
            state.warn(notices)

        def report(outage: Outage | None) -> None:
            state.report_outage(asdict(outage) if outage else None)

        await follow(self.client, _queries(self), show, warn=warn, on_outage=report)


async def serve_page(
    contexts: Sequence[ShownContext], listening: list[socket], started: Callable[[PageAccess], None]
) -> None:
    """Serve the page of management clusters until cancelled; ``started`` is called when it has its first content.

    One of several that cannot be read is an outage on the page, and is tried again.

    Raises:
        DependencyError: As :meth:`ShownContext.follow` of the only one.
    """
    from clusterstacks.csctl.ui.page_access import PageAccess
    from clusterstacks.csctl.ui.page_server import PageServer, PageState

    access, state = PageAccess(listening[0].getsockname()[1]), PageState()

    async def follow_always(context: ShownContext, shown: ContextState) -> None:
        began = datetime.now(UTC).isoformat(timespec="seconds")
        while True:
            try:
                await context.follow(shown)
            except DependencyError as error:
                if len(contexts) == 1:
                    raise
                shown.report_outage(asdict(Outage("the management cluster", error.message, began)))
            await asyncio.sleep(RETRY_SECONDS)

    async def announce_content() -> None:
        async with state.client() as changed:
            if changed is not None:
                await changed.wait()
        started(access)

    server = PageServer(access, state, ClusterQuestions({context.name: context for context in contexts}).known())
    serving, announcing = asyncio.create_task(server.run(listening)), asyncio.create_task(announce_content())
    following = [follow_always(context, state.add(context.name, context.scope.namespace)) for context in contexts]
    try:
        await asyncio.gather(announcing, *following)
    finally:
        for task in (serving, announcing):
            task.cancel()
        await asyncio.wait([serving, announcing])


def announce(access: PageAccess, private: Path | None) -> None:
    """Print the address, and open it in the browser by a file in the private directory; with None, only print it.

    The browser gets the name of the file as an argument, not the token, because all users of a machine can read
    arguments.
    """
    output.say(access.address)
    output.note("The page has the rights of your kubeconfig: keep this address to yourself. Ctrl-C ends it.")
    if private is not None:
        file = private / "open.html"
        file.touch(mode=0o600, exist_ok=False)
        file.write_text(OPENING.format(address=access.address), encoding="utf-8")
        # Some browsers are waited for until they end. A daemon thread does not delay the end of csctl.
        Thread(target=_open, args=(file,), daemon=True).start()


def _open(file: Path) -> None:
    import webbrowser

    if not webbrowser.open(file.as_uri()):
        output.note("No browser could be started: open the address in one.")


def _queries(shown: ShownContext) -> list[ObjectQuery]:
    namespace, workers = shown.scope.namespace, "workers are not shown"
    no_addons = "stages, versions of addons and drift are not shown"
    return [
        ObjectQuery(GROUP, Kind.CLUSTER_STACK, consequence="ClusterStacks are not shown", fallback=namespace),
        ObjectQuery(
            GROUP,
            Kind.CLUSTER_STACK_RELEASE,
            consequence="only releases that Clusters use are shown",
            fallback=namespace,
        ),
        ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, namespace, shown.scope.labels),
        ObjectQuery(GROUP, Kind.CLUSTER_ADDON, namespace, consequence=no_addons),
        replace(BINDINGS, namespace=namespace, consequence="syncs are not shown"),
        ObjectQuery(CLUSTER_API_GROUP, "MachineDeployment", namespace, consequence=workers),
        ObjectQuery(CLUSTER_API_GROUP, "Machine", namespace, consequence=workers),
        replace(UPGRADES, namespace=namespace),
    ]


@dataclass(frozen=True, slots=True)
class ClusterQuestions:
    """Answers of ``csctl status``, ``why``, ``plan``, ``compat`` and ``drift`` about a Cluster."""

    contexts: Mapping[str, ShownContext]

    def known(self) -> dict[str, Callable[[Mapping[str, str]], Awaitable[Manifest]]]:
        """Return the questions by the name of their document."""
        return {
            "events": self._events,
            "objects": self._objects,
            "upgrade": self._upgrade,
            "matrix": self._matrix,
            "check": self._check,
        }

    def _context(self, query: Mapping[str, str]) -> ShownContext:
        """Return the context that a request names; the first one if it names none."""
        name = query.get("context") or next(iter(self.contexts))
        if name not in self.contexts:
            raise SpecError("ContextUnknown", f"context {name} is not on this page: add --context {name} to csctl ui")
        return self.contexts[name]

    async def _events(self, query: Mapping[str, str]) -> Manifest:
        """Return the newest events of the Cluster, its ClusterAddon and its release."""
        from clusterstacks.csctl.ui.page_server import cluster_key
        from clusterstacks.plan.clusters.recent_events import read_events

        client, key = self._context(query).client, cluster_key(query)
        named = ObjectQuery(CLUSTER_API_GROUP, CLUSTER_KIND, key.namespace, name=key.name)
        (cluster,) = await read_objects(client, named)
        events, notices = await read_events(client, cluster)
        shown = [event.document() for event in events[:SHOWN_EVENTS]]
        return {"events": shown, "more": len(events) - len(shown), "notices": notices}

    async def _objects(self, query: Mapping[str, str]) -> Manifest:
        """Return the delivered objects of the Cluster, with their health and differences."""
        from clusterstacks.csctl.ui.page_server import cluster_key
        from clusterstacks.csctl.verbs.cluster_drift import compare

        return objects_document(await compare(self._context(query).client, cluster_key(query), health=True))

    async def _upgrade(self, query: Mapping[str, str]) -> Manifest:
        """Return whether one write may change the Cluster to a target, and the plan."""
        from clusterstacks.csctl.ui.page_server import cluster_key
        from clusterstacks.model.names import parse_target

        shown, key, goal = self._context(query), cluster_key(query), parse_target(query.get("to", ""))
        context = await read_cluster_context(shown.client, key, None, goal)
        patch, decision = await decide(context, goal)
        # A search takes processor time: in a thread, the page goes on.
        searched = await asyncio.to_thread(search_live_plan, context, goal)
        plan: dict[str, Any] = (
            searched[1] if searched else {"steps": [], "refused": None, "warnings": context.hints(goal)}
        )
        document = decision_document(decision, patch, plan)
        commands = live_commands(shown.management, key)
        written = bool(patch) and decision.answer.allowed
        return {
            **document,
            "to": str(goal),
            "undecided": searched is None,
            "upgrade": running_upgrade(context, shown.management),
            "command": patch_command(shown.management, key, patch) if written else None,
            "steps": [{**step, "title": step_title(step), "commands": commands(step)} for step in document["steps"]],
        }

    async def _matrix(self, query: Mapping[str, str]) -> Manifest:
        """Return the matrix of the releases of the Cluster's stack, and the check of its own versions."""
        from clusterstacks.csctl.shared.compat_output import CheckedRelease, checked_document, matrix_document
        from clusterstacks.plan.compat.kubernetes import known_minors
        from clusterstacks.plan.compat.matrices import matrix, parts

        context = await self._read(query)
        candidates = sorted(context.world.candidates, key=lambda candidate: candidate.name)
        releases = [(str(candidate.name), candidate) for candidate in candidates]
        judges, kubernetes = context.judges(), context.cluster.kubernetes
        own = CheckedRelease("", kubernetes, parts(context.combination(), kubernetes, judges))
        tabulated = await asyncio.to_thread(matrix, releases, known_minors(), judges)
        return {**matrix_document(tabulated), "own": checked_document(own), "warnings": list(context.notices)}

    async def _check(self, query: Mapping[str, str]) -> Manifest:
        """Return the verdicts on a release with a Kubernetes minor, with their sources."""
        from clusterstacks.csctl.shared.compat_output import CheckedRelease, checked_document
        from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
        from clusterstacks.plan.compat.matrices import parts

        context = await self._read(query)
        release, minor = query.get("release", ""), KubernetesMinor.parse(query.get("kubernetes", ""))
        candidate = next((known for known in context.world.candidates if str(known.name) == release), None)
        if candidate is None:
            raise SpecError("TargetUnknown", "this release is not known (any more)")
        made_for = candidate.kubernetes
        same = (made_for.major, made_for.minor) == (minor.major, minor.minor)
        version = made_for if same else KubernetesVersion.parse(f"v{minor}.0")
        return checked_document(CheckedRelease(release, version, parts(candidate, version, context.judges())))

    async def _read(self, query: Mapping[str, str]) -> UpgradeContext:
        from clusterstacks.csctl.ui.page_server import cluster_key

        return await read_cluster_context(self._context(query).client, cluster_key(query), None)


def objects_document(compared: Compared) -> Manifest:
    """Return the delivered objects by addon or sync, each with what is not well; never values of fields."""
    drifted = {found.object.id: found.object for found in compared.drifted}
    unhealthy = {one.id: one for one in compared.unhealthy}
    owners: dict[str, list[Manifest]] = defaultdict(list)
    for identity, owner in sorted(compared.objects.items()):
        differs, ill = drifted.get(identity), unhealthy.get(identity)
        failed = differs is not None or (ill is not None and ill.health.state is HealthState.FAILED)
        state = NodeState.FAILED if failed else NodeState.WORKING if ill else NodeState.DONE
        owners[owner].append(
            {
                "title": str(identity),
                "state": state.value,
                "health": str(ill).removeprefix(f"{identity}: ") if ill else "",
                "change": differs.change if differs else "",
                "fields": [str(field) for field in differs.fields] if differs else [],
                "error": differs.error if differs else "",
            }
        )
    return {"owners": [{"name": name, "objects": owners[name]} for name in sorted(owners)], "warnings": compared.lost}
