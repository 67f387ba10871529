"""Leader election of the operator: its flags, its Lease, and the elector."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from clusterstacks.model.kinds.shards import MAIN_LEASE
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.operator.go_operator import boolean
from clusterstacks.runtime.leader_election import LeaderElector
from clusterstacks.runtime.leases import LeaseDurations

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from clusterstacks.net.kube.connection import Connection
    from clusterstacks.net.pool import Pool

DEFAULT_NAMESPACE: Final = "kube-system"
"""Namespace of the Lease if the operator does not run in a pod. Write access to it can stop the operator, so it is not
a namespace of tenants."""

ELECTION_BUDGET: Final = 2
"""Concurrent requests: a renewal, and one that timed out and is still being closed."""


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Namespace of the Lease, identity of this replica (empty: a random one), durations, and name of the Lease."""

    namespace: str
    identity: str = ""
    durations: LeaseDurations = field(default_factory=LeaseDurations)
    lease: str = MAIN_LEASE


def build_elector(
    settings: ElectionSettings, connection: Connection, pool: Pool, user_agent: str, report: Callable[[bool], None]
) -> LeaderElector:
    """Build the elector with a client of its own, so that a renewal does not wait for requests of controllers."""
    # One attempt, because the elector tries again. Each has half of the renew deadline, as is usual with client-go.
    client = Client(
        connection,
        pool,
        budget=ELECTION_BUDGET,
        deadline=timedelta(seconds=settings.durations.renew_deadline / 2),
        user_agent=f"{user_agent}/leader-election",
        retries=RetryPolicy(attempts=1),
    )
    lease = ObjectKey(settings.namespace, settings.lease)
    identity = settings.identity or f"{socket.gethostname()}_{uuid4()}"
    return LeaderElector(client, lease, identity, durations=settings.durations, report=report)


def add_election_options(parser: argparse.ArgumentParser) -> None:
    """Add the flags; the first two are the Go operator's."""
    add = parser.add_argument_group("leader election").add_argument
    add(
        "--leader-elect",
        type=boolean,
        nargs="?",
        const=True,
        default=True,
        metavar="true|false",
        help="write only while holding the Lease clusterstack.x-k8s.io (with --shard or --watch-filter its own one), "
        "so that only one of several replicas writes; with false run exactly one replica, and no shards",
    )
    add(
        "--leader-elect-namespace",
        default="",
        metavar="NAMESPACE",
        help=f"namespace of that Lease; default: the operator's own (--operator-namespace), then {DEFAULT_NAMESPACE}",
    )
    add(
        "--leader-elect-identity",
        default="",
        metavar="NAME",
        help="name of this replica in the Lease. A process with the same name gets the Lease back at once, so replicas "
        "must have different names. Default: the host name and a random part",
    )


def election_settings(flags: argparse.Namespace, own_namespace: str, lease: str) -> ElectionSettings | None:
    """Read the flags; None if every replica writes. ``own_namespace`` is empty where it is not known."""
    if not flags.leader_elect:
        return None
    namespace = flags.leader_elect_namespace or own_namespace or DEFAULT_NAMESPACE
    return ElectionSettings(namespace, flags.leader_elect_identity, lease=lease)
