"""Connections to workload clusters, made from the kubeconfig Secrets that Cluster API publishes."""

from __future__ import annotations

import asyncio
import base64
import binascii
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.names import KUBECONFIG_KEY, KUBECONFIG_SUFFIX, Reason
from clusterstacks.domain.errors import DependencyError
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.kube.client import Client
from clusterstacks.kube.kubeconfig import parse_secret_kubeconfig

if TYPE_CHECKING:
    from clusterstacks.kube.gate import WriteGate
    from clusterstacks.kube.transport import Pool

BUDGET = 8
"""Requests to one workload cluster at a time. More only cost handshakes: a delivery of 40 objects took as long with 16,
and a third more CPU (benchmarks/deliveries.py)."""

READY_DEADLINE = timedelta(seconds=10)
"""How long a server may take to say that it is ready. A frozen one holds a worker for so long at each attempt, with
back-off to 2 min in between: the default of 64 workers bears with some 800 of them. Arbitrary otherwise."""


class WorkloadNotReachable(DependencyError):
    """The workload cluster cannot be talked to (yet)."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.CONTROL_PLANE_NOT_READY, message)


@dataclass(frozen=True, slots=True)
class _Connected:
    revision: str
    client: Client


class Workloads:
    """One client per workload cluster, replaced when its kubeconfig changes.

    The Secret ``<cluster>-kubeconfig`` is read at every call: certificates in it are renewed by the control plane
    provider, and a cache of Secrets would need the right to list all of them. Writes pass the ``gate``.
    """

    def __init__(self, management: Client, pool: Pool, gate: WriteGate | None = None) -> None:
        self._management = management
        self._pool = pool
        self._gate = gate
        self._connected: dict[ObjectKey, _Connected] = {}

    async def connect(self, cluster: ObjectKey) -> Client:
        """Give a client for the cluster whose API server answers.

        Raises:
            WorkloadNotReachable: No usable kubeconfig yet, or the API server does not answer.
            SpecError: The kubeconfig asks for something that a kubeconfig from a Secret may not do.
        """
        name = ObjectKey(cluster.namespace, cluster.name + KUBECONFIG_SUFFIX)
        secrets = await self._management.resource("", "Secret")
        secret = await self._management.find(secrets, name.name, name.namespace)
        if secret is None:
            await self.forget(cluster)
            raise WorkloadNotReachable(
                f"Secret {name} does not exist yet: the control plane provider writes it when the API server is up"
            )
        revision = f"{secret['metadata'].get('uid')}/{secret['metadata'].get('resourceVersion')}"
        known = self._connected.get(cluster)
        if known is None or known.revision != revision:
            await self.forget(cluster)
            connection = parse_secret_kubeconfig(_kubeconfig(secret, name), origin=f"Secret {name}")
            known = _Connected(revision, Client(connection, self._pool, budget=BUDGET, gate=self._gate))
            self._connected[cluster] = known
        try:
            async with asyncio.timeout(READY_DEADLINE.total_seconds()):
                await known.client.ready()
        except TimeoutError:
            raise _silent(cluster, f"/readyz takes longer than {READY_DEADLINE.total_seconds():g} s") from None
        except DependencyError as error:
            raise _silent(cluster, error.message) from error
        return known.client

    async def forget(self, cluster: ObjectKey) -> None:
        """Drop the connection of a cluster that is gone or whose kubeconfig changed."""
        known = self._connected.pop(cluster, None)
        if known is not None:
            await known.client.close()

    async def close(self) -> None:
        """Drop all connections."""
        for cluster in tuple(self._connected):
            await self.forget(cluster)


def _silent(cluster: ObjectKey, cause: str) -> WorkloadNotReachable:
    return WorkloadNotReachable(
        f"the API server of Cluster {cluster} does not answer: {cause}; addons are delivered as soon as it does"
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
