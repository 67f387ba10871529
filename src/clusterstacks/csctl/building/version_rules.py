"""Rules for the versions of the next release of a cluster stack.

====== ===============================================================================================================
stable The number of the stack grows by one with each release. The number of a component grows when its files changed,
       so equal addon versions mean equal addons. The first release is v1.
beta   A build before a stable release: ``v4-beta.1``, ``v4-beta.2`` while v3 is the newest stable release, and
       ``v0-beta.1``, ``v0-beta.2`` while there is none. Only the build number grows; only a stable release changes the
       number before it. The components have the version of the beta.
hash   ``v0-sha.<first 7 characters of the hash of the stack>`` for the stack and its components.
custom The versions that the author gives.
====== ===============================================================================================================

A difference that cannot be determined counts as a change: an unnecessary release is better than a missing one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.metadata import Metadata
from clusterstacks.model.versions import STABLE, StackVersion
from clusterstacks.release.published_releases import BETA, beta_line, is_counted

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from clusterstacks.model.files.hashes import Hashes
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.versions import KubernetesVersion
    from clusterstacks.release.published_releases import PublishedReleases

SHA: Final = "sha"

NAMED_FILES: Final = 3
"""Maximum number of changed files in a reason (arbitrary: one line of a terminal)."""


class Mode(Enum):
    """Versioning modes; see the module."""

    STABLE = "stable"
    HASH = "hash"
    CUSTOM = "custom"
    BETA = "beta"


class NothingChanged(SpecError):
    """The source did not change since the newest release."""

    def __init__(self, name: object) -> None:
        super().__init__(
            "NothingChanged", f"nothing changed since {name}: edit the stack, or use --mode custom or hash"
        )


class NoStackChanged(NothingChanged):
    """No stack of a repository changed since its newest release."""

    def __init__(self) -> None:
        SpecError.__init__(self, "NothingChanged", "nothing was built: no stack changed since its newest release")


@dataclass(frozen=True, slots=True)
class StackSource:
    """The state of a stack directory that is to be released: its Kubernetes version and its hashes."""

    kubernetes: KubernetesVersion
    hashes: Hashes
    cluster_class: StackVersion | None = None
    """The version of the class in metadata.yaml of the source; None if releases need none."""


@dataclass(frozen=True, slots=True)
class PreviousRelease:
    """The release that the next one is compared with."""

    name: ReleaseName
    metadata: Metadata
    hashes: Hashes
    """Empty if unknown."""
    changed: tuple[str, ...] = ()
    """Paths that differ; only to explain, as a release does not contain all files of its source."""


@dataclass(frozen=True, slots=True)
class VersionChange:
    """The change of one version, a key of metadata.yaml such as ``clusterAddon``."""

    component: str
    before: str
    """Empty if there is no previous release."""
    after: str
    """Equal to ``before`` if unchanged."""
    reason: str
    """Without a full stop."""


@dataclass(frozen=True, slots=True)
class NextRelease:
    """The versions of the next release, with their reasons."""

    metadata: Metadata
    changes: tuple[VersionChange, ...]


def stable_release(source: StackSource, before: PreviousRelease | None) -> NextRelease:
    """Choose the versions of the next stable release; NothingChanged if ``before`` has the same source."""
    if before is None:
        return uniform_release(source, StackVersion(1), "first release")
    if _is_same(source, before):
        raise NothingChanged(before.name)
    old = before.metadata
    after = next_stable(old.cluster_stack).dot
    changes = [
        VersionChange("clusterStack", old.cluster_stack.dot, after, _stack_changes(source, before)),
        _component("clusterAddon", old.cluster_addon, _addon_changes(source.hashes, before)),
        _component("nodeImage", old.node_image, _node_image_changes(source.hashes, before)),
    ]
    cluster_class = old.cluster_class or source.cluster_class
    if cluster_class is not None:
        changes.append(_component("clusterClass", cluster_class, _class_changes(source.hashes, before)))
    stack, *components = (StackVersion.parse(change.after) for change in changes)
    return NextRelease(Metadata(stack, source.kubernetes, *components), tuple(changes))


def beta_release(source: StackSource, listing: PublishedReleases, before: PreviousRelease | None) -> NextRelease:
    """Choose the version of the next beta; NothingChanged if ``before`` has the same source.

    ``before`` is the newest beta with the same number, see :func:`beta_line`.
    """
    if before is not None and _is_same(source, before):
        raise NothingChanged(before.name)
    major = beta_line(listing)
    stable = listing.newest(STABLE)
    builds = [
        int(one.build) for one in listing.versions if one.channel == BETA and one.major == major and is_counted(one)
    ]
    after = StackVersion(major, BETA, str(max(builds, default=0) + 1))
    reason = (
        f"on the way to v{major}, {stable} is the newest stable one" if stable else "there is no stable release yet"
    )
    return uniform_release(source, after, reason, before.metadata if before else None)


def hash_release(source: StackSource) -> NextRelease:
    """Return the version that is derived from the content of the source."""
    version = StackVersion(0, SHA, source.hashes.short)
    return uniform_release(source, version, "the hash of the source")


def custom_release(metadata: Metadata) -> NextRelease:
    """Return the versions that the author gave."""
    return _new(metadata, "as given")


def uniform_release(
    source: StackSource, version: StackVersion, reason: str, before: Metadata | None = None
) -> NextRelease:
    """Return one version for the stack and all components."""
    counts_class = (source.cluster_class or (before and before.cluster_class)) is not None
    release = _new(Metadata(version, source.kubernetes, version, version, version if counts_class else None), reason)
    if before is None:
        return release
    old = _texts(before)
    return replace(release, changes=tuple(replace(one, before=old.get(one.component, "")) for one in release.changes))


def next_stable(version: StackVersion) -> StackVersion:
    """Return the next stable version: v4 after v3, and v4 after v4-beta.2."""
    return StackVersion(version.major + 1 if version.channel == STABLE else max(version.major, 1))


def differences(written: Metadata, newest: Metadata) -> tuple[VersionChange, ...]:
    """Return the versions of the newest release that metadata.yaml of the source does not have."""
    there, here = _texts(newest), _texts(written)
    return tuple(VersionChange(key, there[key], here.get(key, ""), "") for key in there if here.get(key) != there[key])


def _new(metadata: Metadata, reason: str) -> NextRelease:
    changes = tuple(VersionChange(key, "", after, reason) for key, after in _texts(metadata).items())
    return NextRelease(metadata, changes)


def _texts(metadata: Metadata) -> Mapping[str, str]:
    texts = {
        "clusterStack": metadata.cluster_stack.dot,
        "clusterAddon": metadata.cluster_addon.dot,
        "nodeImage": metadata.node_image.dot if metadata.node_image else "",
    }
    return texts | ({"clusterClass": metadata.cluster_class.dot} if metadata.cluster_class else {})


def _component(component: str, before: StackVersion | None, reason: str) -> VersionChange:
    if before is None:
        return VersionChange(component, "", "v1", "the previous release has none")
    after = next_stable(before) if reason else before
    return VersionChange(component, before.dot, after.dot, reason or "unchanged")


def _is_same(source: StackSource, before: PreviousRelease) -> bool:
    # stack.yaml may name only a minor: then the patch changes without any file.
    same = source.hashes.cluster_stack == before.hashes.cluster_stack
    return same and source.kubernetes == before.metadata.kubernetes


def _stack_changes(source: StackSource, before: PreviousRelease) -> str:
    old = before.metadata.kubernetes
    reasons = [f"Kubernetes {old} -> {source.kubernetes}"] if old != source.kubernetes else []
    reasons += [_listed(before.changed)] if before.changed else []
    # A release does not contain the files of its node images.
    reasons += filter(None, [_node_image_changes(source.hashes, before)])
    if reasons:
        return ", ".join(reasons)
    known = bool(before.hashes.cluster_stack)
    return "a file changed that is not part of releases" if known else f"{before.name} has no hash of its source"


def _addon_changes(hashes: Hashes, before: PreviousRelease) -> str:
    """Describe the changes of the addons; empty if there are none."""
    old, reasons = before.hashes, []
    if hashes.cluster_addon_dir != old.cluster_addon_dir:
        reasons.append(_directory_changes("cluster-addon/", before, known=bool(old.cluster_addon_dir)))
    elif hashes.cluster_addon_pinned != old.cluster_addon_pinned:
        reasons.append("the versions of addons in versions.yaml or stack.yaml changed")
    if hashes.cluster_addon_values != old.cluster_addon_values:
        reasons.append("cluster-addon-values.yaml changed")
    return ", ".join(reasons)


def _node_image_changes(hashes: Hashes, before: PreviousRelease) -> str:
    """Describe the changes of the node images; empty if there are none."""
    pairs = (
        ("node-image/", hashes.node_image_dir, before.hashes.node_image_dir),
        ("node-images/", hashes.node_images_dir, before.hashes.node_images_dir),
    )
    return ", ".join(_directory_changes(name, before, known=bool(old)) for name, new, old in pairs if new != old)


def _class_changes(hashes: Hashes, before: PreviousRelease) -> str:
    """Describe the changes of the class; empty if there are none."""
    old = before.hashes.cluster_class_dir
    return "" if hashes.cluster_class_dir == old else _directory_changes("cluster-class/", before, known=bool(old))


def _directory_changes(directory: str, before: PreviousRelease, *, known: bool) -> str:
    files = [path for path in before.changed if path.startswith(directory)]
    if files:
        return _listed(files)
    return f"{directory} changed" if known else f"{before.name} has no hash of {directory}"


def _listed(files: Collection[str]) -> str:
    shown = list(files)[:NAMED_FILES]
    rest = f" and {len(files) - len(shown)} more" if len(files) > len(shown) else ""
    return f"{', '.join(shown)}{rest} changed"
