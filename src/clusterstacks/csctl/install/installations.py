"""Decides what is installed on a management cluster, by which program, and what csctl may change there."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import and_more, mapping, mappings, text
from clusterstacks.model.kinds.names import STRATEGY_ANNOTATION, Kind, set_name
from clusterstacks.model.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest, ObjectId

INSTALLATION_LABEL: Final = "clusterstack.x-k8s.io/installation"
"""Label of all objects of an installation by csctl or install.yaml, except CustomResourceDefinitions; its value is the
namespace of the installation. An installation deletes the objects with this label that it no longer renders; its
removal deletes all."""
OPERATOR_LABEL: Final = "app.kubernetes.io/name=cluster-stack-operator"
"""Selector of the Deployment of the operator, unless it took over a Helm release of the Go operator."""
GO_OPERATOR_LABEL: Final = "cluster.x-k8s.io/provider=cluster-stack-operator"
"""Selector of the Deployment of the Go operator, and of ours in a Helm release that it took over."""
_HELM_RELEASE: Final = ("meta.helm.sh/release-namespace", "meta.helm.sh/release-name")
"""Annotations of an object that Helm installed."""
_CLUSTERCTL_LABEL: Final = "clusterctl.cluster.x-k8s.io"
"""Label of an object that clusterctl installed. Our CustomResourceDefinitions always have it, for 'clusterctl move'."""
_OUR_FLAG: Final = "--cache-dir="
"""Argument of each Deployment of our chart, which the Go operator does not know."""
_NAMED: Final = 5
"""Maximum number of objects that a message names (arbitrary)."""


class Program(StrEnum):
    """The program that installed an operator."""

    CSCTL = "csctl"
    HELM = "Helm"
    CLUSTERCTL = "clusterctl"
    OTHER = "another program"


@dataclass(frozen=True, slots=True)
class Installation:
    """The installation that an object belongs to."""

    program: Program
    """The program that installed it; csctl also manages installations by install.yaml."""
    namespace: str = ""
    """Empty if the object does not show it."""
    release: str = ""
    """Name of the Helm release; empty for other programs."""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        if self.program is Program.HELM:
            return f"Helm release {self.release}{where}"
        return f"an installation by {self.program}{where}"

    @property
    def is_foreign(self) -> bool:
        """True if csctl must leave the installation to the program that manages it."""
        return self.program in {Program.HELM, Program.CLUSTERCTL}

    @property
    def upgrade(self) -> str:
        """The end of a sentence about an upgrade of the installation: ``with 'helm upgrade …'``."""
        return _COMMANDS[self.program][0].format(self.namespace, self.release)

    @property
    def removal(self) -> str:
        """The end of a sentence about its removal: ``with 'helm uninstall …'``."""
        return _COMMANDS[self.program][1].format(self.namespace, self.release)


_COMMANDS: Final = {
    Program.CSCTL: ("with 'csctl install -n {0}'", "with 'csctl uninstall -n {0}'"),
    Program.HELM: ("with 'helm upgrade {1} -n {0}'", "with 'helm uninstall {1} -n {0}'"),
    Program.CLUSTERCTL: ("with 'clusterctl upgrade apply'", "with 'clusterctl delete --addon cluster-stacks'"),
    Program.OTHER: ("with the program that installed it", "with the program that installed it"),
}


def owner_of(manifest: Manifest) -> Installation:
    """Return the installation that an object other than a CustomResourceDefinition belongs to."""
    labels, namespace = mapping(manifest, "metadata", "labels"), text(manifest, "metadata", "namespace")
    if (release := helm_release(manifest)) is not None:
        return Installation(Program.HELM, release.namespace, release.name)
    if _CLUSTERCTL_LABEL in labels:
        return Installation(Program.CLUSTERCTL, namespace)
    if installation := labels.get(INSTALLATION_LABEL):
        return Installation(Program.CSCTL, str(installation))
    return Installation(Program.OTHER, namespace)


def helm_release(manifest: Manifest) -> ObjectKey | None:
    """Return the Helm release that installed an object; None without one."""
    annotations = mapping(manifest, "metadata", "annotations")
    namespace, name = (str(annotations.get(one, "")) for one in _HELM_RELEASE)
    return ObjectKey(namespace, name) if name else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorDeployment:
    """A Deployment of the operator or of the Go operator."""

    key: ObjectKey
    owner: Installation
    is_go: bool = False
    """It runs the Go operator, or this operator with the Go operator's manifests."""
    desired: int = 1
    available: int = 0
    watched: str = ""
    """The only namespace that it watches; empty for all."""
    watch_filter: str = ""
    """The value of the watch filter label of the objects that it handles; empty for all objects."""

    def shares_objects_with(self, other: OperatorDeployment) -> bool:
        """Return whether there can be objects that both handle."""
        pairs = ((self.watched, other.watched), (self.watch_filter, other.watch_filter))
        return all(not one or not two or one == two for one, two in pairs)


def operator_of(deployment: Manifest) -> OperatorDeployment:
    """Return what a Deployment runs."""
    arguments = [
        str(one)
        for container in mappings(deployment, "spec", "template", "spec", "containers")
        for one in container.get("args") or ()
    ]
    flags = dict(one.split("=", 1) for one in arguments if "=" in one)
    go_label, _, go_name = GO_OPERATOR_LABEL.partition("=")
    return OperatorDeployment(
        key=ObjectKey(text(deployment, "metadata", "namespace"), text(deployment, "metadata", "name")),
        owner=owner_of(deployment),
        is_go=mapping(deployment, "metadata", "labels").get(go_label) == go_name
        and not any(one.startswith(_OUR_FLAG) for one in arguments),
        desired=mapping(deployment, "spec").get("replicas", 1),
        available=mapping(deployment, "status").get("availableReplicas", 0),
        watched=flags.get("--namespace", ""),
        watch_filter=flags.get("--watch-filter", ""),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The installations on a management cluster, as far as the user may read it."""

    namespace: str
    """The namespace of the installation that csctl is asked to change."""
    operators: tuple[OperatorDeployment, ...] = ()
    """The operators in all namespaces."""
    rights: tuple[Manifest, ...] = ()
    """ClusterRoles and ClusterRoleBindings with the names of those that csctl would apply."""
    definitions: tuple[ObjectId, ...] = ()
    """Metadata of the existing CustomResourceDefinitions of our kinds."""
    deleting: tuple[ObjectId, ...] = ()
    """The Namespace and CustomResourceDefinitions whose deletion is not finished."""
    helm_releases: tuple[ObjectKey, ...] = ()
    """Helm releases that contain the CustomResourceDefinitions."""

    @property
    def here(self) -> OperatorDeployment | None:
        """The operator in the namespace; that of csctl before others."""
        found = [one for one in self.operators if one.key.namespace == self.namespace]
        return min(found, key=lambda one: (one.owner.program is not Program.CSCTL, one.is_go, one.key), default=None)

    @property
    def others(self) -> tuple[OperatorDeployment, ...]:
        """Operators that are not part of the installation in the namespace."""
        here = self.here
        # After a change of fullnameOverride, csctl deletes its Deployment with the earlier name.
        installation = Installation(Program.CSCTL, self.namespace)
        inside = [one for one in self.operators if one.key.namespace == self.namespace]
        own = {here} | {one for one in inside if one.owner == installation}
        return tuple(one for one in self.operators if one not in own)


def install_conflicts(installed: Installed, wanted: OperatorDeployment) -> Iterator[str]:
    """Return the reasons why csctl must not apply an installation: object, cause, and what to do.

    A running Go operator and the program that installed the operator in the same namespace are not among them.
    """
    for one in installed.deleting:
        yield f"{one} is being deleted: wait until it is gone; its finalizers and conditions show what it waits for"
    here = installed.here
    # csctl takes over a Deployment of plain manifests only if it has the same name.
    replaced = here is None or here.owner.program is not Program.OTHER or here.key == wanted.key
    for other in installed.others if replaced else installed.operators:
        if other.is_go:
            continue
        if other.key.namespace == installed.namespace:
            yield (
                f"Deployment {other.key} is a second operator in this namespace, and both use the same Lease and "
                f"Secret: remove it {other.owner.removal}, or choose another --namespace"
            )
        elif other.desired and other.shares_objects_with(wanted):
            yield (
                f"Deployment {other.key} of {other.owner} handles the same objects: upgrade it {other.owner.upgrade}, "
                f"or remove it {other.owner.removal}"
            )
    yield from _rights_of_others(installed)


def _rights_of_others(installed: Installed) -> Iterator[str]:
    """Return the cluster-wide rights that csctl would take from another installation."""
    own = {Installation(Program.CSCTL, installed.namespace), Installation(Program.OTHER)}
    if installed.here is not None:
        own.add(installed.here.owner)
    found: dict[Installation, list[str]] = {}
    for one in installed.rights:
        subjects = {text(subject, "namespace") for subject in mappings(one, "subjects")} - {installed.namespace, ""}
        owners = ({owner_of(one)} - own) or {Installation(Program.OTHER, subject) for subject in subjects}
        for owner in owners:
            found.setdefault(owner, []).append(f"{one['kind']} {one['metadata']['name']}")
    for owner, names in found.items():
        yield (
            f"{and_more(names, _NAMED)} would no longer work for {owner}: remove it {owner.removal}, or let each "
            "operator watch a namespace of its own (watchNamespace)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UserObjects:
    """The objects that people and the operator created."""

    objects: tuple[ObjectId, ...] = ()
    """All objects of our kinds."""
    clusters: tuple[ObjectId, ...] = ()
    """The Clusters in the namespace of the installation."""

    def of(self, *kinds: Kind) -> list[ObjectId]:
        """Return the objects of these kinds."""
        return [one for one in self.objects if one.kind in kinds]


def removal_conflicts(installed: Installed) -> Iterator[str]:
    """Return the reason why csctl must not remove the operator in the namespace."""
    here = installed.here
    if here is not None and here.owner.program is not Program.CSCTL:
        what = "the Go operator" if here.is_go else "the operator"
        yield f"Deployment {here.key} is {what} of {here.owner}: remove it {here.owner.removal}"


def kept_conflicts(kept: Mapping[ObjectId, str], namespace: str, *, with_namespace: bool) -> Iterator[str]:
    """Return the reasons why an object that is annotated to be kept prevents a removal, of the namespace as well."""
    for one, reason in kept.items():
        if one.kind == "Deployment":
            yield f"{one} must stop before its rights are deleted, but {reason}: remove the annotation"
        elif with_namespace and (one.namespace == namespace or one.kind == "Namespace"):
            yield f"{one} would be deleted, but {reason}: remove the annotation, or keep the namespace"


def definition_conflicts(installed: Installed, contents: UserObjects) -> Iterator[str]:
    """Return the reasons why csctl must not delete the ClusterStacks and the CustomResourceDefinitions."""
    if others := [f"Deployment.apps {one.key}" for one in installed.others]:
        yield f"{and_more(others, _NAMED)} also uses the CustomResourceDefinitions: uninstall it first"
    for release in installed.helm_releases:
        owner = Installation(Program.HELM, release.namespace, release.name)
        if installed.here is None or installed.here.owner != owner:
            yield f"{owner} contains the CustomResourceDefinitions: remove it first {owner.removal}"
    if addons := contents.of(Kind.CLUSTER_ADDON):
        yield (
            f"{len(addons)} Clusters still get addons: delete these Clusters first, or keep the "
            f"CustomResourceDefinitions (ClusterAddons: {_names(addons)})"
        )
    if syncs := contents.of(Kind.CLUSTER_RESOURCE_SYNC):
        yield (
            f"{len(syncs)} ClusterResourceSyncs still keep objects in clusters, and only the operator removes their "
            "finalizers: delete them first with 'kubectl delete crsync --all --all-namespaces' (with deletionPolicy "
            f"Orphan the objects stay), or keep the CustomResourceDefinitions ({_names(syncs)})"
        )
    if bindings := [one for one in contents.of(Kind.CLUSTER_RESOURCE_SYNC_BINDING) if set_name(one.name)]:
        yield (
            "annotated ClusterResourceSets are kept in place, and only the operator removes the finalizers of their "
            "bindings: remove the annotation first with 'kubectl annotate clusterresourceset --all --all-namespaces "
            f"{STRATEGY_ANNOTATION}-' (the objects stay), or keep the CustomResourceDefinitions ({_names(bindings)})"
        )
    if rules := contents.of(Kind.COMPATIBILITY_RULE):
        yield (
            f"{len(rules)} CompatibilityRules would be deleted, which the operator does not create again: save them "
            f"and delete them first with 'kubectl delete compatibilityrules --all' ({_names(rules)})"
        )
    stacks = contents.of(Kind.CLUSTER_STACK, Kind.CLUSTER_STACK_RELEASE)
    if stacks and not addons and (installed.here is None or not installed.here.available):
        lacking = "no operator is installed" if installed.here is None else "no replica of the operator is available"
        yield (
            f"{lacking} in namespace {installed.namespace}, and only the operator removes the finalizers of "
            f"{_names(stacks)}: install it again with 'csctl install --wait', then run this command again"
        )


def namespace_conflicts(
    installed: Installed, contents: UserObjects, *, is_installed: bool, with_definitions: bool
) -> Iterator[str]:
    """Return the reasons why csctl must not delete the namespace with its contents.

    With ``is_installed``, csctl has installed something there; with ``with_definitions``, the ClusterStacks are deleted
    before.
    """
    namespace = installed.namespace
    if not is_installed:
        yield (
            f"nothing is installed in namespace {namespace}, so csctl does not delete it; if it is no longer needed, "
            f"delete it with 'kubectl delete namespace {namespace}'"
        )
        return
    inside = [] if with_definitions else [one for one in contents.objects if one.namespace == namespace]
    if inside := [*contents.clusters, *inside]:
        yield f"namespace {namespace} contains {_names(inside)}: delete or move them first, or keep the namespace"


def _names(objects: Iterable[ObjectId]) -> str:
    return and_more([str(one) for one in objects], _NAMED)
