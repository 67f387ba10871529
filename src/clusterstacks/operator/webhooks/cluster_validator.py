"""Validates the creation and update of Clusters whose class comes from a cluster stack."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.addon_annotations import (
    ADDON_ANNOTATION,
    MOST_RELEASES,
    NO_RELEASE,
    RELEASE_ANNOTATION,
    AddonReleaseRefused,
    read_requested_releases,
    without_effect,
)
from clusterstacks.model.kinds.clusterapi import cluster_view, topology_variables
from clusterstacks.model.kinds.names import ESCAPE_ANNOTATION, CompatibilityPolicy
from clusterstacks.model.names import InvalidName, ReleaseName, parse_class
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.operator.webhooks.answers import ALLOWED, AdmissionResponse, warned
from clusterstacks.operator.webhooks.cluster_rules import (
    AddonUnavailable,
    ClassOffer,
    Decision,
    decide_change,
    wanted_versions,
)
from clusterstacks.operator.webhooks.reviews import Operation
from clusterstacks.operator.webhooks.suggestions import RULES, combinations_of, look_for_a_plan, releases_of
from clusterstacks.plan.compat.constraints import Judges, depends_on_labels_or_variables
from clusterstacks.plan.compat.rules.ranged_releases import ClusterChange
from clusterstacks.plan.compat.rules.upgrades import (
    between_bundles_refusal,
    bundle_refusal,
    change_refusal,
    other_stack,
)
from clusterstacks.plan.compat.world import Candidate, ClusterVersions

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from clusterstacks.model.files.compatibility import Rule
    from clusterstacks.model.kinds.clusterapi import ClusterView
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.operator.webhooks.reviews import AdmissionRequest
    from clusterstacks.operator.webhooks.shard_rule import ShardRule
    from clusterstacks.operator.webhooks.suggestions import Suggester
    from clusterstacks.plan.compat.verdicts import Upstream

RETRY_SECONDS: Final = 10
"""Pause before the retry of an update whose facts are not known yet. Arbitrary: a download takes some seconds."""


class KnownReleases(Protocol):
    """The releases that admission knows: in the operator from its caches, in csctl from what it has read."""

    async def offer(self, namespace: str, release: ReleaseName, wanted: Collection[ReleaseName]) -> ClassOffer | None:
        """Return the releases that can be served to a Cluster; None if no ClusterStack has or could have ``release``.

        ``namespace`` and ``release`` are those of the class, ``wanted`` further releases the Cluster asks for or has. A
        release of the class that is not among the candidates is in ``lacking``: its facts are not known yet.
        """
        ...

    async def refused(self, cluster: ClusterView, releases: Collection[ReleaseName]) -> str:
        """Return why a Cluster may not use one of the releases; empty when they are offered, or may be offered soon."""
        ...

    async def similar(self, cluster: ClusterView, release: ReleaseName) -> Sequence[str]:
        """Return classes with names like that of an unknown release, which the Cluster may use."""
        ...

    def delivered(self, cluster: ObjectKey) -> Mapping[str, ReleaseName]:
        """Return, by addon, the release that is completely delivered to a cluster; empty before the first."""
        ...


@dataclass(frozen=True, slots=True)
class StackCluster:
    """A Cluster whose class comes from a cluster stack, with the variables of its topology, as a request has it."""

    view: ClusterView
    release: ReleaseName
    variables: Mapping[str, object]

    @property
    def kubernetes(self) -> KubernetesVersion | None:
        """The requested Kubernetes version; None for a text that is not a version, which Cluster API refuses."""
        return _version(self.view.version)

    @property
    def releases(self) -> frozenset[ReleaseName]:
        """The releases it needs; annotations that cannot be read are ignored here and refused later."""
        try:
            return frozenset({self.release, *read_requested_releases(self.view.annotations, self.release).releases()})
        except AddonReleaseRefused:
            return frozenset({self.release})

    @property
    def decisive(self) -> tuple[object, ...]:
        """The fields that influence the decision, except labels and variables."""
        view = self.view
        annotations = {
            key: value
            for key, value in view.annotations.items()
            if key == RELEASE_ANNOTATION or key.startswith(ADDON_ANNOTATION)
        }
        return view.class_name, view.class_namespace, view.version, annotations


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterValidator:
    """Validates Clusters."""

    releases: KnownReleases
    rules: Callable[[ReleaseName, Mapping[str, str]], tuple[Rule, ...]]
    """Returns the CompatibilityRules that apply to a Cluster, by the release of its class and its labels."""
    upstream: Upstream
    suggester: Suggester | None = None
    """Adds a suggestion to a refusal; not used by :meth:`decide`."""
    shards: ShardRule | None = None
    """Refuses shards that a Cluster may not have; not used by :meth:`decide`."""

    async def validate(self, request: AdmissionRequest) -> AdmissionResponse:
        """Answer a request; a ClusterStacksError says what is needed for the answer and cannot be read."""
        if self.shards is not None and (refusal := await self.shards.refusal(request)):
            return AdmissionResponse(refusal)
        decision = await self.decide(request)
        suggestion = ""
        if decision.against and self.suggester is not None:
            old = _stack_cluster(request.old)
            annotations = old.view.annotations if old is not None else None
            suggestion = await self.suggester.suggest(cluster_view(request.new).key, annotations, decision)
        answer = decision.completed(suggestion)
        return replace(answer, warnings=(*answer.warnings, *await self._annotation_warnings(request)))

    async def decide(self, request: AdmissionRequest) -> Decision:
        """Decide on a request, without a suggestion; a ClusterStacksError as in :meth:`validate`."""
        new = _stack_cluster(request.new)
        if new is None or request.operation is Operation.DELETE:
            return Decision(ALLOWED)
        old = _stack_cluster(request.old)
        if old is not None and old.decisive == new.decisive:
            return await self._of_labels_and_variables(old, new)
        wanted, before = new.releases, old.releases if old is not None else frozenset()
        if refusal := await self._access_refusal(new, old, wanted, before):
            return Decision(AdmissionResponse(refusal), more=releases_of(new.view.class_namespace))
        offer = await self.releases.offer(new.view.class_namespace, new.release, (wanted | before) - {new.release})
        if offer is None or new.release not in offer.candidates:
            similar = await self.releases.similar(new.view, new.release) if offer is None else ()
            answer = _of_unknown_release(request, new, old, offer, similar)
            return Decision(answer, more=releases_of(new.view.class_namespace))
        more = _more(new, old, offer)
        if offer.candidates[new.release].is_bundle:
            return Decision(AdmissionResponse(_of_bundle(new, old, offer)), more=more)
        return replace(self._of_ranges(new, old, offer), more=more)

    async def _annotation_warnings(self, request: AdmissionRequest) -> tuple[str, ...]:
        """Warn about annotations of addons that the request adds or changes and that have no effect."""
        new = _stack_cluster(request.new)
        if new is None or request.operation is Operation.DELETE:
            return ()
        before = cluster_view(request.old).annotations if request.old else {}
        changed = {key: value for key, value in new.view.annotations.items() if before.get(key) != value}
        unread = without_effect(changed, ())
        if not unread and NO_RELEASE not in changed.values():
            return ()
        try:
            offer = await self.releases.offer(new.view.class_namespace, new.release, new.releases - {new.release})
        except ClusterStacksError:
            return tuple(unread)
        known = offer.candidates if offer is not None else {}
        ranges = [known[release].compatibility for release in new.releases if release in known]
        addons = {addon for stated in ranges if stated is not None for addon in stated.addons()}
        return tuple(without_effect(changed, {*addons, *self.releases.delivered(new.view.key)}))

    async def _access_refusal(
        self,
        new: StackCluster,
        old: StackCluster | None,
        wanted: frozenset[ReleaseName],
        before: frozenset[ReleaseName],
    ) -> str:
        """Return why the Cluster may not use the releases that it newly asks for."""
        if len(wanted | before) > MOST_RELEASES:
            return f"annotations name more than {MOST_RELEASES} releases for addons: name fewer"
        same_namespace = old is not None and old.view.class_namespace == new.view.class_namespace
        added = wanted - before if same_namespace else wanted
        return await self.releases.refused(new.view, added) if added else ""

    def _of_ranges(self, new: StackCluster, old: StackCluster | None, offer: ClassOffer) -> Decision:
        kubernetes = new.kubernetes
        if kubernetes is None:
            text = f"spec.topology.version {new.view.version!r} is not a version, so nothing was compared with it"
            return Decision(warned(text))
        try:
            wanted = _wanted(new, kubernetes, offer)
        except (AddonReleaseRefused, AddonUnavailable) as error:
            return Decision(AdmissionResponse(error.message))
        if old is not None and (refusal := other_stack(old.release, new.release)):
            return Decision(AdmissionResponse(refusal))
        change = ClusterChange(wanted=wanted, judges=self._judges(new))
        if old is not None and old.kubernetes is not None:
            before, delivered = self._before(old, old.kubernetes, offer)
            change = replace(change, before=before, delivered=delivered, judges_before=self._judges(old))
        return replace(decide_change(change, offer.policy, new.view.annotations), change=change, offer=offer)

    async def _of_labels_and_variables(self, old: StackCluster, new: StackCluster) -> Decision:
        """Decide on an update of only labels or variables, by the rules that depend on them.

        Other problems of the Cluster existed before and do not refuse the update.
        """
        namespace = new.view.class_namespace
        offer = await self.releases.offer(namespace, new.release, ())
        own = offer.candidates.get(new.release) if offer is not None else None
        before, after = self._judges(old), self._judges(new)
        if own is None or own.compatibility is None or not depends_on_labels_or_variables(own, before, after):
            return Decision(ALLOWED)
        kubernetes = new.kubernetes
        others = new.releases - {new.release}
        if others:
            offer = await self.releases.offer(namespace, new.release, others)
        if kubernetes is None or offer is None or new.release not in offer.candidates:
            return Decision(ALLOWED)
        try:
            wanted = _wanted(new, kubernetes, offer)
        except (AddonReleaseRefused, AddonUnavailable):
            return Decision(ALLOWED)
        change = ClusterChange(wanted=wanted, before=wanted, delivered=wanted, judges=after, judges_before=before)
        decision = decide_change(change, offer.policy, new.view.annotations)
        return replace(decision, more=RULES, change=change, offer=offer)

    def _judges(self, cluster: StackCluster) -> Judges:
        labels = cluster.view.labels
        return Judges(self.rules(cluster.release, labels), self.upstream, labels, cluster.variables)

    def _before(
        self, old: StackCluster, version: KubernetesVersion, offer: ClassOffer
    ) -> tuple[ClusterVersions, ClusterVersions]:
        """Return the versions the Cluster requested before the update, and those that it runs."""
        own = offer.candidates.get(old.release)
        if own is None or own.is_bundle:
            # The addons of a bundle are not stated and leave with it; of an unknown class nothing is known either.
            asked = ClusterVersions(Candidate(old.release, version), version)
            return asked, replace(asked, kubernetes=_running(old, version))
        try:
            asked = _wanted(old, version, offer)
        except (AddonReleaseRefused, AddonUnavailable):
            # The annotations were written past the webhook: the class's own addons are the best guess.
            asked = _wanted(replace(old, view=replace(old.view, annotations={})), version, offer)
        has = dict(asked.addons)
        for addon, release in self.releases.delivered(old.view.key).items():
            stated = offer.candidates[release].compatibility if release in offer.candidates else None
            if stated is not None and (components := stated.of_addon(addon)):
                has[addon] = components
        return asked, ClusterVersions(own, _running(old, version), has)


def _stack_cluster(manifest: Manifest) -> StackCluster | None:
    """Read a Cluster; None without a topology, and for a class that does not come from a cluster stack."""
    view = cluster_view(manifest)
    try:
        release = parse_class(view.class_name)
    except InvalidName:
        return None
    return StackCluster(view, release, topology_variables(manifest))


def _version(text: str) -> KubernetesVersion | None:
    try:
        return KubernetesVersion.parse(text)
    except SpecError:
        return None


def _running(old: StackCluster, version: KubernetesVersion) -> KubernetesVersion:
    """Return the oldest version of the control plane, which is older than the requested one during a rollout."""
    versions = [_version(reported) for reported in old.view.control_plane_versions]
    return min([version, *(running for running in versions if running is not None)])


def _wanted(cluster: StackCluster, kubernetes: KubernetesVersion, offer: ClassOffer) -> ClusterVersions:
    """Return the versions that a Cluster requests; the errors are those of :func:`wanted_versions`.

    An AddonUnavailable also says that an annotation names a release that cannot be served.
    """
    requested = read_requested_releases(cluster.view.annotations, cluster.release)
    for release in requested.releases():
        if release not in offer.candidates:
            why = offer.lacking.get(release, "correct the annotation, or have the release published")
            raise AddonUnavailable(
                f"release {release}, which an annotation names, cannot be served by the ClusterStack of class "
                f"{cluster.view.class_key}: {why}"
            )
    return wanted_versions(requested, cluster.release, kubernetes, offer.candidates)


def _of_unknown_release(
    request: AdmissionRequest,
    new: StackCluster,
    old: StackCluster | None,
    offer: ClassOffer | None,
    similar: Sequence[str],
) -> AdmissionResponse:
    """Answer while the facts of the class's release are not known.

    A new Cluster is allowed, because Cluster and ClusterStack are often applied together; a condition reports it
    later. An update has to wait, because an upgrade cannot be undone; what no upgrade may do is refused at once.
    """
    if old is not None and (refusal := change_refusal(old.release, new.release, old.view.version, new.view.version)):
        return AdmissionResponse(refusal)
    if offer is None:
        meant = (f"did you mean class {' or '.join(similar)}?",) if similar else ()
        return warned(
            f"no ClusterStack of namespace {new.view.class_namespace} offers class {new.view.class_name} yet: nothing "
            "is created for this Cluster until one does, and its versions were not checked",
            *meant,
        )
    why = offer.lacking.get(new.release, "")
    unknown = f"nothing is known of release {new.release} of class {new.view.class_key} yet"
    if request.operation is not Operation.UPDATE or offer.policy is CompatibilityPolicy.PERMISSIVE:
        return warned(f"{unknown}, so this Cluster is allowed without a check of its versions")
    refusal = f"{unknown}: {why}" if why else unknown
    if reason := new.view.annotations.get(ESCAPE_ANNOTATION, "").strip():
        allowed = f"allowed because of annotation {ESCAPE_ANNOTATION} ({reason})"
        return AdmissionResponse(warnings=(allowed, refusal), excused=f"{refusal}; {allowed}")
    return AdmissionResponse(f"{refusal}; try again in {RETRY_SECONDS} s")


def _of_bundle(new: StackCluster, old: StackCluster | None, offer: ClassOffer) -> str:
    refusal = bundle_refusal(new.release, new.view.version, offer.made_for, new.view.annotations)
    if refusal or old is None:
        return refusal
    before = offer.candidates.get(old.release)
    if before is None or before.is_bundle:
        return between_bundles_refusal(old.release, new.release)
    return change_refusal(old.release, new.release, old.view.version, new.view.version)


def _more(new: StackCluster, old: StackCluster | None, offer: ClassOffer) -> str:
    """Choose the command that shows more about a refusal without a search for a plan."""
    listing = releases_of(new.view.class_namespace)
    if old is None or other_stack(old.release, new.release):
        return listing
    version, before = new.kubernetes, old.kubernetes
    if (new.release, new.view.version) == (old.release, old.view.version):
        return combinations_of(new.view.key)
    down = new.release.kubernetes < old.release.kubernetes or bool(version and before and version < before)
    exact = offer.candidates[new.release].is_bundle and new.view.version != offer.made_for
    if down or exact:
        return listing
    other_class = new.release != old.release
    return look_for_a_plan(new.view.key, new.release if other_class or version is None else version)
