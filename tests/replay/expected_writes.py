"""The writes of a started operator to a management cluster that an earlier version left behind, with their reasons.

A write without an entry is an error, and so is an entry without a write. An entry about a patch names all fields that
the patch may contain. Workload clusters have no such list: nothing is written to them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import Kind
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.support import SupportState
from clusterstacks.plan.compat.support_facts import support_ends
from tests.support.servers.recorded_clusters import MANAGEMENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from datetime import date

    from clusterstacks.model.objects import Manifest
    from tests.support.observing.request_audit import AuditedRequest
    from tests.support.running.replayed_operator import Writes

SHOWN: Final = 20
"""Writes in the message of a failure."""


@dataclass(frozen=True, slots=True)
class ExpectedWrite:
    """A write to the management cluster.

    Args:
        verb: As in ``AuditedRequest``.
        kind: Plural, with the subresource after a slash.
        name: ``<namespace>/<name>``, or the name of a cluster-wide object; empty for each object of the kind.
        reason: Why the cluster does not have what is written.
        fields: The fields that a patch may contain, as ``status.ready``; empty for a whole object.
    """

    verb: str
    kind: str
    name: str
    reason: str
    fields: frozenset[str] = frozenset()

    def covers(self, write: AuditedRequest) -> bool:
        """Return whether this is the write."""
        same = (self.verb, self.kind) == (write.verb, write.kind) and self.name in {"", name_of(write)}
        return same and (not self.fields or sent_fields(write.content) <= self.fields)


AT_START: Final = (
    ExpectedWrite("create", "leases", "default/clusterstack.x-k8s.io", "the Lease of the leader is not recorded"),
    ExpectedWrite("patch", "leases", "default/clusterstack.x-k8s.io", "the leader renews its Lease"),
    ExpectedWrite(
        "create",
        "secrets",
        "kube-system/cluster-stack-operator-webhook",
        "the certificate of the webhooks is not recorded, because it has a private key",
    ),
    ExpectedWrite(
        "create",
        "secrets",
        "kube-system/cluster-stack-operator-node-images",
        "the key of the addresses of node images is not recorded, because whoever has it can read them",
    ),
    ExpectedWrite(
        "apply",
        "validatingwebhookconfigurations",
        "cluster-stack-operator",
        "the configuration is not recorded, because it has the address and the certificate of the webhooks",
    ),
)
"""Writes until all delivered objects were compared."""

AT_FIRST_START: Final = {
    "0.1.0": (
        ExpectedWrite(
            "patch",
            "clusteraddons/status",
            "",
            "the version did not record the uid of the Cluster that was admitted (SEC-28)",
            frozenset({"status.admitted"}),
        ),
    ),
}
"""Further writes until then, after an upgrade from a version."""


def at_first_start(version: str, addons: Iterable[Manifest], today: date) -> tuple[ExpectedWrite, ...]:
    """Return the further writes after an upgrade from a version, with the ClusterAddons as they are afterwards.

    From 60 days before the end of support of a recorded Kubernetes minor on, which depends on the day of the test,
    ClusterAddons also get the condition KubernetesSupported.
    """
    minors = {KubernetesVersion.parse(text(one, "status", "observedKubernetesVersion")).series for one in addons}
    expected = AT_FIRST_START.get(version, ())
    if all(support_ends()[minor].state(today) is SupportState.SUPPORTED for minor in minors):
        return expected
    status = next((one for one in expected if one.kind == "clusteraddons/status"), None)
    others = tuple(one for one in expected if one is not status)
    fields = status.fields if status is not None else frozenset()
    reason = "a recorded Kubernetes minor has left support, or leaves it soon"
    condition = frozenset({"status.conditions", *fields})
    return (*others, ExpectedWrite("patch", "clusteraddons/status", "", reason, condition))


AT_REQUEST: Final = (
    ExpectedWrite("patch", "leases", "default/clusterstack.x-k8s.io", "the leader renews its Lease"),
    ExpectedWrite(
        "patch",
        "clusteraddons/status",
        "",
        "the request is an annotation, which values templates can read: the addons are checked against their delivery "
        "records, everything is compared, and the status says that the request was handled; it also gets the digests "
        "of the records' inputs",
        frozenset({"status.observedInputs", "status.lastHandledReconcileAt", "status.addons"}),
    ),
)
"""Writes after the test, as a user, requested a comparison."""

AT_REQUEST_WITH_SYNCS: Final = ExpectedWrite(
    "patch",
    "clusterresourcesyncbindings/status",
    "",
    "the status of a binding says that the request was handled, as that of a ClusterAddon",
    frozenset({"status.lastHandledReconcileAt"}),
)


def at_request(objects: Iterable[Manifest]) -> tuple[ExpectedWrite, ...]:
    """Return the writes after a request, with the objects of our kinds."""
    has_syncs = any(one["kind"] == Kind.CLUSTER_RESOURCE_SYNC_BINDING for one in objects)
    return (*AT_REQUEST, AT_REQUEST_WITH_SYNCS) if has_syncs else AT_REQUEST


def refuse_unexpected(version: str, writes: Writes, expected: Collection[ExpectedWrite]) -> None:
    """Fail on any write to a workload cluster, and if those to the management cluster are not exactly the entries."""
    unexpected = [
        f"{describe(write)} in {cluster}"
        for cluster in sorted(writes, key=lambda name: name == MANAGEMENT)  # workload clusters first
        for write in writes[cluster]
        if cluster != MANAGEMENT or not any(one.covers(write) for one in expected)
    ]
    first = "\n  ".join(unexpected[:SHOWN])
    assert not unexpected, f"{len(unexpected)} writes to the clusters that {version} left behind, the first:\n  {first}"
    needless = [one for one in expected if not any(map(one.covers, writes[MANAGEMENT]))]
    assert not needless, f"nothing writes this, remove the entries: {needless}"


def describe(write: AuditedRequest) -> str:
    """Describe a write, for example ``patch clusters/status default/one (status.conditions)``."""
    fields = f" ({', '.join(sorted(sent_fields(write.content)))})" if write.verb == "patch" else ""
    return f"{write} {name_of(write)}{fields}"


def name_of(write: AuditedRequest) -> str:
    """Return the namespace and name of the object of a write."""
    return "/".join(filter(None, (write.namespace, write.name)))


def sent_fields(content: Manifest | list[Manifest]) -> frozenset[str]:
    """Return the first two levels of the fields of a patch, without the resourceVersion that guards it.

    Of a JSON patch, the paths are returned that it changes.
    """
    if isinstance(content, list):
        return frozenset(str(operation["path"]) for operation in content if operation["op"] != "test")
    return frozenset(_fields(content)) - {"metadata.resourceVersion"}


def _fields(content: Manifest) -> Iterator[str]:
    for part, value in content.items():
        if isinstance(value, dict):
            yield from (f"{part}.{field}" for field in value)
        else:
            yield part
