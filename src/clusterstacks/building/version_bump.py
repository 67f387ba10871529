"""Which versions the next release of a cluster stack gets, and why (FORMATS sections 6 and 7).

====== ============================================================================================================
stable The stack's number grows by one with every release. A component's number grows when its files changed, so an
       addon version says which releases deliver the same addons. The first release of all is v1.
beta   A build on the way to a stable release: ``v4-beta.1``, ``v4-beta.2`` while v3 is the newest stable one, and
       ``v0-beta.1``, ``v0-beta.2`` while there is none. Only the build grows: a beta never moves the number before it,
       and only a stable release does (INCUMBENT D49). The components have the version of the beta.
hash   ``v0-sha.<first 7 of the stack's hash>`` for stack and components: the same source, the same version.
custom What the author says.
====== ============================================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from clusterstacks.building.release_changes import is_same, why_addon, why_node_image, why_stack
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.metadata import Metadata
from clusterstacks.domain.versions import STABLE, StackVersion
from clusterstacks.releases.published_releases import BETA, beta_line, is_counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.building.release_changes import Predecessor, StackSource
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.releases.published_releases import PublishedReleases

SHA: Final = "sha"


class Mode(Enum):
    """How versions are chosen; see the module."""

    STABLE = "stable"
    HASH = "hash"
    CUSTOM = "custom"
    BETA = "beta"


class NothingChanged(SpecError):
    """The source is what the newest release was built from."""

    def __init__(self, name: object) -> None:
        super().__init__(
            "NothingChanged", f"nothing changed since {name}: edit the stack, or use --mode custom or hash"
        )


class NoStackChanged(NothingChanged):
    """Nothing is to be built in a whole repository."""

    def __init__(self) -> None:
        SpecError.__init__(self, "NothingChanged", "nothing was built: no stack changed since its newest release")


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of one version.

    Args:
        component: As metadata.yaml calls it, e.g. ``clusterAddon``.
        before: In the release before; empty when there is none.
        after: In the next one; equal to ``before`` when it stays.
        reason: Why, as the end of a sentence.
    """

    component: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class NextRelease:
    """The decision: the versions, and why each is what it is."""

    metadata: Metadata
    moves: tuple[Move, ...]


def stable_release(source: StackSource, before: Predecessor | None) -> NextRelease:
    """Decide the versions of the next stable release.

    Raises:
        NothingChanged: The source is that of ``before``.
    """
    if before is None:
        return uniform_release(source.kubernetes, StackVersion(1), "first release")
    if is_same(source, before):
        raise NothingChanged(before.name)
    old = before.metadata
    moves = (
        Move("clusterStack", old.cluster_stack.dot, next_stable(old.cluster_stack).dot, why_stack(source, before)),
        _component("clusterAddon", old.cluster_addon, why_addon(source.hashes, before)),
        _component("nodeImage", old.node_image, why_node_image(source.hashes, before)),
    )
    stack, addon, node_image = (StackVersion.parse(move.after) for move in moves)
    return NextRelease(Metadata(stack, source.kubernetes, addon, node_image), moves)


def beta_release(source: StackSource, listing: PublishedReleases, before: Predecessor | None) -> NextRelease:
    """Decide the version of the next beta.

    Args:
        source: What is released.
        listing: Everything published of the stack.
        before: The newest beta of the same number, see :func:`beta_line`.

    Raises:
        NothingChanged: The source is that of ``before``.
    """
    if before is not None and is_same(source, before):
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
    return uniform_release(source.kubernetes, after, reason, before.metadata if before else None)


def hash_release(source: StackSource) -> NextRelease:
    """Return the version that the content of the source gives."""
    version = StackVersion(0, SHA, source.hashes.short)
    return uniform_release(source.kubernetes, version, "the hash of the source")


def custom_release(metadata: Metadata) -> NextRelease:
    """Take the versions the author gave."""
    return _new(metadata, "as given")


def uniform_release(
    kubernetes: KubernetesVersion, version: StackVersion, reason: str, before: Metadata | None = None
) -> NextRelease:
    """Give the stack and all components one version."""
    release = _new(Metadata(version, kubernetes, version, version), reason)
    if before is None:
        return release
    old = _texts(before)
    return replace(release, moves=tuple(replace(move, before=old[move.component]) for move in release.moves))


def next_stable(version: StackVersion) -> StackVersion:
    """Return the stable version behind another one: v4 after v3, and v4 after v4-beta.2, which is on the way to it."""
    return StackVersion(version.major + 1 if version.channel == STABLE else max(version.major, 1))


def disagreement(written: Metadata, newest: Metadata) -> tuple[Move, ...]:
    """Tell where the metadata.yaml of a source says something else than the newest release."""
    there, here = _texts(newest), _texts(written)
    return tuple(Move(key, there[key], here[key], "") for key in here if here[key] != there[key])


def _new(metadata: Metadata, reason: str) -> NextRelease:
    return NextRelease(metadata, tuple(Move(key, "", after, reason) for key, after in _texts(metadata).items()))


def _texts(metadata: Metadata) -> Mapping[str, str]:
    return {
        "clusterStack": metadata.cluster_stack.dot,
        "clusterAddon": metadata.cluster_addon.dot,
        "nodeImage": metadata.node_image.dot if metadata.node_image else "",
    }


def _component(component: str, before: StackVersion | None, reason: str) -> Move:
    if before is None:
        return Move(component, "", "v1", "the release before has none")
    after = next_stable(before) if reason else before
    return Move(component, before.dot, after.dot, reason or "unchanged")
