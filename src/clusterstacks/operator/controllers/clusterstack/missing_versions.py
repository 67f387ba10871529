"""Describes the versions that a source of releases lacks, and the versions that it has."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import and_more
from clusterstacks.model.names import release_named
from clusterstacks.release.published_releases import read_listing

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.versions import StackVersion
    from clusterstacks.operator.controllers.clusterstack.retention import Subscription

NAMES_SHOWN: Final = 5
"""Versions or stacks that a message names; arbitrary."""

STACKS_COMPARED: Final = 1000
"""Stacks of a source that are compared for similar names. Arbitrary: takes some milliseconds."""


def lacking(wanted: Collection[ReleaseName], listed: Collection[str], source: str) -> str:
    """Return which wanted releases of one stack and minor a source lacks, and which it has; empty when it has all.

    ``wanted`` are releases that are not ready, ``listed`` the names of all releases of the source, foreign ones
    included; ``source`` is its address.
    """
    missing = sorted(name for name in wanted if name.release not in listed)
    if not missing:
        return ""
    present = read_listing(listed, missing[0]).versions
    if present:
        return f"{_missing_names(missing)} not in {source}: of {missing[0].series} it has {_versions(present)}"
    series = missing[0].series
    return f"{_missing_names(missing)} not in {source}, which has no release of {series}{_similar(missing[0], listed)}"


def nothing(subscription: Subscription, example: ReleaseName, listed: Collection[str], source: str) -> str:
    """Return the message that a source has no release for a ClusterStack without versions.

    ``example`` is any release of the stack and minor; ``listed`` and ``source`` as for :func:`lacking`.
    """
    present = read_listing(listed, example).versions
    has = f"; of {example.series} it has {_versions(present)}" if present else _similar(example, listed)
    return (
        f"{source} has no release {example.series}-* on channel {subscription.channel}, and spec.versions is empty{has}"
        "; publish one, or correct provider, name, kubernetesVersion or channel in the spec"
    )


def _missing_names(missing: Sequence[ReleaseName]) -> str:
    names = and_more([name.release for name in missing], NAMES_SHOWN)
    return f"release {names} is" if len(missing) == 1 else f"releases {names} are"


def _versions(present: Sequence[StackVersion]) -> str:
    """Name the newest of versions in ascending order."""
    names = ", ".join(version.dot for version in present[-NAMES_SHOWN:])
    return f"{names} and {len(present) - NAMES_SHOWN} more" if len(present) > NAMES_SHOWN else names


def _similar(wanted: ReleaseName, listed: Collection[str]) -> str:
    names = (release_named(text) for text in sorted(listed))
    stacks = dict.fromkeys(name.series for name in names if name is not None)
    similar = get_close_matches(wanted.series, [*stacks][:STACKS_COMPARED], NAMES_SHOWN)
    return f"; similar: {', '.join(similar)}" if similar else ""
