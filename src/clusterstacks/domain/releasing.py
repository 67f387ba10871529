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

What cannot be compared counts as changed: a release too many is better than a change nobody gets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.metadata import Metadata
from clusterstacks.domain.names import InvalidName, ReleaseName, parse_release
from clusterstacks.domain.versions import STABLE, StackVersion

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusterstacks.domain.hashes import Hashes
    from clusterstacks.domain.versions import KubernetesVersion

BETA: Final = "beta"
SHA: Final = "sha"

NAMED_FILES: Final = 3
"""How many changed files a reason names (arbitrary: one line of a terminal)."""


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


@dataclass(frozen=True, slots=True)
class Source:
    """What is to be released.

    Args:
        kubernetes: The version it is made for.
        hashes: Of the source directory.
    """

    kubernetes: KubernetesVersion
    hashes: Hashes


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The release the next one is compared with.

    Args:
        name: Its name.
        metadata: Its versions.
        hashes: Of the source it was built from; empty where nobody knows them.
        changed: Paths below the stack directory whose content is known to differ from the release's. It explains a
            decision and takes none: a release does not hold every file of its source.
    """

    name: ReleaseName
    metadata: Metadata
    hashes: Hashes
    changed: tuple[str, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Listing:
    """What a remote holds of one stack and Kubernetes minor.

    Args:
        versions: Of its releases, in order.
        foreign: How many names in the remote are none of a release (INCUMBENT D41).
    """

    versions: tuple[StackVersion, ...]
    foreign: int

    def newest(self, channel: str, major: int | None = None) -> StackVersion | None:
        """Return the highest version of a channel, of one major where that is given."""
        found = [one for one in self.versions if one.channel == channel and major in (None, one.major)]
        return max(found, default=None)


def read_listing(names: Iterable[str], stack: ReleaseName) -> Listing:
    """Sort the names of a remote, which may hold other stacks and anything else, too.

    Args:
        names: Tags or names of releases.
        stack: Any release of the stack and minor in question.
    """
    versions, foreign = set(), 0
    for text in names:
        try:
            name = parse_release(text)
        except InvalidName:
            foreign += 1
            continue
        if name.series == stack.series:
            versions.add(name.version)
    return Listing(tuple(sorted(versions)), foreign)


def stable_release(source: Source, before: Predecessor | None) -> NextRelease:
    """Decide the versions of the next stable release.

    Raises:
        NothingChanged: The source is that of ``before``.
    """
    if before is None:
        return uniform_release(source.kubernetes, StackVersion(1), "first release")
    if _same(source, before):
        raise NothingChanged(before.name)
    old = before.metadata
    moves = (
        Move("clusterStack", old.cluster_stack.dot, next_stable(old.cluster_stack).dot, _why_stack(source, before)),
        _component("clusterAddon", old.cluster_addon, _why_addon(source.hashes, before)),
        _component("nodeImage", old.node_image, _why_node_image(source.hashes, before)),
    )
    stack, addon, node_image = (StackVersion.parse(move.after) for move in moves)
    return NextRelease(Metadata(stack, source.kubernetes, addon, node_image), moves)


def beta_release(source: Source, listing: Listing, before: Predecessor | None) -> NextRelease:
    """Decide the version of the next beta.

    Args:
        source: What is released.
        listing: Everything published of the stack.
        before: The newest beta of the same number, see :func:`beta_line`.

    Raises:
        NothingChanged: The source is that of ``before``.
    """
    if before is not None and _same(source, before):
        raise NothingChanged(before.name)
    major = beta_line(listing)
    stable = listing.newest(STABLE)
    builds = [int(one.build) for one in listing.versions if one.channel == BETA and one.major == major and _counts(one)]
    after = StackVersion(major, BETA, str(max(builds, default=0) + 1))
    reason = (
        f"on the way to v{major}, {stable} is the newest stable one" if stable else "there is no stable release yet"
    )
    return uniform_release(source.kubernetes, after, reason, before.metadata if before else None)


def beta_line(listing: Listing) -> int:
    """Return the number the next beta has before its build.

    That is the next stable number, or 0 while there is no stable release. A line of betas somebody has begun above
    that is gone on with, so that betas always grow.
    """
    stable = listing.newest(STABLE)
    begun = [one.major for one in listing.versions if one.channel == BETA and _counts(one)]
    return max([stable.major + 1 if stable else 0, *begun])


def hash_release(source: Source) -> NextRelease:
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


def _counts(version: StackVersion) -> bool:
    return version.build.isdecimal()


def _same(source: Source, before: Predecessor) -> bool:
    # stack.yaml may name a minor only: then the patch moves though no file does.
    same = source.hashes.cluster_stack == before.hashes.cluster_stack
    return same and source.kubernetes == before.metadata.kubernetes


def _component(component: str, before: StackVersion | None, reason: str) -> Move:
    if before is None:
        return Move(component, "", "v1", "the release before has none")
    after = next_stable(before) if reason else before
    return Move(component, before.dot, after.dot, reason or "unchanged")


def _why_stack(source: Source, before: Predecessor) -> str:
    old = before.metadata.kubernetes
    reasons = [f"Kubernetes {old} -> {source.kubernetes}"] if old != source.kubernetes else []
    reasons += [_listed(before.changed)] if before.changed else []
    # No release holds the files node images are made of.
    reasons += filter(None, [_why_node_image(source.hashes, before)])
    if reasons:
        return ", ".join(reasons)
    known = bool(before.hashes.cluster_stack)
    return "a file changed that no release holds" if known else f"{before.name} has no hash of its source"


def _why_addon(hashes: Hashes, before: Predecessor) -> str:
    old, reasons = before.hashes, []
    if hashes.cluster_addon_dir != old.cluster_addon_dir:
        reasons.append(_why_directory("cluster-addon/", before, known=bool(old.cluster_addon_dir)))
    elif hashes.cluster_addon_pinned != old.cluster_addon_pinned:
        reasons.append("the versions of addons in versions.yaml or stack.yaml changed")
    if hashes.cluster_addon_values != old.cluster_addon_values:
        reasons.append("cluster-addon-values.yaml changed")
    return ", ".join(reasons)


def _why_node_image(hashes: Hashes, before: Predecessor) -> str:
    pairs = (
        ("node-image/", hashes.node_image_dir, before.hashes.node_image_dir),
        ("node-images/", hashes.node_images_dir, before.hashes.node_images_dir),
    )
    return ", ".join(_why_directory(name, before, known=bool(old)) for name, new, old in pairs if new != old)


def _why_directory(directory: str, before: Predecessor, *, known: bool) -> str:
    files = [path for path in before.changed if path.startswith(directory)]
    if files:
        return _listed(files)
    return f"{directory} changed" if known else f"{before.name} has no hash of {directory}"


def _listed(files: Collection[str]) -> str:
    shown = list(files)[:NAMED_FILES]
    rest = f" and {len(files) - len(shown)} more" if len(files) > len(shown) else ""
    return f"{', '.join(shown)}{rest} changed"
