"""When the versions that Clusters use leave the support of their projects."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.model.documents import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import date

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.model.semver import SemVer
    from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
    from clusterstacks.plan.compat.world import Candidate

SOON_DAYS: Final = 60
"""Days before the end of support from which it is reported.

These are the last two months of a Kubernetes minor, its maintenance mode, in which it gets critical fixes only. Source:
https://kubernetes.io/releases/patch-releases/#support-period
"""

KUBERNETES: Final = "Kubernetes"


class SupportState(StrEnum):
    """Whether a version is supported by its project."""

    SUPPORTED = "Supported"
    ENDS_SOON = "SupportEndsSoon"
    ENDED = "SupportEnded"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True, order=True)
class SupportEnd:
    """The end of the support of a version, as its project states it."""

    day: date
    """The last day of support."""
    source: str
    """URL of the statement."""
    read: str
    """The day on which the source was read, or of its content."""

    def days(self, today: date) -> int:
        """Return the days that are left; negative after the end."""
        return (self.day - today).days

    def state(self, today: date) -> SupportState:
        """Return whether the version is supported."""
        left = self.days(today)
        if left < 0:
            return SupportState.ENDED
        return SupportState.ENDS_SOON if left <= SOON_DAYS else SupportState.SUPPORTED

    def dated(self, today: date) -> str:
        """Return in words when the support ends; they change only on the day after the end."""
        return f"{'left' if self.state(today) is SupportState.ENDED else 'leaves'} support on {self.day}"

    def told(self, today: date) -> str:
        """Return in words when the support ends, with the distance: ``leaves support on 2027-02-28 (in 30 days)``."""
        left = self.days(today)
        days = counted(abs(left), "day")
        return f"{self.dated(today)} ({f'in {days}' if left > 0 else f'{days} ago' if left else 'today'})"


@dataclass(frozen=True, slots=True)
class Uses:
    """The versions that one Cluster or release uses."""

    user: str
    """Its name."""
    kubernetes: KubernetesMinor | None
    """None if it is not known."""
    components: tuple[Component, ...] = ()
    """The components of its addons, as far as they are known."""


@dataclass(frozen=True, slots=True)
class VersionInUse:
    """A version, and those who use it."""

    name: str
    """:data:`KUBERNETES`, or the id of a component."""
    version: str
    """A Kubernetes minor, or the version of a component."""
    users: tuple[str, ...]
    end: SupportEnd | None = None
    """None if no fact is known."""

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {self.version}"

    def state(self, today: date) -> SupportState:
        """Return whether it is supported."""
        return self.end.state(today) if self.end is not None else SupportState.UNKNOWN

    def told(self, today: date) -> str:
        """Return in words when its support ends."""
        return f"{self.title} {self.end.told(today)}" if self.end is not None else f"{self.title}: no fact is known"

    def used(self, noun: str = "Cluster") -> str:
        """Return how many use it: ``7 Clusters``."""
        return counted(len(self.users), noun)

    def document(self, today: date) -> dict[str, Any]:
        """Return it as JSON."""
        end = self.end
        return {
            "name": self.name,
            "version": self.version,
            "state": self.state(today).value,
            "supportEnds": str(end.day) if end else None,
            "days": end.days(today) if end else None,
            "source": end.source if end else None,
            "read": end.read if end else None,
            "usedBy": list(self.users),
        }


def _nothing_known(name: str, version: SemVer) -> None:
    """Return no end of support of a component."""


def calendar(
    uses: Iterable[Uses],
    minors: Mapping[KubernetesMinor, SupportEnd],
    support_end: Callable[[str, SemVer], SupportEnd | None] = _nothing_known,
) -> list[VersionInUse]:
    """Return the versions in use, the first to leave support first, and those without a fact last.

    ``minors`` are the facts about Kubernetes; ``support_end`` returns those about a component, by id and version.
    """
    ends: dict[tuple[str, str], SupportEnd | None] = {}
    users = defaultdict[tuple[str, str], dict[str, None]](dict)
    for use in uses:
        if use.kubernetes is not None:
            place = KUBERNETES, str(use.kubernetes)
            ends[place] = minors.get(use.kubernetes)
            users[place][use.user] = None
        for component in use.components:
            place = component.name, component.text
            ends[place] = support_end(component.name, component.version)
            users[place][use.user] = None
    found = [VersionInUse(*place, tuple(users[place]), end) for place, end in ends.items()]
    return sorted(found, key=lambda one: (one.end is None, one.end.day.toordinal() if one.end else 0, one.title))


def supported_version(
    above: KubernetesMinor,
    candidates: Iterable[Candidate],
    minors: Mapping[KubernetesMinor, SupportEnd],
    today: date,
) -> KubernetesVersion | None:
    """Return the nearest version of a higher minor whose support does not end soon; None if no release has one."""
    offered = {version for one in candidates for version in (one.kubernetes, *one.class_versions)}
    fitting = {
        version
        for version in offered
        if version.series > above
        and (end := minors.get(version.series)) is not None
        and end.state(today) is SupportState.SUPPORTED
    }
    nearest = min((version.series for version in fitting), default=None)
    return max((version for version in fitting if version.series == nearest), default=None)
