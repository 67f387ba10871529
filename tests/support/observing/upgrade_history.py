"""The states of a cluster during its upgrades, from the audit logs of both API servers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.ranges import Range
from clusterstacks.model.versions import KubernetesVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.support.observing.request_audit import AuditedRequest

FOREVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Span:
    """The time in which a version may be in the cluster.

    Args:
        version: Of the control plane, or the minor of an addon's release.
        began: When the write that brings it reached the server.
        ended: When the write that replaces it was executed.
    """

    version: str
    began: datetime
    ended: datetime = FOREVER

    def overlaps(self, other: Span) -> bool:
        """Return whether both may be in the cluster at one moment."""
        return self.began < other.ended and other.began < self.ended


CLIENT_GONE = 504
"""Code of a request whose client was killed during it; the server executes it nevertheless, or not."""


def effective(requests: Iterable[AuditedRequest]) -> list[AuditedRequest]:
    """Return the writes that may have had an effect, in the order of their beginnings."""
    return sorted(
        (one for one in requests if (one.code < 300 or one.code == CLIENT_GONE) and not one.dry_run),
        key=lambda one: one.began,
    )


def control_plane_spans(management: Sequence[AuditedRequest], name: str) -> list[Span]:
    """Return the versions of a LocalControlPlane: from the order of Cluster API to the report of the next version."""
    orders = [
        (text(one.content, "spec", "version"), one.began)
        for one in management
        if one.kind == "localcontrolplanes" and one.name == name and text(one.content, "spec", "version")
    ]
    reports = [
        ({text(found, "version") for found in mappings(one.content, "status", "versions")}, one.ended)
        for one in management
        if one.kind == "localcontrolplanes/status" and one.name == name
    ]
    begun: dict[str, datetime] = {}
    for version, began in orders:
        begun.setdefault(version, began)
    ends = [min((at for seen, at in reports if seen == {version}), default=FOREVER) for version in [*begun][1:]]
    return [Span(*one, ended) for one, ended in zip(begun.items(), [*ends, FOREVER], strict=True)]


def contents(workload: Sequence[AuditedRequest], addon: str) -> list[tuple[dict[str, str], AuditedRequest]]:
    """Return the data of the ConfigMap of an addon with the first write of each; a repeated content once."""
    found: list[tuple[dict[str, str], AuditedRequest]] = []
    for one in workload:
        if one.kind != "configmaps" or one.name != addon or one.verb == "delete":
            continue
        data = mapping(one.content, "data")
        if data and (not found or found[-1][0] != data):
            found.append((data, one))
    return found


def addon_spans(workload: Sequence[AuditedRequest], addon: str) -> list[Span]:
    """Return the releases of an addon that were in the cluster."""
    first: dict[str, AuditedRequest] = {}
    for data, write in contents(workload, addon):
        first.setdefault(data["minor"], write)
    ends = [write.ended for write in first.values()][1:]
    return [
        Span(minor, write.began, ended)
        for (minor, write), ended in zip(first.items(), [*ends, FOREVER][: len(first)], strict=True)
    ]


def ranges_violated(
    control_plane: Sequence[Span], addons: dict[str, list[Span]], stated: Callable[[str, int], str]
) -> list[str]:
    """Describe each moment at which an addon was outside of its range.

    Args:
        control_plane: Its versions.
        addons: The releases of each addon.
        stated: Returns the range of an addon in the release for a minor.
    """
    found = []
    for addon, spans in addons.items():
        for span in spans:
            supported = stated(addon, int(span.version.split("-")[1]))
            for server in control_plane:
                version = KubernetesVersion.parse(server.version)
                if span.overlaps(server) and not Range.parse(supported).holds(
                    (version.major, version.minor, version.patch)
                ):
                    found.append(f"{addon} of {span.version} supports {supported} and met {server.version}: {span}")
    return found


def node_spans(workload: Iterable[AuditedRequest]) -> list[Span]:
    """Return the kubelet versions of all Nodes: from the first write that states one to the deletion of the Node."""
    begun: dict[str, Span] = {}
    for one in workload:
        version = text(one.content, "status", "nodeInfo", "kubeletVersion")
        if one.kind in {"nodes", "nodes/status"} and version:
            begun.setdefault(one.name or text(one.content, "metadata", "name"), Span(version, one.began))
        elif (one.kind, one.verb) == ("nodes", "delete") and one.name in begun:
            begun[one.name] = replace(begun[one.name], ended=one.ended)
    return [*begun.values()]


def skew_violated(control_plane: Sequence[Span], nodes: Sequence[Span]) -> list[str]:
    """Describe each moment at which a kubelet was newer than the API server, or more than three minors older.

    Source: https://kubernetes.io/releases/version-skew-policy/
    """
    return [
        f"a kubelet of {node.version} met an API server of {server.version}: {node}, {server}"
        for node in nodes
        for server in control_plane
        if node.overlaps(server) and not 0 <= _minor(server.version) - _minor(node.version) <= 3
    ]


def _minor(version: str) -> int:
    return KubernetesVersion.parse(version).minor
