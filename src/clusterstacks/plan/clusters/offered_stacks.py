"""Reads the ClusterStacks and releases that a management cluster offers to the Clusters of a stack."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.documents import at, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterapi import class_versions
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_CLASS_KIND,
    GROUP,
    CompatibilityPolicy,
    Kind,
)
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.plan.clusters.permissions import listed, or_else
from clusterstacks.plan.compat.release_facts import read_facts
from clusterstacks.release.sources.owners import is_stack

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.model.objects import Manifest
    from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.compat.world import Candidate


@dataclass(frozen=True, slots=True)
class Offered:
    """The ClusterStacks and releases of one stack in a namespace."""

    namespace: str
    """The namespace of the classes."""
    stacks: tuple[ClusterStack, ...]
    """The ClusterStacks of that provider and name, sorted by name."""
    ready: Mapping[ReleaseName, str]
    """Releases with a ready ClusterStackRelease, and the name of their first owning ClusterStack."""
    facts: Mapping[ReleaseName, Candidate] = field(default_factory=dict)
    """Facts of releases, from the status of their ClusterStackReleases."""
    class_versions: Mapping[str, tuple[KubernetesVersion, ...]] = field(default_factory=dict)
    """By name of a class, the Kubernetes versions that it lists."""

    def policy(self, release: ReleaseName) -> CompatibilityPolicy:
        """Return the compatibility policy of the ClusterStack of a release; the default without a ClusterStack."""
        leading = self.ready.get(release)
        for stack in self.stacks:
            if stack.metadata.name == leading:
                return stack.spec.compatibility
        own = self.of_series(release.kubernetes)
        return own[0].spec.compatibility if own else CompatibilityPolicy.RANGE

    def of_series(self, series: KubernetesMinor) -> tuple[ClusterStack, ...]:
        """Return the ClusterStacks of a Kubernetes minor."""
        return tuple(stack for stack in self.stacks if stack.spec.kubernetes_version == str(series))

    def missing(self, release: ReleaseName, *, its_class: bool) -> str:
        """Return what to do before a Cluster can use a release; empty when it can use it now.

        For addons alone (not ``its_class``) the release must be offered, but need not be ready.
        """
        stacks = self.of_series(release.kubernetes)
        if not stacks:
            return (
                f"no ClusterStack in namespace {self.namespace} offers release {release}: first create one there for "
                f"Kubernetes {release.kubernetes}"
            )
        if its_class and release not in self.ready:
            return (
                f"class {release.class_name} does not exist yet: add {release.version} to spec.versions of "
                f"ClusterStack {stacks[0].key} and wait until it is ready"
            )
        if release in self.ready or release in self.facts or any(_offers(stack, release) for stack in stacks):
            return ""
        first = f"first add {release.version} to spec.versions of ClusterStack {stacks[0].key}"
        return f"release {release} is not offered: {first}"


def _offers(stack: ClusterStack, release: ReleaseName) -> bool:
    """Return whether the operator would create a release of the source for a Cluster that names it."""
    return stack.spec.auto_subscribe or release.version.dot in stack.spec.versions


async def read_offered(client: Client, namespace: str, release: ReleaseName, notices: list[str]) -> Offered:
    """Read the ClusterStacks and releases of the stack of a release in the namespace of the classes.

    ``notices`` gets a line for everything that could not be read.
    """
    manifests = await or_else(
        listed(client, GROUP, Kind.CLUSTER_STACK, namespace), [], "no release source is known", notices
    )
    releases = await or_else(
        listed(client, GROUP, Kind.CLUSTER_STACK_RELEASE, namespace), [], "it is not known which of them exist", notices
    )
    # A user without this right gets plans of one minor at a time, which are right with most classes: no notice.
    classes = await or_else(listed(client, CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, namespace), [], "", [])
    return offered_by(namespace, release, (manifests, releases, classes), notices)


def offered_by(
    namespace: str,
    release: ReleaseName,
    objects: tuple[Iterable[Manifest], Iterable[Manifest], Iterable[Manifest]],
    notices: list[str],
) -> Offered:
    """Return what the ClusterStacks, ClusterStackReleases and ClusterClasses of the namespace of the classes offer."""
    manifests, releases, classes = objects
    stacks = []
    for manifest in manifests:
        try:
            stack = ClusterStack.parse(manifest)
        except SpecError as error:
            notices.append(f"a ClusterStack is left out: {error.message}")
            continue
        if (stack.spec.provider, stack.spec.name) == (release.provider, release.stack):
            stacks.append(stack)
    listed_versions = {text(manifest, "metadata", "name"): class_versions(manifest) for manifest in classes}
    ready: dict[ReleaseName, str] = {}
    facts: dict[ReleaseName, Candidate] = {}
    for manifest in releases:
        name = release_named(text(manifest, "metadata", "name"))
        stated = read_facts(manifest)
        if stated is not None and stated.name.same_stack(release):
            facts[stated.name] = stated
        if name is not None and at(manifest, "status", "ready") is True:
            owners = [
                text(owner, "name") for owner in mappings(manifest, "metadata", "ownerReferences") if is_stack(owner)
            ]
            ready[name] = next(iter(owners), "")
    stacks.sort(key=lambda stack: stack.metadata.name)
    return Offered(namespace, tuple(stacks), ready, facts, listed_versions)
