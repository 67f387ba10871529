"""ClusterUpgrades as csctl writes them: from a selector, a target and a window on the command line."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterupgrade import LATEST, LATEST_PATCH, ClusterUpgrade
from clusterstacks.model.kinds.names import GROUP, Kind
from clusterstacks.model.names import parse_target

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.plan.planner.model_builder import Target

NAME_LENGTH: Final = 100
"""Longest name of a ClusterUpgrade of csctl (arbitrary: it stays readable); a digest replaces the rest."""

_WINDOW = re.compile(r"(?:(?P<days>\S+)\s+)?(?P<start>[0-9:]+)\+(?P<duration>\S+)(?:\s+(?P<zone>\S+))?")
_LABEL = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_./]*)=([-A-Za-z0-9_.]*)")


def parse_window(written: str) -> Manifest:
    """Return ``spec.window`` for a window as on the command line: ``Sat,Sun 02:00+4h Europe/Berlin``.

    Days and time zone may be missing. Their values are checked with the object.

    Raises:
        SpecError: It is written in another way.
    """
    found = _WINDOW.fullmatch(written.strip())
    if found is None:
        example = "expected days, start, duration and time zone, for example 'Sat,Sun 02:00+4h Europe/Berlin'"
        raise SpecError("InvalidWindow", f"window {shown(written)} is not understood ({example})")
    days, start, duration, zone = found.group("days", "start", "duration", "zone")
    window: Manifest = {"start": start, "duration": duration}
    return {**({"days": days.split(",")} if days else {}), **window, **({"timeZone": zone} if zone else {})}


def parse_labels(written: str) -> dict[str, str]:
    """Return the labels of ``ring=canary,team=a``.

    Raises:
        SpecError: A part is not understood.
    """
    labels = {}
    for part in written.split(","):
        found = _LABEL.fullmatch(part.strip())
        if found is None:
            problem = f"selector {shown(written)} has {shown(part)} (expected for example ring=canary,team=a)"
            raise SpecError("InvalidSelector", f"{problem}: for other selectors, write the ClusterUpgrade yourself")
        labels[found[1]] = found[2]
    return labels


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeRequest:
    """The upgrade of one Cluster by name, or of those that a selector selects."""

    namespace: str
    to: str
    cluster: str = ""
    labels: str = ""
    """Labels like ``ring=canary,team=a``, instead of a Cluster."""
    most: int | None = None
    """Clusters that are upgraded at a time; None for the default of the kind."""
    window: str = ""

    @property
    def target(self) -> Target | None:
        """The target; None for one that follows what the stack publishes.

        Raises:
            SpecError: It is neither a release nor a version.
        """
        return None if self.to in (LATEST, LATEST_PATCH) else parse_target(self.to)

    @property
    def name(self) -> str:
        """The name of the object: the same for the same Clusters and target, so that it is created once."""
        whole = f"{self.cluster or self.labels}-{self.to}"
        name = re.sub(r"[^a-z0-9.]+", "-", whole.lower()).strip("-.")
        if len(name) <= NAME_LENGTH and (self.cluster or re.fullmatch(r"[a-z0-9]+=[a-z0-9]+", self.labels)):
            return name
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        return f"{name[: NAME_LENGTH - 9].strip('-.')}-{digest}"

    def manifest(self) -> Manifest:
        """Return the object, which is checked as by the webhook of the operator.

        Raises:
            SpecError: Window, selector or target are not valid.
        """
        clusters: Manifest = {"names": [self.cluster]}
        if not self.cluster:
            clusters = {"selector": {"matchLabels": parse_labels(self.labels)}}
        spec: Manifest = {"clusters": clusters, "to": self.to}
        if self.most is not None:
            spec["maxConcurrent"] = self.most
        if self.window:
            spec["window"] = parse_window(self.window)
        manifest = {
            "apiVersion": f"{GROUP}/v1alpha1",
            "kind": Kind.CLUSTER_UPGRADE.value,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": spec,
        }
        ClusterUpgrade.parse(manifest).check()
        return manifest
