"""Tables of ``csctl get``: the columns of each kind, and their cells as functions of the objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.api.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, READY_CONDITION, AddonCondition, Kind
from clusterstacks.clusters.cluster_summary import addons_by_cluster, summarize
from clusterstacks.domain.conditions import Condition, from_documents
from clusterstacks.domain.documents import mapping, text
from clusterstacks.domain.objects import age

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from clusterstacks.domain.objects import Manifest

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectTable:
    """A kind that ``csctl get`` prints.

    Args:
        group: Its API group.
        kind: Its kind.
        names: The words for it on the command line; the first one is in the documentation.
        columns: The header after the namespace.
        wide: Further columns of ``-o wide``.
        row: Returns the cells of an object, all columns; the addons are the ClusterAddons by namespace and name of
            their Cluster, only for Clusters.
    """

    group: str
    kind: str
    names: tuple[str, ...]
    columns: Row
    wide: Row
    row: Callable[[Manifest, Mapping[tuple[str, str], Manifest], datetime], Row]

    @property
    def has_addons(self) -> bool:
        """True if the rows also need the ClusterAddons."""
        return self.kind == CLUSTER_KIND

    def header(self, *, wide: bool, namespaces: bool) -> Row:
        """Return the header."""
        return (*(("NAMESPACE",) if namespaces else ()), *self.columns, *(self.wide if wide else ()))

    def rows(
        self, objects: Sequence[Manifest], addons: Sequence[Manifest], now: datetime, *, wide: bool, namespaces: bool
    ) -> list[Row]:
        """Return one row for each object."""
        known = addons_by_cluster(addons)
        shown = len(self.columns) + (len(self.wide) if wide else 0)
        rows = []
        for one in objects:
            namespace = (text(one, "metadata", "namespace"),) if namespaces else ()
            rows.append((*namespace, *self.row(one, known, now)[:shown]))
        return rows


def _stack_row(stack: Manifest, _: Mapping[tuple[str, str], Manifest], now: datetime) -> Row:
    ready = _ready(stack)
    spec, status = mapping(stack, "spec"), mapping(stack, "status")
    return (
        text(stack, "metadata", "name"),
        ready.status,
        text(spec, "provider"),
        text(spec, "name"),
        text(spec, "kubernetesVersion"),
        text(status, "usableVersions"),
        text(status, "latestRelease").partition(" ")[0],
        ready.reason,
        age(text(stack, "metadata", "creationTimestamp"), now),
        text(spec, "channel"),
        "" if spec.get("autoSubscribe") is False else "yes",
        _line(ready.message),
    )


def _release_row(release: Manifest, _: Mapping[tuple[str, str], Manifest], now: datetime) -> Row:
    ready = _ready(release)
    return (
        text(release, "metadata", "name"),
        ready.status,
        text(release, "status", "kubernetesVersion"),
        ready.reason,
        age(text(release, "metadata", "creationTimestamp"), now),
        text(release, "status", "digest"),
        _line(ready.message),
    )


def _cluster_row(cluster: Manifest, addons: Mapping[tuple[str, str], Manifest], now: datetime) -> Row:
    key = text(cluster, "metadata", "namespace"), text(cluster, "metadata", "name")
    summary = summarize(cluster, addons.get(key))
    concern = summary.concern
    return (
        summary.key.name,
        summary.ready.status if summary.of_cluster_stack else "",
        summary.class_name,
        summary.release_change,
        summary.kubernetes_change,
        str(summary.stage),
        concern.reason if summary.of_cluster_stack else "",
        age(summary.created, now),
        *(_status(summary.conditions, kind) for kind in (AddonCondition.HEALTHY, AddonCondition.IN_SYNC)),
        _status(summary.conditions, AddonCondition.WITHIN_RANGES),
        _line(concern.message) if summary.of_cluster_stack else "",
    )


def _addon_row(addon: Manifest, _: Mapping[tuple[str, str], Manifest], now: datetime) -> Row:
    name = text(addon, "spec", "clusterRef", "name")
    cluster = {"metadata": {"name": name, "namespace": text(addon, "metadata", "namespace")}}
    summary = summarize(cluster, addon)
    ready, concern = _ready(addon), summary.concern
    count = f"{_count(len(summary.addons), 'addon')}, {_count(summary.objects, 'object')}"
    return (
        text(addon, "metadata", "name"),
        ready.status,
        name,
        summary.delivered,
        count if summary.addons else "",
        *(_status(summary.conditions, kind) for kind in (AddonCondition.HEALTHY, AddonCondition.IN_SYNC)),
        str(summary.stage),
        concern.reason,
        age(text(addon, "metadata", "creationTimestamp"), now),
        ", ".join(f"{addon_} {version}".rstrip() for addon_, version in summary.addons),
        _line(concern.message),
    )


def _ready(manifest: Manifest) -> Condition:
    conditions = from_documents(mapping(manifest, "status").get("conditions"))
    return next((one for one in conditions if one.type == READY_CONDITION), Condition(READY_CONDITION, "Unknown"))


def _status(conditions: Mapping[str, Condition], kind: str) -> str:
    return conditions[kind].status if kind in conditions else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _line(message: str) -> str:
    return " ".join(message.split())


TABLES: Final = (
    ObjectTable(
        group=GROUP,
        kind=Kind.CLUSTER_STACK,
        names=("stacks", "stack", "csk", "clusterstacks", "clusterstack"),
        columns=("NAME", "READY", "PROVIDER", "STACK", "KUBERNETES", "USABLE", "LATEST", "REASON", "AGE"),
        wide=("CHANNEL", "SUBSCRIBED", "MESSAGE"),
        row=_stack_row,
    ),
    ObjectTable(
        group=GROUP,
        kind=Kind.CLUSTER_STACK_RELEASE,
        names=("releases", "release", "cskr", "clusterstackreleases", "clusterstackrelease"),
        columns=("NAME", "READY", "KUBERNETES", "REASON", "AGE"),
        wide=("DIGEST", "MESSAGE"),
        row=_release_row,
    ),
    ObjectTable(
        group=CLUSTER_API_GROUP,
        kind=CLUSTER_KIND,
        names=("clusters", "cluster"),
        columns=("NAME", "READY", "CLASS", "RELEASE", "KUBERNETES", "STAGE", "REASON", "AGE"),
        wide=("HEALTHY", "IN SYNC", "WITHIN RANGES", "MESSAGE"),
        row=_cluster_row,
    ),
    ObjectTable(
        group=GROUP,
        kind=Kind.CLUSTER_ADDON,
        names=("addons", "addon", "caddon", "clusteraddons", "clusteraddon"),
        columns=("NAME", "READY", "CLUSTER", "CLASS", "OBJECTS", "HEALTHY", "IN SYNC", "STAGE", "REASON", "AGE"),
        wide=("ADDONS", "MESSAGE"),
        row=_addon_row,
    ),
)
"""The kinds of ``csctl get``."""
