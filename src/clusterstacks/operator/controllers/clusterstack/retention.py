"""Decides which releases of a cluster stack are created, kept and deleted, with the reasons.

Names are compared as values, on every channel. A failed listing deletes nothing. A Cluster keeps the releases that it
names, but only a Cluster that may use a release has it created (again).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from clusterstacks.model.documents import counted
from clusterstacks.model.names import InvalidName, ReleaseName, parse_class, release_named

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from clusterstacks.model.versions import KubernetesMinor, StackVersion

LATEST = "latest"
LAST_READY = "last ready"
WANTED = "wanted in spec"
FOREIGN = "not a release of this cluster stack"
UNKNOWN_SOURCE = "the releases could not be listed"
NOT_NEEDED = "no longer needed"
CANDIDATE = "may pass its stages"

MAX_CANDIDATES = 5
"""Releases that wait for stages at a time, the newest ones (arbitrary: each is downloaded)."""


class ReleaseAction(StrEnum):
    """Action on a ClusterStackRelease."""

    CREATE = "create"
    KEEP = "keep"
    DELETE = "delete"
    LEAVING = "leaving"
    """It is being deleted; if it is needed, it is created again afterwards."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """The releases that the spec of a ClusterStack selects."""

    provider: str
    stack: str
    kubernetes: KubernetesMinor
    channel: str
    """The channel that ``auto_subscribe`` follows."""
    versions: tuple[StackVersion, ...] = ()
    """Versions named in the spec, of any channel."""
    auto_subscribe: bool = True
    staged: bool = False
    """Whether releases are offered only after stages have passed them: then any of the newer ones may be the next."""

    def release(self, version: StackVersion) -> ReleaseName:
        """Return the name of a release; InvalidName if provider or stack cannot be part of a name."""
        return ReleaseName(self.provider, self.stack, self.kubernetes, version)

    def holds(self, name: ReleaseName) -> bool:
        """Return whether the release belongs to this stack and minor, on any channel."""
        return name == self.release(name.version)


@dataclass(frozen=True, slots=True)
class ExistingRelease:
    """A ClusterStackRelease that the ClusterStack owns."""

    name: str
    ready: bool = False
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Retained:
    """The decision on one release."""

    name: str
    release: ReleaseName | None
    """The parsed name; None for a foreign one."""
    action: ReleaseAction
    reasons: tuple[str, ...]
    """The reasons, for users; empty only for a release that is being deleted and not needed."""


@dataclass(frozen=True, slots=True)
class Retention:
    """The decision on all releases of a ClusterStack."""

    decisions: tuple[Retained, ...]
    """One per release that exists or is needed, sorted by version; foreign ones last, by name."""
    latest: ReleaseName | None
    """The newest listed release of the channel; None without ``auto_subscribe``, when none matches and when the listing
    failed."""
    latest_ready: ReleaseName | None
    """The release new clusters can use, see :func:`decide_retention`."""
    usable: tuple[StackVersion, ...]
    """Versions of all ready releases that stay."""
    foreign: int
    """Number of listed names that do not belong to this stack."""

    def doing(self, action: ReleaseAction) -> tuple[Retained, ...]:
        """Return the decisions with this action, sorted by version."""
        return tuple(decision for decision in self.decisions if decision.action is action)


def decide_retention(
    subscription: Subscription,
    *,
    listed: Iterable[str] | None,
    existing: Iterable[ExistingRelease],
    classes_in_use: Iterable[str],
    addons_in_use: Iterable[str] = (),
    granted: Collection[ReleaseName] = (),
) -> Retention:
    """Decide which releases to create, keep and delete.

    A release is needed when it is the latest of the channel, the last ready one, wanted in the spec or used by a
    cluster. The last ready one is the newest of the channel; if the channel has none, a wanted one, then the newest of
    any other channel. Releases of other stacks are never changed.

    Args:
        listed: Names of all releases of the source, foreign ones included; None when the listing failed: then nothing
            is deleted, as the latest one is unknown. Only read with ``auto_subscribe``.
        existing: The ClusterStackReleases the ClusterStack owns.
        classes_in_use: The class of every Cluster of a class in this namespace, one per Cluster; foreign ones are
            ignored.
        addons_in_use: Releases that Clusters request addons from.
        granted: The releases in use that a Cluster may use. Others are kept if they exist, and never created: users who
            write a Cluster do not decide which releases are offered.
    """
    own, unknown = _own_and_foreign(subscription, existing)
    following = subscription.auto_subscribe
    names, foreign = _listed(subscription, (listed or ()) if following else ())
    latest = max((name for name in names if name.version.channel == subscription.channel), default=None)
    latest_ready = _last_ready(subscription, own)
    reasons = _reasons(subscription, latest, latest_ready)
    for name in _candidates(subscription, names, latest_ready) if subscription.staged else ():
        reasons.setdefault(name, []).append(CANDIDATE)
    uses = (
        ("in use", _class_uses(subscription, classes_in_use)),
        ("addons in use", _addon_uses(subscription, addons_in_use)),
    )
    for what, used in uses:
        for name, clusters in used.items():
            if name in own or name in granted:
                reasons.setdefault(name, []).append(f"{what} by {counted(clusters, 'cluster')}")
    # Without a listing any release may be the latest, so existing releases are kept.
    spare = (UNKNOWN_SOURCE,) if following and listed is None else ()
    decisions = [_decision(name, own.get(name), reasons.get(name, []), spare) for name in sorted({*own, *reasons})]
    decisions += [Retained(name, None, ReleaseAction.KEEP, (FOREIGN,)) for name in sorted(unknown)]
    kept = {decision.release for decision in decisions if decision.action is ReleaseAction.KEEP}
    usable = sorted(name.version for name, release in own.items() if release.ready and name in kept)
    return Retention(tuple(decisions), latest, latest_ready, tuple(usable), foreign)


def _own(subscription: Subscription, text: str) -> ReleaseName | None:
    name = release_named(text)
    # v1-stable.3 is parsed as v1: only our own spelling is the name of our object.
    return name if name is not None and subscription.holds(name) and name.release == text else None


def _own_and_foreign(
    subscription: Subscription, existing: Iterable[ExistingRelease]
) -> tuple[dict[ReleaseName, ExistingRelease], set[str]]:
    own: dict[ReleaseName, ExistingRelease] = {}
    unknown: set[str] = set()
    for release in existing:
        name = _own(subscription, release.name)
        if name is None:
            unknown.add(release.name)
        else:
            own[name] = release
    return own, unknown


def _listed(subscription: Subscription, listed: Iterable[str]) -> tuple[set[ReleaseName], int]:
    names = [_own(subscription, text) for text in set(listed)]
    return {name for name in names if name is not None}, names.count(None)


def _last_ready(subscription: Subscription, own: dict[ReleaseName, ExistingRelease]) -> ReleaseName | None:
    ready = [name for name, release in own.items() if release.ready and not release.deleting]
    wanted = set(subscription.versions)

    def preference(name: ReleaseName) -> tuple[bool, bool, StackVersion]:
        followed = name.version.channel == subscription.channel
        return followed, not followed and name.version in wanted, name.version

    return max(ready, key=preference, default=None)


def _candidates(
    subscription: Subscription, names: Iterable[ReleaseName], latest_ready: ReleaseName | None
) -> list[ReleaseName]:
    """Return the newest releases of the channel that are newer than the last ready one, without the very latest."""
    channel = sorted((name for name in names if name.version.channel == subscription.channel), reverse=True)
    followed = latest_ready is not None and latest_ready.version.channel == subscription.channel
    return [name for name in channel[1:MAX_CANDIDATES] if not followed or latest_ready is None or name > latest_ready]


def _reasons(
    subscription: Subscription,
    latest: ReleaseName | None,
    latest_ready: ReleaseName | None,
) -> dict[ReleaseName, list[str]]:
    reasons: dict[ReleaseName, list[str]] = {}
    if latest is not None:
        reasons.setdefault(latest, []).append(LATEST)
    if latest_ready is not None:
        reasons.setdefault(latest_ready, []).append(LAST_READY)
    for version in dict.fromkeys(subscription.versions):
        reasons.setdefault(subscription.release(version), []).append(WANTED)
    return reasons


def _addon_uses(subscription: Subscription, releases: Iterable[str]) -> Counter[ReleaseName]:
    named = [_own(subscription, text) for text in releases]
    return Counter(name for name in named if name is not None)


def _class_uses(subscription: Subscription, classes: Iterable[str]) -> Counter[ReleaseName]:
    uses: Counter[ReleaseName] = Counter()
    for text, clusters in Counter(classes).items():
        try:
            name = parse_class(text)
        except InvalidName:
            continue
        if subscription.holds(name):
            uses[name] += clusters
    return uses


def _decision(
    name: ReleaseName, existing: ExistingRelease | None, needed: list[str], spare: tuple[str, ...]
) -> Retained:
    reasons = tuple(needed)
    if existing is None:
        action = ReleaseAction.CREATE
    elif existing.deleting:
        action = ReleaseAction.LEAVING
    elif reasons or spare:
        action, reasons = ReleaseAction.KEEP, reasons or spare
    else:
        action, reasons = ReleaseAction.DELETE, (NOT_NEEDED,)
    return Retained(name.release, name, action, reasons)
