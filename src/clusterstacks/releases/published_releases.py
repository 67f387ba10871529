"""The releases of one stack among everything a remote holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.domain.names import release_named
from clusterstacks.domain.versions import STABLE, StackVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.names import ReleaseName

BETA: Final = "beta"


@dataclass(frozen=True, slots=True)
class PublishedReleases:
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


def read_listing(names: Iterable[str], stack: ReleaseName) -> PublishedReleases:
    """Sort the names of a remote, which may hold other stacks and anything else, too.

    Args:
        names: Tags or names of releases.
        stack: Any release of the stack and minor in question.
    """
    versions, foreign = set(), 0
    for text in names:
        name = release_named(text)
        if name is None:
            foreign += 1
        elif name.series == stack.series:
            versions.add(name.version)
    return PublishedReleases(tuple(sorted(versions)), foreign)


def beta_line(listing: PublishedReleases) -> int:
    """Return the number the next beta has before its build.

    That is the next stable number, or 0 while there is no stable release. A line of betas somebody has begun above
    that is gone on with, so that betas always grow.
    """
    stable = listing.newest(STABLE)
    begun = [one.major for one in listing.versions if one.channel == BETA and is_counted(one)]
    return max([stable.major + 1 if stable else 0, *begun])


def is_counted(version: StackVersion) -> bool:
    """Tell whether the build of a version is a number, as those of betas are."""
    return version.build.isdecimal()
