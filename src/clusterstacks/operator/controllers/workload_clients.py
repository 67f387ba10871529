"""Connects to workload clusters with the kubeconfig Secrets that Cluster API publishes."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_NAME_LABEL,
    KUBECONFIG_KEY,
    KUBECONFIG_SUFFIX,
    Reason,
)
from clusterstacks.model.objects import ObjectKey, split_api_version
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_secret_kubeconfig
from clusterstacks.net.kube.limits import Bounds
from clusterstacks.net.pool import Pool
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.connection import Connection
    from clusterstacks.net.kube.write_gate import WriteGate

KUBECONFIG_TYPE = "cluster.x-k8s.io/secret"
"""Type of the Secrets that Cluster API writes. Source: sigs.k8s.io/cluster-api, api/core/v1beta2 ClusterSecretType."""

BUDGET = 16
"""Concurrent requests to one workload cluster, thus its connections. With 8, deliveries of 40 and 563 objects took a
quarter more time at the same CPU time; with 32 as long (benchmarks/deliveries.py with 563 objects)."""

READY_DEADLINE = timedelta(seconds=10)
"""Time limit of the readiness check. A frozen server occupies a worker for this time in each attempt, with back-off up
to 2 min in between: the default of 64 workers can handle some 800 such servers. Otherwise arbitrary."""


WORKLOAD_BOUNDS = Bounds(
    response_bytes=8 * 1024 * 1024,
    list_bytes=64 * 1024 * 1024,
    list_values=1_500_000,
    list_pages=200,
    list_time=timedelta(minutes=1),
    busy_time=timedelta(minutes=4),
)
"""Limits for responses of a workload cluster, whose owner controls them.

The largest responses are lists: of all CRDs (some 300, together 30 MB with 800,000 values), and of the metadata of
an addon's objects (thousands, of 200 values each). A value takes 30 bytes of memory and more. The busy time is that of
one reconcile: 2,000 objects of 1 s each, which is slow, take it. All are arbitrary beyond that.
"""

FREE_TIME = timedelta(seconds=60)
"""Busy time of a reconcile that causes no rest: most deliveries take less than 5 s. Arbitrary."""

REST_FACTOR = 4
"""Rest of a cluster after a reconcile longer than ``FREE_TIME``, as a multiple of its busy time: such a cluster
occupies a worker for a fifth of the time at most, and 64 workers can handle 300 of them. Arbitrary."""


def rest_after(busy: timedelta) -> timedelta:
    """Return the rest of a cluster after a reconcile whose requests took ``busy``."""
    return REST_FACTOR * busy if busy > FREE_TIME else timedelta()


class WorkloadNotReachable(DependencyError):
    """The workload cluster is not reachable (yet)."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.CONTROL_PLANE_NOT_READY, message)


class ClusterRests(WorkloadNotReachable):
    """The API server took too long for the previous requests, so there is no attempt for the time ``left``."""

    def __init__(self, cluster: ObjectKey, left: timedelta) -> None:
        super().__init__(
            f"the API server of Cluster {cluster} took longer than {FREE_TIME.total_seconds():g} s for the requests of "
            f"one reconcile, so the next attempt is in {left.total_seconds():.0f} s: check its load"
        )
        self.left = left


@dataclass(frozen=True, slots=True)
class _Connected:
    revision: str
    client: Client
    pool: Pool


class Workloads:
    """One client per workload cluster, replaced when its kubeconfig changes.

    The Secret ``<cluster>-kubeconfig`` is read at every call: certificates in it are renewed by the control plane
    provider, and a cache of Secrets would need the right to list all of them. Writes pass the ``gate``. Each client has
    its own pool, because the idle connections of one that is dropped take up to 300 KB each. ``is_ours`` says whether
    this instance of the operator is the one that may connect to a cluster.
    """

    def __init__(
        self,
        management: Client,
        gate: WriteGate | None = None,
        *,
        on_answer: Callable[[str, int], None] = lambda _method, _status: None,
        is_ours: Callable[[ObjectKey], bool] = lambda _: True,
    ) -> None:
        self._management = management
        self._is_ours = is_ours
        self._gate = gate
        self._on_answer = on_answer
        self._connected: dict[ObjectKey, _Connected] = {}
        self._rest_until: dict[ObjectKey, float] = {}

    async def connect(self, cluster: ObjectKey) -> Client:
        """Return a client for the cluster after its API server responded; call it once per reconcile.

        The client's requests may take ``WORKLOAD_BOUNDS.busy_time`` together until the next call.

        Raises:
            WorkloadNotReachable: There is no usable kubeconfig yet, the API server does not respond, or the cluster
                rests after a long reconcile.
            SpecError: The Secret is not marked as Cluster API's, or the kubeconfig uses a feature that is not allowed
                in a Secret.
        """
        self._check_rest(cluster)
        try:
            secret = await kubeconfig_secret(self._management, cluster)
        except WorkloadNotReachable:
            await self._disconnect(cluster)
            raise
        except SpecError:
            await self.forget(cluster)
            raise
        revision = f"{secret['metadata'].get('uid')}/{secret['metadata'].get('resourceVersion')}"
        known = self._connected.get(cluster)
        if known is not None and known.revision != revision:
            await self._disconnect(cluster)
            known = self._connected.get(cluster)  # of another task, which connected meanwhile
        if known is None:
            # Without an await before the client is known, which ``forget`` closes when the Cluster moves.
            if not self._is_ours(cluster):
                raise WorkloadNotReachable(f"Cluster {cluster} belongs to another shard of the operator")
            _, connection = usable_kubeconfig(secret)
            pool = Pool(on_answer=self._on_answer)
            client = Client(connection, pool, budget=BUDGET, bounds=WORKLOAD_BOUNDS, gate=self._gate)
            known = self._connected[cluster] = _Connected(revision, client, pool)
        try:
            async with asyncio.timeout(READY_DEADLINE.total_seconds()):
                await known.client.ready()
        except TimeoutError:
            raise _silent(cluster, f"/readyz takes longer than {READY_DEADLINE.total_seconds():g} s") from None
        except DependencyError as error:
            raise _silent(cluster, error.message) from error
        return known.client

    async def connect_again(self, cluster: ObjectKey) -> Client:
        """Return a client as ``connect``, without a request if there is one; its requests may fail."""
        known = self._connected.get(cluster)
        if known is None:
            return await self.connect(cluster)
        self._check_rest(cluster)
        return known.client

    async def forget(self, cluster: ObjectKey) -> None:
        """Close the connections of a cluster that was deleted or moved to another shard; running calls fail."""
        self._rest_until.pop(cluster, None)
        await self._disconnect(cluster)

    async def close(self) -> None:
        """Close the connections of all clusters."""
        for cluster in tuple(self._connected):
            await self.forget(cluster)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _disconnect(self, cluster: ObjectKey) -> None:
        known = self._connected.pop(cluster, None)
        if known is not None:
            await known.client.close()
            await known.pool.close()

    def _check_rest(self, cluster: ObjectKey) -> None:
        """Start to measure the requests of a reconcile, or raise ClusterRests while the previous ones require a rest.

        The rest belongs to the Cluster: a new kubeconfig does not end it, otherwise its writer could avoid the rest.
        """
        known = self._connected.get(cluster)
        if known is not None:
            busy = known.client.busy
            rest = rest_after(timedelta(seconds=busy.seconds))
            if rest:
                self._rest_until[cluster] = busy.ended + rest.total_seconds()
            busy.restart()
        remaining = self._rest_until.get(cluster, 0.0) - asyncio.get_running_loop().time()
        if remaining > 0:
            raise ClusterRests(cluster, timedelta(seconds=remaining))
        self._rest_until.pop(cluster, None)


async def kubeconfig_secret(management: Client, cluster: ObjectKey) -> Manifest:
    """Return the Secret with the kubeconfig of a workload cluster; raises as :meth:`Workloads.connect` about it."""
    name = ObjectKey(cluster.namespace, cluster.name + KUBECONFIG_SUFFIX)
    secrets = await management.resource("", "Secret")
    secret = await management.find(secrets, name.name, name.namespace)
    if secret is None:
        raise WorkloadNotReachable(
            f"Secret {name} does not exist yet: the control plane provider writes it when the API server is up"
        )
    if not is_cluster_apis(secret, cluster.name):
        raise SpecError("KubeconfigNotMarked", _unmarked(name, cluster))
    return secret


def usable_kubeconfig(secret: Manifest) -> tuple[bytes, Connection]:
    """Return the kubeconfig in a Secret, and its connection; raises as :meth:`Workloads.connect` about its content."""
    name = key_of(secret)
    content = _kubeconfig(secret, name)
    return content, parse_secret_kubeconfig(content, origin=f"Secret {name}")


def is_cluster_apis(secret: Manifest, cluster: str) -> bool:
    """Return whether a Secret is marked as Cluster API's Secret of a cluster.

    Cluster API itself sets type, label and owner. Some control plane providers set only the label or the owner, so one
    of the three is enough.
    """
    metadata = secret["metadata"]
    groups = {split_api_version(owner.get("apiVersion", ""))[0] for owner in metadata.get("ownerReferences") or []}
    return (
        secret.get("type") == KUBECONFIG_TYPE
        or (metadata.get("labels") or {}).get(CLUSTER_NAME_LABEL) == cluster
        or any(f".{group}".endswith(f".{CLUSTER_API_GROUP}") for group in groups)
    )


def _unmarked(secret: ObjectKey, cluster: ObjectKey) -> str:
    return (
        f"Secret {secret} is not used: it has neither the type {KUBECONFIG_TYPE}, nor the label "
        f"{CLUSTER_NAME_LABEL} of its Cluster, nor an owner of Cluster API; if it holds the kubeconfig of the Cluster, "
        f"run: kubectl --namespace {secret.namespace} label secret {secret.name} {CLUSTER_NAME_LABEL}={cluster.name}"
    )


def _silent(cluster: ObjectKey, cause: str) -> WorkloadNotReachable:
    return WorkloadNotReachable(
        f"the API server of Cluster {cluster} does not respond: {cause}; addons are delivered when it does"
    )


def _kubeconfig(secret: dict[str, object], name: ObjectKey) -> bytes:
    content = secret.get("data")
    encoded = content.get(KUBECONFIG_KEY) if isinstance(content, dict) else None
    try:
        return base64.b64decode(encoded or "", validate=True) if encoded else _missing(name)
    except binascii.Error as error:
        raise WorkloadNotReachable(f"Secret {name}: key 'value' is not base64") from error


def _missing(name: ObjectKey) -> bytes:
    raise WorkloadNotReachable(f"Secret {name} has no key 'value': the control plane provider has not filled it yet")
