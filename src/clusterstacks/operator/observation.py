"""Observes what this version of the operator would write, beside the one that runs: its write gate stays closed."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.documents import counted, listed, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import READY_CONDITION, AddonCondition
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.write_gate import WriteGate
from clusterstacks.runtime.cache import key_of
from clusterstacks.runtime.clock import seconds_since_boot
from clusterstacks.runtime.log_format import reconciled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.runtime.cache import ObjectCache

QUIET_SECONDS: Final = 5.0
"""Time without work after which everything was looked at; longer than reports are held back (1 s) and than the first
two retries. Otherwise arbitrary."""

LOOK_SECONDS: Final = 0.5
"""Interval between two looks at whether there is work (arbitrary)."""

SHOWN: Final = 20
"""Writes and clusters that a message names (arbitrary); the endpoint has all."""

TERMINATION_LOG: Final = Path("/dev/termination-log")
"""File whose content becomes the message of a container that ended. Source: Pod v1, terminationMessagePath."""
TERMINATION_BYTES: Final = 4096
"""Limit of that message. Source: as above."""

WRITES: Final = 3
"""Exit code if something would be written, or a cluster could not be compared."""

log = logging.getLogger(__name__)


class ObservingGate(WriteGate):
    """Refuses every write, and keeps the first of each reconciled object: later ones only follow from it."""

    def __init__(self) -> None:
        super().__init__(seconds_since_boot)
        self.writes: dict[str, str] = {}
        """By controller and object, the first write, for example ``apply Secret kube-system/one``."""

    def check(self, about: str) -> None:
        """Raise DependencyError."""
        subject = reconciled() or "operator"
        if subject not in self.writes:
            self.writes[subject] = about
            log.warning("would write: %s", about)
        raise DependencyError("WriteRefused", f"{about}: this process only observes, so it writes nothing")


@dataclass(frozen=True, slots=True)
class Observed:
    """What would be written, and which clusters were compared.

    Args:
        writes: The first write by controller and object.
        clusters: Number of clusters that were compared.
        uncompared: Clusters about which nothing is known, with the reason.
    """

    writes: Mapping[str, str]
    clusters: int
    uncompared: Mapping[str, str]

    @property
    def exit_code(self) -> int:
        """0 if every cluster was compared and nothing would be written."""
        return WRITES if self.writes or self.uncompared else 0

    @property
    def message(self) -> str:
        """The result as text: a sentence, then a line for each write and each cluster that was not compared."""
        lines = [f"{subject}: {about}" for subject, about in sorted(self.writes.items())]
        lines += [f"Cluster {cluster} is not compared: {why}" for cluster, why in sorted(self.uncompared.items())]
        count = f"would write {counted(len(self.writes), 'object')} in {counted(self.clusters, 'cluster')}"
        if self.uncompared:
            count = f"{count}; {counted(len(self.uncompared), 'cluster')} could not be compared"
        more = [f"and {len(lines) - SHOWN} more"] if len(lines) > SHOWN else []
        return listed(count, [*lines[:SHOWN], *more])

    def document(self) -> dict[str, Any]:
        """Return the answer of the endpoint /observed."""
        return {
            "wouldWrite": [{"object": subject, "write": about} for subject, about in sorted(self.writes.items())],
            "clusters": self.clusters,
            "notCompared": [{"cluster": cluster, "reason": why} for cluster, why in sorted(self.uncompared.items())],
        }


@dataclass(frozen=True, slots=True)
class SweptKind:
    """The ClusterAddons, or the bindings of syncs: each belongs to a cluster that is compared.

    Args:
        objects: All of them.
        cluster: Field that names the Cluster of one.
        uncompared: Returns why the cluster of one is not compared; empty if it is, None if nothing compares it now.
    """

    objects: ObjectCache
    cluster: tuple[str, ...]
    uncompared: Callable[[ObjectKey], str | None]

    def states(self, written: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the Cluster of each object, and why it is not compared; empty if it is.

        ``written`` are the keys of objects with a write: a delivery that begins ends the comparison.
        """
        for manifest in self.objects.all():
            key = key_of(manifest)
            why = self.uncompared(key)
            if why is None:
                why = "" if str(key) in written else _reason(manifest)
            yield str(ObjectKey(key.namespace, text(manifest, *self.cluster))), why


def _reason(manifest: Manifest) -> str:
    """Return why nothing compares a cluster, as its object says."""
    paused, ready = (condition_view(manifest, name) for name in (AddonCondition.PAUSED, READY_CONDITION))
    return paused.message or (not ready.true and ready.message) or "its objects are not delivered completely"


@dataclass(frozen=True, slots=True)
class Observation:
    """Follows the controllers until they have looked at everything.

    Args:
        gate: The closed gate of all clients.
        swept: What is compared with delivery records.
        is_idle: Returns whether there is no work now.
    """

    gate: ObservingGate
    swept: Sequence[SweptKind]
    is_idle: Callable[[], bool]

    def observed(self) -> Observed:
        """Return what is known so far."""
        clusters: dict[str, str] = {}
        written = {subject.partition(" ")[2] for subject in self.gate.writes}
        for kind in self.swept:
            for cluster, why in kind.states(written):
                clusters[cluster] = clusters.get(cluster) or why
        left = {cluster: why for cluster, why in clusters.items() if why}
        return Observed(dict(self.gate.writes), len(clusters) - len(left), left)

    async def completed(self) -> Observed:
        """Wait until there was no work for ``QUIET_SECONDS``; return and log the result."""
        quiet = 0.0
        while quiet < QUIET_SECONDS:
            await asyncio.sleep(LOOK_SECONDS)
            quiet = quiet + LOOK_SECONDS if self.is_idle() else 0.0
        observed = self.observed()
        log.info("%s", observed.message)
        return observed

    async def run(self) -> None:
        """Log the result when it is complete, and wait until cancelled."""
        await self.completed()
        await asyncio.Event().wait()


def leave_message(message: str) -> None:
    """Leave a message for whoever reads the status of this container; outside of one, do nothing."""
    if TERMINATION_LOG.exists():
        TERMINATION_LOG.write_bytes(message.encode()[:TERMINATION_BYTES])
