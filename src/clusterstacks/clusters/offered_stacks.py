"""What a management cluster offers the Clusters of a stack: its ClusterStacks, their releases, the provider's rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.api.clusterstack import ClusterStack
from clusterstacks.api.names import GROUP, CompatibilityPolicy, Kind
from clusterstacks.clusters.permissions import listed, or_else
from clusterstacks.compat.release_facts import read_facts
from clusterstacks.domain.documents import at, mappings, text
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.names import ReleaseName, release_named
from clusterstacks.sources.owners import is_stack

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.versions import KubernetesMinor
    from clusterstacks.kube.client import Client


@dataclass(frozen=True, slots=True)
class Offered:
    """What a namespace offers of one stack.

    Args:
        namespace: Of the classes.
        stacks: Its ClusterStacks of that provider and name, by name.
        ready: Releases that have a ClusterStackRelease which is ready, with the name of the ClusterStack that leads.
        facts: What releases of that provider and name state, by the status of their ClusterStackReleases.
    """

    namespace: str
    stacks: tuple[ClusterStack, ...]
    ready: Mapping[ReleaseName, str]
    facts: Mapping[ReleaseName, Candidate] = field(default_factory=dict)

    def policy(self, release: ReleaseName) -> CompatibilityPolicy:
        """Return how strict the ClusterStack of a release is; as by default where there is none yet."""
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
        """Say what is to be done before a Cluster can take something of a release; empty when nothing is.

        Args:
            release: Which.
            its_class: Whether the class is taken; of a release that only gives addons the ClusterStack takes care.
        """
        stacks = self.of_series(release.kubernetes)
        if not stacks:
            return (
                f"release {release} is offered by no ClusterStack in namespace {self.namespace}: create one for "
                f"Kubernetes {release.kubernetes} there first"
            )
        if its_class and release not in self.ready:
            return (
                f"class {release.class_name} is not there yet: add {release.version} to spec.versions of ClusterStack "
                f"{stacks[0].key} and wait until it is ready"
            )
        return ""


async def read_offered(client: Client, namespace: str, release: ReleaseName, notices: list[str]) -> Offered:
    """Read the ClusterStacks and releases of a stack.

    Args:
        client: The management cluster.
        namespace: Of the class.
        release: Any of the stack.
        notices: Gets what could not be read.

    Raises:
        DependencyError: The API server does not answer.
    """
    found = await or_else(
        listed(client, GROUP, Kind.CLUSTER_STACK, namespace), [], "no release source is known", notices
    )
    stacks = []
    for manifest in found:
        try:
            stack = ClusterStack.parse(manifest)
        except SpecError as error:
            notices.append(f"a ClusterStack is left out: {error.message}")
            continue
        if (stack.spec.provider, stack.spec.name) == (release.provider, release.stack):
            stacks.append(stack)
    releases = await or_else(
        listed(client, GROUP, Kind.CLUSTER_STACK_RELEASE, namespace), [], "nobody knows which are there", notices
    )
    ready: dict[ReleaseName, str] = {}
    facts: dict[ReleaseName, Candidate] = {}
    for manifest in releases:
        name = release_named(text(manifest, "metadata", "name"))
        stated = read_facts(manifest)
        if stated is not None and (stated.name.provider, stated.name.stack) == (release.provider, release.stack):
            facts[stated.name] = stated
        if name is not None and at(manifest, "status", "ready") is True:
            owners = [text(one, "name") for one in mappings(manifest, "metadata", "ownerReferences") if is_stack(one)]
            ready[name] = next(iter(owners), "")
    return Offered(namespace, tuple(sorted(stacks, key=lambda one: one.metadata.name)), ready, facts)
