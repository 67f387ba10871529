"""Shorter deadlines and back-offs for an operator between faults; what it decides is the same."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.model import drift_settings
from clusterstacks.net.kube import client as kube_client
from clusterstacks.net.kube.client import Client
from clusterstacks.operator import app
from clusterstacks.operator.controllers import addon_sweep, repair_pauses, workload_clients
from clusterstacks.runtime import informer, queue
from clusterstacks.runtime.backoff import BackOff
from clusterstacks.runtime.queue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.objects import ObjectKey

DEADLINE = timedelta(seconds=2)
"""Shorter than the faults that last, so that requests reach it."""
IDLE_TIMEOUT = timedelta(seconds=2.5)
BACK_OFF = BackOff(first=timedelta(milliseconds=50), limit=timedelta(seconds=1))
LONGEST_WAIT = timedelta(minutes=1)
"""Reconciles that are repeated later than this would hide that one was missed, so their delay is not shortened."""
SWEEP_INTERVAL = timedelta(seconds=1)
"""The shortest interval of a sweep, and the longest after a failure."""


def shorten(replace: Callable[[object, str, object], None] = setattr) -> None:
    """Shorten what operators of this process wait for; ``replace`` may be ``monkeypatch.setattr``."""
    client = partial(Client, deadline=DEADLINE)
    replace(kube_client, "IDLE_TIMEOUT", IDLE_TIMEOUT)
    replace(app, "Client", client)
    replace(workload_clients, "Client", client)
    replace(workload_clients, "READY_DEADLINE", DEADLINE)
    replace(queue, "FAILURES", BACK_OFF)
    replace(informer, "RETRIES", BACK_OFF)
    replace(drift_settings, "SHORTEST", SWEEP_INTERVAL)
    replace(addon_sweep, "UNREACHABLE_LIMIT", SWEEP_INTERVAL)
    replace(repair_pauses, "REPAIRS", BACK_OFF)
    add_after = WorkQueue.add_after

    def add_soon(work: WorkQueue[ObjectKey], key: ObjectKey, delay: timedelta) -> None:
        add_after(work, key, min(delay, BACK_OFF.limit) if delay < LONGEST_WAIT else delay)

    replace(WorkQueue, "add_after", add_soon)
