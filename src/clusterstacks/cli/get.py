"""``csctl get``: list stacks, releases, clusters or addons of a management cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from clusterstacks.api.names import GROUP, Kind
from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.cluster_options import ListScope, ManagementCluster, complete_names, scope_options
from clusterstacks.cli.shared.management_objects import ObjectQuery, follow, read_all
from clusterstacks.cli.shared.object_tables import TABLES, ObjectTable
from clusterstacks.cli.shared.options import form_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from click.shell_completion import CompletionItem

    from clusterstacks.cli.shared.object_tables import Row
    from clusterstacks.domain.objects import Manifest

_BY_NAME: Final = {name: table for table in TABLES for name in table.names}


class TableName(click.ParamType[ObjectTable]):
    """Parameter type of the kind of ``csctl get``."""

    name = "KIND"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ObjectTable:  # noqa: ANN401 - click's signature
        """Find the table of a kind."""
        if isinstance(value, ObjectTable):
            return value
        found = _BY_NAME.get(str(value).lower())
        if found is None:
            *known, last = (table.names[0] for table in TABLES)
            self.fail(f"{value!r} is not a kind of cluster stacks (expected {', '.join(known)} or {last})", param, ctx)
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:  # noqa: ARG002 - click's signature
        """Complete the kinds."""
        from clusterstacks.cli.shared.name_completion import matching

        return matching((table.names[0] for table in TABLES), incomplete)


def _complete_name(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from clusterstacks.cli.shared.name_completion import objects

    table, namespace = context.params.get("table"), context.params.get("namespace")
    if table is None or context.params.get("all_namespaces"):
        return []
    return complete_names(
        context,
        incomplete,
        lambda client, management: objects(
            client, table.group, table.kind, namespace or management.connection().namespace
        ),
    )


@click.command(short_help="List stacks, releases, clusters or addons.")
@click.argument("table", metavar="stacks|releases|clusters|addons", type=TableName())
@click.argument("name", required=False, default="", shell_complete=_complete_name)
@scope_options
@form_option("table", "wide", "json", "yaml", "name")
@click.option("--watch", "-w", is_flag=True, help="Print each row again when it changes, until Ctrl-C.")
def get(
    table: ObjectTable, name: str, management: ManagementCluster, scope: ListScope, form: str, *, watch: bool
) -> None:
    """List ClusterStacks, ClusterStackReleases, Clusters or ClusterAddons.

    READY of a Cluster means that all addons of its class are delivered, and that Cluster API reports it as available.
    RELEASE and KUBERNETES show 'v1 → v2' while an upgrade is not complete. STAGE is the running stage and the number of
    stages. REASON names the first thing to look at, also if the Cluster is ready: 'csctl status' describes it.
    """
    if name and scope.labels:
        raise click.UsageError("NAME cannot be combined with --selector")
    if name and not scope.namespace:
        raise click.UsageError("NAME cannot be combined with --all-namespaces")
    if watch and form not in ("table", "wide"):
        raise click.UsageError(f"--watch cannot be combined with -o {form}")
    query = ObjectQuery(table.group, table.kind, scope.namespace, scope.labels, name)
    if watch:
        asyncio.run(_watch(management, _queries(table, query), _ChangedRows(table, query, wide=form == "wide")))
    elif form in ("table", "wide"):
        _print_table(table, query, asyncio.run(_read(management, _queries(table, query))), wide=form == "wide")
    else:
        (objects,) = asyncio.run(_read(management, [query]))
        _print_objects(objects, form, single=bool(name))


def _queries(table: ObjectTable, query: ObjectQuery) -> list[ObjectQuery]:
    """Return the query and, for Clusters, that of the ClusterAddons, which the user may not be allowed to read."""
    if not table.has_addons:
        return [query]
    missing = "stages and delivered releases are not shown"
    return [query, ObjectQuery(GROUP, Kind.CLUSTER_ADDON, query.namespace, consequence=missing)]


async def _read(management: ManagementCluster, queries: Sequence[ObjectQuery]) -> list[list[Manifest]]:
    async with management.connected() as client:
        return [found or [] for found in await read_all(client, queries)]


async def _watch(management: ManagementCluster, queries: Sequence[ObjectQuery], rows: _ChangedRows) -> None:
    async with management.connected() as client:
        await follow(client, queries, rows.show)


def _print_table(table: ObjectTable, query: ObjectQuery, found: Sequence[list[Manifest]], *, wide: bool) -> None:
    objects, addons = _split(found)
    if not objects:
        output.note(f"No {table.names[0]} found{f' in namespace {query.namespace}' if query.namespace else ''}.")
        return
    namespaces = not query.namespace
    rows = table.rows(objects, addons, datetime.now(UTC), wide=wide, namespaces=namespaces)
    output.print_table(table.header(wide=wide, namespaces=namespaces), rows)


def _print_objects(objects: list[Manifest], form: str, *, single: bool) -> None:
    if form == "name":
        for one in objects:
            group = one["apiVersion"].rpartition("/")[0]
            output.say(f"{one['kind'].lower()}.{group}/{one['metadata']['name']}")
        return
    output.print_document(objects[0] if single else {"apiVersion": "v1", "kind": "List", "items": objects}, form)


def _split(found: Sequence[list[Manifest]]) -> tuple[list[Manifest], list[Manifest]]:
    """Return the objects and the ClusterAddons."""
    return found[0], found[1] if len(found) > 1 else []


class _ChangedRows:
    """Prints a table, then each row that is new or changed, as ``kubectl get --watch`` does."""

    def __init__(self, table: ObjectTable, query: ObjectQuery, *, wide: bool) -> None:
        self._table = table
        self._wide = wide
        self._namespaces = not query.namespace
        self._age = table.columns.index("AGE") + self._namespaces
        self._widths: list[int] = []
        self._printed: dict[str, Row] = {}

    def show(self, found: Sequence[list[Manifest]]) -> None:
        """Print the rows of the objects, the first of the lists."""
        objects, addons = _split(found)
        rows = self._table.rows(objects, addons, datetime.now(UTC), wide=self._wide, namespaces=self._namespaces)
        if not self._widths:
            self._widths = output.print_table(self._table.header(wide=self._wide, namespaces=self._namespaces), rows)
        else:
            for one, row in zip(objects, rows, strict=True):
                if self._printed.get(one["metadata"]["uid"]) != self._without_age(row):
                    output.print_row(row, self._widths)
        self._printed = {one["metadata"]["uid"]: self._without_age(row) for one, row in zip(objects, rows, strict=True)}

    def _without_age(self, row: Row) -> Row:
        return (*row[: self._age], *row[self._age + 1 :])
