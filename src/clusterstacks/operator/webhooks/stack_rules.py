"""Rules for our own kinds: those of the Go operator's webhooks, without their known defects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import shown
from clusterstacks.model.kinds.addon_annotations import AddonReleaseRefused, read_requested_releases
from clusterstacks.model.names import InvalidName, ReleaseName, parse_class, parse_release
from clusterstacks.model.versions import STABLE, InvalidVersion, KubernetesMinor, StackVersion
from clusterstacks.operator.class_offer import ReleaseUse
from clusterstacks.operator.webhooks.answers import ALLOWED, AdmissionResponse, warned

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from clusterstacks.model.objects import ObjectKey

SHOWN_CLUSTERS = 3
"""Number of Clusters in a refusal; arbitrary, longer lists are not read."""

LIST_CLUSTERS = "All Clusters with their releases, if you may read them:\n  csctl status --all-namespaces"
"""The command that names the Clusters of other namespaces."""


@dataclass(frozen=True, slots=True)
class StackIdentity:
    """The immutable fields of a ClusterStack."""

    provider: str
    name: str
    kubernetes: str
    channel: str

    @property
    def series(self) -> tuple[str, str, str]:
        """The fields that all its releases share."""
        return self.provider, self.name, self.kubernetes


@dataclass(frozen=True, slots=True)
class AddonReference:
    """``spec.clusterRef`` of a ClusterAddon; the namespace defaults to that of the ClusterAddon."""

    kind: str
    name: str
    namespace: str


def uses_of(
    cluster: ObjectKey, class_name: str, class_namespace: str, annotations: Mapping[str, str]
) -> tuple[ReleaseUse, ...]:
    """Return the releases that a Cluster uses; empty when its class does not come from a cluster stack."""
    try:
        own = parse_class(class_name)
    except InvalidName:
        return ()
    try:
        releases = {own, *read_requested_releases(annotations, own).releases()}
    except AddonReleaseRefused:
        # The annotations were written past the webhook; unreadable ones use no release.
        releases = {own}
    return tuple(ReleaseUse(cluster, class_namespace, release, release == own) for release in sorted(releases))


def created_stack(versions: Sequence[str], *, no_provider: bool, has_provider: bool) -> AdmissionResponse:
    """Validate a new ClusterStack: it needs a provider object or noProvider, and valid versions."""
    if not no_provider and not has_provider:
        return AdmissionResponse(
            "spec.providerRef is missing: set it, or set noProvider: true if the stack has no provider"
        )
    return _versions(versions)


def twin_stack(stack: ObjectKey, twins: Sequence[str]) -> AdmissionResponse:
    """Warn about other ClusterStacks for the same provider, name and Kubernetes minor in the namespace."""
    if not twins:
        return ALLOWED
    more = f" and {len(twins) - SHOWN_CLUSTERS} more" if len(twins) > SHOWN_CLUSTERS else ""
    return warned(
        f"ClusterStack {', '.join(twins[:SHOWN_CLUSTERS])}{more} of namespace {stack.namespace} has the same provider, "
        "name and kubernetesVersion: they share the releases; keep one of them, and delete the others"
    )


def changed_stack(
    old: StackIdentity, new: StackIdentity, old_versions: Collection[str], new_versions: Sequence[str]
) -> AdmissionResponse:
    """Validate a change of a ClusterStack; versions that it had before are not checked again."""
    fields = {
        "provider": (old.provider, new.provider),
        "name": (old.name, new.name),
        "kubernetesVersion": (old.kubernetes, new.kubernetes),
        "channel": (old.channel, new.channel),
    }
    for field, (before, after) in fields.items():
        if before != after:
            return AdmissionResponse(
                f"spec.{field} cannot be changed from {before} to {after}: create another ClusterStack"
            )
    return _versions([version for version in new_versions if version not in old_versions])


def stack_users(
    identity: StackIdentity,
    namespace: str,
    owners: Mapping[str, Collection[str]],
    name: str,
    uses: Iterable[ReleaseUse],
) -> list[ReleaseUse]:
    """Return the uses of releases that prevent the deletion of ClusterStack ``name``, on any channel.

    Clusters in other namespaces may use its classes. ``owners`` has, by release, the ClusterStacks that own it: a
    release that only others own does not count; one without an owner counts if its channel fits.
    """
    return [
        use
        for use in uses
        if use.namespace == namespace and _is_of(use.release, identity) and _owns(identity, owners, name, use.release)
    ]


def release_users(namespace: str, name: str, uses: Iterable[ReleaseUse]) -> list[ReleaseUse]:
    """Return the uses that prevent the deletion of a ClusterStackRelease."""
    try:
        release = parse_release(name)
    except InvalidName:
        return []
    return [use for use in uses if use.namespace == namespace and use.release == release]


def deletion(what: str, namespace: str, users: Sequence[ReleaseUse]) -> AdmissionResponse:
    """Validate the deletion of an object of a namespace, which is refused while Clusters use it.

    Clusters of other namespaces are only counted: the client is not authenticated, and may not be allowed to see them.
    """
    if not users:
        return ALLOWED
    clusters = sorted({use.cluster for use in users})
    own = [str(cluster) for cluster in clusters if cluster.namespace == namespace]
    others = len(clusters) - len(own)
    named = ", ".join(own[:SHOWN_CLUSTERS])
    more = f" and {len(own) - SHOWN_CLUSTERS} more" if len(own) > SHOWN_CLUSTERS else ""
    counted = f"{others} Cluster{'s' if others > 1 else ''} of other namespaces"
    in_use_by = [
        *([f"Cluster{'s' if len(own) > 1 else ''} {named}{more}"] if own else []),
        *([counted] if others else []),
    ]
    releases = sorted({use.release.release for use in users})
    used = f"release{'s' if len(releases) > 1 else ''} {', '.join(releases[:SHOWN_CLUSTERS])}"
    shown = f"The releases that Cluster {own[0]} could use:\n  csctl compat matrix {own[0]}" if own else ""
    return AdmissionResponse(
        f"{what} is in use by {', and by '.join(in_use_by)} ({used}): "
        f"first change the class of these Clusters, or delete them\n{shown or LIST_CLUSTERS}"
    )


def created_addon(reference: AddonReference, name: str, canonical: str) -> AdmissionResponse:
    """Validate a new ClusterAddon; only one of the ``canonical`` name is reconciled for its Cluster."""
    if reference.kind != "Cluster" or not reference.name:
        return AdmissionResponse("spec.clusterRef must name the Cluster of the addons, with kind: Cluster")
    if name != canonical:
        return AdmissionResponse(
            f"metadata.name must be {canonical}: a Cluster has one ClusterAddon, which the operator creates; "
            f"to change the addons of Cluster {reference.name}, edit the Cluster"
        )
    return ALLOWED


def changed_addon(old: AddonReference, new: AddonReference) -> AdmissionResponse:
    """Validate a change of a ClusterAddon, whose Cluster is immutable."""
    for field, before, after in (
        ("name", old.name, new.name),
        ("kind", old.kind, new.kind),
        ("namespace", old.namespace, new.namespace),
    ):
        if before != after:
            return AdmissionResponse(
                f"spec.clusterRef.{field} cannot be changed from {shown(before)} to {shown(after)}: "
                "the operator creates one ClusterAddon for each Cluster"
            )
    return ALLOWED


def _versions(versions: Iterable[str]) -> AdmissionResponse:
    for version in versions:
        try:
            StackVersion.parse_dot(version)
        except InvalidVersion as error:
            return AdmissionResponse(f"spec.versions: {error.message}")
    return ALLOWED


def _is_of(release: ReleaseName, identity: StackIdentity) -> bool:
    try:
        minor = KubernetesMinor.parse(identity.kubernetes)
    except InvalidVersion:
        return False
    return (release.provider, release.stack, release.kubernetes) == (identity.provider, identity.name, minor)


def _owns(identity: StackIdentity, owners: Mapping[str, Collection[str]], name: str, release: ReleaseName) -> bool:
    owning = owners.get(release.release, ())
    if owning:
        return name in owning
    return (release.version.channel == STABLE) == (identity.channel == STABLE)
