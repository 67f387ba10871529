"""Rules for every upgrade: Kubernetes moves up one minor at a time, and a Cluster stays with its stack.

Each rule returns the reason for a refusal, empty when the Cluster is allowed. For a bundle, which is for one exact
Kubernetes version, the rules are those of the Go operator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.addon_annotations import ADDON_ANNOTATION, RELEASE_ANNOTATION
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from clusterstacks.model.names import ReleaseName


def walked(
    before: KubernetesVersion, after: KubernetesVersion, class_versions: Sequence[KubernetesVersion] = ()
) -> tuple[KubernetesVersion, ...]:
    """Return the versions that the control plane has one after the other, up to ``after``; none if it cannot get there.

    Over ``spec.kubernetesVersions`` of a class, Cluster API walks several minors in one upgrade. It takes the newest
    version of each minor, and replaces the workers at the end, and before they would be too old for the control plane.
    Source: sigs.k8s.io/cluster-api, ``GetUpgradePlanFromClusterClassVersions``.
    """
    if after.major != before.major or not before.minor <= after.minor:
        return ()
    newest = {version.minor: version for version in sorted(class_versions) if version.major == after.major}
    between = [newest.get(minor) for minor in range(before.minor + 1, after.minor)]
    passed = tuple(version for version in between if version is not None)
    may_walk = len(passed) == len(between) and (not between or after in class_versions)
    return (*passed, after) if may_walk else ()


def upgrade_refusal(before: str, after: str, class_versions: Sequence[KubernetesVersion] = ()) -> str:
    """Return why a cluster may not move from one Kubernetes version to another; empty when it may.

    ``class_versions`` are those that the class lists (``spec.kubernetesVersions``).

    No fact, policy or annotation overrides this rule. Texts that are not versions are ignored: Cluster API refuses one
    in ``after``, and has accepted the one in ``before``.
    """
    old, new = _version(before), _version(after)
    if old is None or new is None:
        return ""
    if new < old:
        return f"Kubernetes never goes down: the cluster has {old}; keep it, or move to a higher version than {new}"
    if walked(old, new, [replace(version, build="") for version in class_versions]):
        return ""
    if class_versions:
        listed = ", ".join(version.text for version in class_versions)
        return (
            f"Kubernetes moves one minor at a time, or over the versions that its class lists (kubernetesVersions: "
            f"{listed}): from {old} go to one of these that has no gap before it"
        )
    return f"Kubernetes moves one minor at a time: from {old} go to a version of {old.major}.{old.minor + 1} first"


def other_stack(old: ReleaseName, new: ReleaseName) -> str:
    """Return why a Cluster may not move to a class of another provider or stack; empty for one of its own stack.

    No fact, policy or annotation overrides this rule.
    """
    if old.same_stack(new):
        return ""
    return (
        f"class {old.class_name} cannot be changed to {new.class_name}: a Cluster stays with its provider and stack "
        f"{old.provider}-{old.stack}; choose a class of these, or create another Cluster"
    )


def _version(text: str) -> KubernetesVersion | None:
    """Read a version without build metadata (``+k3s1``), which has no order."""
    try:
        return replace(KubernetesVersion.parse(text), build="")
    except InvalidVersion:
        return None


def change_refusal(old: ReleaseName, new: ReleaseName, before: str, version: str) -> str:
    """Validate a change of class and version by the rules for every upgrade."""
    return other_stack(old, new) or upgrade_refusal(before, version)


def between_bundles_refusal(old: ReleaseName, new: ReleaseName) -> str:
    """Validate a move between the classes of two bundles by their names, exactly as the Go operator does.

    The minor in the name of the class stays or grows by one; the major is ignored.
    """
    refusal = other_stack(old, new)
    if refusal or new.kubernetes.minor - old.kubernetes.minor in (0, 1):
        return refusal
    direction = "skips a minor" if new.kubernetes.minor > old.kubernetes.minor else "goes back"
    return (
        f"class {old.class_name} cannot be changed to {new.class_name}: that {direction}, and Kubernetes moves up "
        f"one minor at a time; choose a class of {old.series} or of the next minor"
    )


def bundle_refusal(release: ReleaseName, version: str, made_for: str, annotations: Iterable[str]) -> str:
    """Validate what a Cluster asks for of a bundle that is made for one Kubernetes version.

    ``version`` is ``spec.topology.version``, ``annotations`` are keys of the Cluster's annotations.
    """
    if version != made_for:
        return (
            f"class {release.class_name} is for Kubernetes {made_for} exactly, and spec.topology.version is "
            f"{version or 'empty'}: set it to {made_for}, or choose a class made for the version you want"
        )
    named = sorted(key for key in annotations if key == RELEASE_ANNOTATION or key.startswith(ADDON_ANNOTATION))
    if named:
        return (
            f"annotation {named[0]} cannot be used here: class {release.class_name} belongs to a bundle, whose addons "
            "come with it; remove the annotation, or choose a class that states ranges"
        )
    return ""
