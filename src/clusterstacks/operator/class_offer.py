"""Decides whether a Cluster may use a release, for admission, for what a ClusterStack creates, and for deletions."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import ObjectKey

SIMILAR_SHOWN: Final = 3
SIMILARITY: Final = 0.85
"""Number and least similarity (0 to 1) of classes that a user may have meant. Arbitrary: one or two letters differ."""

NAMES_SHOWN: Final = 5
"""Offered releases that a message names, the newest ones. Arbitrary."""


class OfferState(StrEnum):
    """Result of ``decide_offer``."""

    OFFERED = "offered"
    PENDING = "pending"
    """No ClusterStack offers it yet, but one may: there is none of the series, or its source was not listed yet."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ReleaseUse:
    """A Cluster uses a release: for its class or, by annotation, for addons."""

    cluster: ObjectKey
    namespace: str
    """Namespace of the release and of the class, which may differ from that of the Cluster."""
    release: ReleaseName
    is_class: bool = True
    """True if the class of the Cluster comes from it."""


@dataclass(frozen=True, slots=True)
class StackOffer:
    """The releases that a ClusterStack offers to one namespace."""

    stack: ObjectKey
    provider: str
    admits: bool = False
    """True if ``spec.clusterNamespaces`` includes the namespace."""
    releases: frozenset[ReleaseName] = frozenset()
    """Releases that ``spec.versions`` names, that its source lists while it subscribes, or that exist."""
    is_listed: bool = True
    """False while its source was not listed yet, so that ``releases`` may be incomplete."""
    problem: str = ""
    """Why its spec cannot be read; then it offers nothing."""

    @property
    def title(self) -> str:
        """Name of the ClusterStack in messages."""
        return f"ClusterStack {self.stack} (provider {self.provider})"


@dataclass(frozen=True, slots=True)
class OfferDecision:
    """The state of an offer, and the message for the user of the Cluster unless the release is offered."""

    state: OfferState
    message: str = ""


OFFERED: Final = OfferDecision(OfferState.OFFERED)


def decide_offer(
    use: ReleaseUse, stacks: Sequence[StackOffer], *, is_unowned: bool = False, similar: Sequence[str] = ()
) -> OfferDecision:
    """Decide whether a Cluster may use a release, unless it was admitted with this class before.

    ``stacks`` are those in the namespace of the class that have the provider, name and Kubernetes minor of the release,
    or that own it. ``is_unowned`` says that the release exists without a ClusterStack: an administrator created it.
    ``similar`` are classes with similar names that the Cluster may use.
    """
    admitting = [stack for stack in stacks if stack.admits]
    if any(use.release in stack.releases for stack in admitting):
        return OFFERED
    if not stacks:
        return OFFERED if is_unowned else OfferDecision(OfferState.PENDING, _without_stack(use, similar))
    if unread := [stack for stack in admitting if not stack.is_listed]:
        return OfferDecision(OfferState.PENDING, _unlisted(use, unread[0]))
    return OfferDecision(OfferState.REFUSED, _refusal(use, stacks, admitting))


def similar_classes(release: ReleaseName, known: Iterable[ReleaseName]) -> list[ReleaseName]:
    """Return the releases whose classes a user may have meant, the most similar name first."""
    classes = {name.class_name: name for name in known if name != release}
    return [classes[near] for near in get_close_matches(release.class_name, classes, SIMILAR_SHOWN, SIMILARITY)]


def _without_stack(use: ReleaseUse, similar: Sequence[str]) -> str:
    release = use.release
    meant = f"; did you mean {' or '.join(similar)}?" if similar else ""
    return (
        f"no ClusterStack of namespace {use.namespace} offers {_what(use)} yet, so nothing is created for Cluster "
        f"{use.cluster}: create a ClusterStack there for provider {release.provider}, name {release.stack} and "
        f"Kubernetes {release.kubernetes}, or name another one{meant}"
    )


def _unlisted(use: ReleaseUse, stack: StackOffer) -> str:
    return (
        f"it is not known yet whether {stack.title} offers {_what(use)}, so nothing is created for Cluster "
        f"{use.cluster}: wait until its source is listed; its condition ReleasesSynced reports errors"
    )


def _refusal(use: ReleaseUse, stacks: Sequence[StackOffer], admitting: Sequence[StackOffer]) -> str:
    if problems := [stack.problem for stack in stacks if stack.problem]:
        return problems[0]
    refused = f"{_what(use)} is not offered to namespace {use.cluster.namespace}"
    instead = "use another class" if use.is_class else "name another release"
    administrators = f"ask the administrators of namespace {use.namespace}"
    if not admitting:
        return (
            f"{refused}: spec.clusterNamespaces of its ClusterStack does not include it; {instead}, or "
            f"{administrators} to include it"
        )
    offered = sorted({release for stack in admitting for release in stack.releases}, reverse=True)
    names = [release.class_name if use.is_class else release.release for release in offered[:NAMES_SHOWN]]
    more = f" and {len(offered) - NAMES_SHOWN} more" if len(offered) > NAMES_SHOWN else ""
    return (
        f"{refused}: {admitting[0].title} offers {', '.join(names) + more or 'no release yet'}; {instead}, or "
        f"{administrators} to add {use.release.version} to its spec.versions"
    )


def _what(use: ReleaseUse) -> str:
    if use.is_class:
        return f"class {use.namespace}/{use.release.class_name}"
    return f"release {use.namespace}/{use.release}, which an annotation names,"
