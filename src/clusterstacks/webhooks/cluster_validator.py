"""What is decided about a write of a Cluster, from what there is to know about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from clusterstacks.api.addon_annotations import (
    ADDON_ANNOTATION,
    MOST_RELEASES,
    NO_RELEASE,
    RELEASE_ANNOTATION,
    AddonReleaseRefused,
    read_wishes,
    without_effect,
)
from clusterstacks.api.clusterapi import cluster_view, topology_variables
from clusterstacks.api.compatibility_policy import ESCAPE_ANNOTATION, CompatibilityPolicy
from clusterstacks.compat.constraints import Judges, looks_at_circumstances
from clusterstacks.compat.rules.combination import Before, Setup
from clusterstacks.compat.rules.upgrades import other_stack
from clusterstacks.compat.world import Candidate
from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.domain.names import InvalidName, ReleaseName, parse_class
from clusterstacks.webhooks.answers import ALLOWED, AdmissionResponse, warned
from clusterstacks.webhooks.reviews import Operation
from clusterstacks.webhooks.rules.bundles import judge_bundle, judge_entry, judge_move_between
from clusterstacks.webhooks.rules.cluster_versions import (
    Decision,
    Unservable,
    Was,
    Write,
    decide,
    kubernetes_of,
    setup_of,
)
from clusterstacks.webhooks.rules.suggestions import RULES, combinations_of, look_for_a_way, releases_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.api.clusterapi import ClusterView
    from clusterstacks.compat.verdicts import Upstream
    from clusterstacks.domain.compatibility import Rule
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.webhooks.known_releases import ClassOffer, KnownReleases
    from clusterstacks.webhooks.reviews import Review


RETRY_SECONDS: Final = 10
"""When to try an update again whose facts are not known yet. Arbitrary: releases are downloaded within seconds."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A Cluster of a cluster stack, as it is written."""

    view: ClusterView
    release: ReleaseName
    variables: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """What decisions are made from.

    Args:
        offers: Knows the releases.
        counting: Returns the provider's rules for a Cluster, by the release of its class and its labels.
        upstream: What upstream projects state.
    """

    offers: KnownReleases
    counting: Callable[[ReleaseName, Mapping[str, str]], tuple[Rule, ...]]
    upstream: Upstream


@dataclass(frozen=True, slots=True)
class Case:
    """A write whose class states ranges: what a way out of its refusal is looked for in."""

    cluster: ObjectKey
    write: Write
    offer: ClassOffer
    judges: Judges


async def weigh(review: Review, known: Knowledge) -> tuple[Decision, Case | None]:
    """Decide on a write of a Cluster; the case is there where facts decided.

    Raises:
        ClusterStacksError: What is needed cannot be had.
    """
    new = _asked(review.new)
    if new is None or review.operation is Operation.DELETE:
        return Decision(ALLOWED), None
    old = _asked(review.old)
    if old is not None and _relevant(old) == _relevant(new):
        return await _of_circumstances(old, new, known)
    wanted, before = _named(new), _named(old) if old is not None else frozenset()
    if refusal := await _not_offered(new, old, wanted, before, known.offers):
        return Decision(AdmissionResponse(refusal), more=releases_of(new.view.class_namespace)), None
    offer = await known.offers.offer(new.view.class_namespace, new.release, (wanted | before) - {new.release})
    if offer is None or new.release not in offer.candidates:
        return Decision(_of_unknown(review, new, old, offer), more=releases_of(new.view.class_namespace)), None
    more = _more(new, old, offer)
    if offer.candidates[new.release].is_bundle:
        return Decision(_of_bundle(new, old, offer), more=more), None
    decision, case = _of_ranges(new, old, offer, known)
    return replace(decision, more=more), case


def _more(new: Asked, old: Asked | None, offer: ClassOffer) -> str:
    """Choose the command that tells more about a refusal for which no plan is looked for."""
    listing = releases_of(new.view.class_namespace)
    if old is None or other_stack(old.release, new.release):
        return listing
    version, before = kubernetes_of(new.view.version), kubernetes_of(old.view.version)
    if (new.release, new.view.version) == (old.release, old.view.version):
        return combinations_of(new.view.key)
    down = new.release.kubernetes < old.release.kubernetes or bool(version and before and version < before)
    exact = offer.candidates[new.release].is_bundle and new.view.version != offer.made_for
    if down or exact:
        return listing
    other_class = new.release != old.release
    return look_for_a_way(new.view.key, new.release if other_class or version is None else version)


async def annotation_warnings(review: Review, offers: KnownReleases) -> tuple[str, ...]:
    """Warn of the annotations about addons that a write adds or changes and that have no effect."""
    new = _asked(review.new)
    if new is None or review.operation is Operation.DELETE:
        return ()
    before = cluster_view(review.old).annotations if review.old else {}
    fresh = {key: value for key, value in new.view.annotations.items() if before.get(key) != value}
    unread = without_effect(fresh, ())
    if not unread and NO_RELEASE not in fresh.values():
        return ()
    try:
        offer = await offers.offer(new.view.class_namespace, new.release, _named(new) - {new.release})
    except ClusterStacksError:
        return tuple(unread)
    known = offer.candidates if offer is not None else {}
    stated = [known[release].compatibility for release in _named(new) if release in known]
    addons = {addon for one in stated if one is not None for addon in one.addons()}
    return tuple(without_effect(fresh, {*addons, *offers.delivered(new.view.key)}))


async def _not_offered(
    new: Asked, old: Asked | None, wanted: frozenset[ReleaseName], before: frozenset[ReleaseName], offers: KnownReleases
) -> str:
    """Say why the Cluster may not use what it newly asks for; what it had is not asked about."""
    if len(wanted | before) > MOST_RELEASES:
        return f"annotations name more than {MOST_RELEASES} releases for addons: name fewer"
    same_namespace = old is not None and old.view.class_namespace == new.view.class_namespace
    fresh = wanted - before if same_namespace else wanted
    return await offers.refused(new.view, fresh) if fresh else ""


def _of_unknown(review: Review, new: Asked, old: Asked | None, offer: ClassOffer | None) -> AdmissionResponse:
    """Answer where the facts of the class's release are not known yet.

    A new Cluster is let through, as Cluster and ClusterStack are often applied together, and a condition judges it
    later. An update has to wait: an upgrade that must not be cannot be undone.
    """
    if old is not None and (refusal := other_stack(old.release, new.release)):
        return AdmissionResponse(refusal)
    why = offer.lacking.get(new.release, "") if offer is not None else ""
    unknown = f"nothing is known of release {new.release} of class {new.view.class_key} yet"
    if review.operation is not Operation.UPDATE or offer is None or offer.policy is CompatibilityPolicy.PERMISSIVE:
        return warned(f"{unknown}, so this Cluster is let through without a look at its versions")
    refusal = f"{unknown}: {why}" if why else unknown
    if reason := new.view.annotations.get(ESCAPE_ANNOTATION, "").strip():
        let_through = f"allowed because of annotation {ESCAPE_ANNOTATION} ({reason})"
        return AdmissionResponse(warnings=(let_through, refusal), excused=f"{refusal}; {let_through}")
    return AdmissionResponse(f"{refusal}; try again in {RETRY_SECONDS} s")


def _of_ranges(new: Asked, old: Asked | None, offer: ClassOffer, known: Knowledge) -> tuple[Decision, Case | None]:
    kubernetes = kubernetes_of(new.view.version)
    if kubernetes is None:
        text = f"spec.topology.version {new.view.version!r} is no version, so nothing was compared with it"
        return Decision(warned(text)), None
    try:
        after = _setup(new, kubernetes, offer)
    except (AddonReleaseRefused, Unservable) as error:
        return Decision(AdmissionResponse(error.message)), None
    before = _before(old, offer, known.offers) if old is not None else None
    if before is not None and old is not None:
        before = replace(before, judges=_judges(old, known))
    was = Was(old.release, old.view.version, old.view.annotations) if old is not None else None
    write = Write(after, before, was, new.view.annotations)
    judges = _judges(new, known)
    return decide(write, offer.policy, judges), Case(new.view.key, write, offer, judges)


async def _of_circumstances(old: Asked, new: Asked, known: Knowledge) -> tuple[Decision, Case | None]:
    """Judge an update that changes labels or variables only, by the rules that depend on them.

    Everything else that is wrong with the Cluster was wrong before, and does not refuse the update.
    """
    namespace = new.view.class_namespace
    offer = await known.offers.offer(namespace, new.release, ())
    own = offer.candidates.get(new.release) if offer is not None else None
    before, after = _judges(old, known), _judges(new, known)
    if own is None or own.compatibility is None or not looks_at_circumstances(own, before, after):
        return Decision(ALLOWED), None
    kubernetes = kubernetes_of(new.view.version)
    others = _named(new) - {new.release}
    if others:
        offer = await known.offers.offer(namespace, new.release, others)
    if kubernetes is None or offer is None or new.release not in offer.candidates:
        return Decision(ALLOWED), None
    try:
        setup = _setup(new, kubernetes, offer)
    except (AddonReleaseRefused, Unservable):
        return Decision(ALLOWED), None
    write = Write(setup, Before(setup, setup, before), None, new.view.annotations)
    decision = replace(decide(write, offer.policy, after), more=RULES)
    return decision, Case(new.view.key, write, offer, after)


def _relevant(asked: Asked) -> tuple[object, ...]:
    """Give all of a Cluster that decides, but its labels and variables."""
    view = asked.view
    annotations = {
        key: value
        for key, value in view.annotations.items()
        if key == RELEASE_ANNOTATION or key.startswith(ADDON_ANNOTATION)
    }
    return view.class_name, view.class_namespace, view.version, annotations


def _judges(asked: Asked, known: Knowledge) -> Judges:
    labels = asked.view.labels
    return Judges(known.counting(asked.release, labels), known.upstream, labels, asked.variables)


def _before(old: Asked, offer: ClassOffer, offers: KnownReleases) -> Before | None:
    """Find out what the cluster was asked for and what it has; None where it had no readable version."""
    version = kubernetes_of(old.view.version)
    if version is None:
        return None
    own = offer.candidates.get(old.release)
    if own is None or own.is_bundle:
        # What a bundle brings is known to nobody and leaves with it; of an unknown class nothing is known either.
        asked = Setup(Candidate(old.release, version), version, {})
        return Before(asked, replace(asked, kubernetes=_running(old, version)))
    try:
        asked = _setup(old, version, offer)
    except (AddonReleaseRefused, Unservable):
        # Written past the webhook: then the class's own addons are the best guess.
        asked = _setup(replace(old, view=replace(old.view, annotations={})), version, offer)
    has = dict(asked.addons)
    for addon, release in offers.delivered(old.view.key).items():
        stated = offer.candidates[release].compatibility if release in offer.candidates else None
        if stated is not None and (components := stated.of_addon(addon)):
            has[addon] = components
    return Before(asked, Setup(own, _running(old, version), has))


def _asked(manifest: Manifest) -> Asked | None:
    """Read a Cluster; None without topology (D12) and where the class is none of a cluster stack."""
    view = cluster_view(manifest)
    try:
        release = parse_class(view.class_name)
    except InvalidName:
        return None
    return Asked(view, release, topology_variables(manifest))


def _named(asked: Asked) -> frozenset[ReleaseName]:
    """Name the releases a Cluster needs; what cannot be read is told later, where it matters."""
    try:
        return frozenset({asked.release, *read_wishes(asked.view.annotations, asked.release).releases()})
    except AddonReleaseRefused:
        return frozenset({asked.release})


def _of_bundle(new: Asked, old: Asked | None, offer: ClassOffer) -> AdmissionResponse:
    answer = judge_bundle(new.release, new.view.version, offer.made_for, new.view.annotations)
    if not answer.allowed or old is None:
        return answer
    before = offer.candidates.get(old.release)
    if before is None or before.is_bundle:
        return judge_move_between(old.release, new.release)
    return judge_entry(old.release, new.release, old.view.version, new.view.version)


def _setup(asked: Asked, kubernetes: KubernetesVersion, offer: ClassOffer) -> Setup:
    wishes = read_wishes(asked.view.annotations, asked.release)
    for release in wishes.releases():
        if release not in offer.candidates:
            why = offer.lacking.get(release, "correct the annotation, or have the release published")
            raise Unservable(
                f"release {release}, which an annotation names, cannot be served by the ClusterStack of class "
                f"{asked.view.class_key}: {why}"
            )
    return setup_of(wishes, asked.release, kubernetes, offer.candidates)


def _running(old: Asked, version: KubernetesVersion) -> KubernetesVersion:
    """Return the oldest version of the control plane, which lags behind what is asked for while it rolls."""
    reported = [found for one in old.view.control_plane_versions if (found := kubernetes_of(one)) is not None]
    return min([version, *reported])
