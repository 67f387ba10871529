"""The published releases of one stack, and the next beta version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.names import release_named
from clusterstacks.model.versions import STABLE, StackVersion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.model.names import ReleaseName

BETA: Final = "beta"


@dataclass(frozen=True, slots=True)
class PublishedReleases:
    """The releases of one stack and Kubernetes minor in a remote."""

    versions: tuple[StackVersion, ...]
    foreign: int
    """Number of names in the remote that are not names of releases."""

    def newest(self, channel: str, major: int | None = None) -> StackVersion | None:
        """Return the highest version of a channel; of one major, if given."""
        matching = [
            version for version in self.versions if version.channel == channel and major in (None, version.major)
        ]
        return max(matching, default=None)


def read_listing(names: Iterable[str], stack: ReleaseName) -> PublishedReleases:
    """Select the releases of one stack from the names in a remote, which may also contain anything else.

    ``stack`` is any release of the stack and minor.
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
    """Return the major of the next beta.

    It is the next stable major, or 0 while there is no stable release. Betas of a higher major are continued, so that
    beta versions always increase.
    """
    stable = listing.newest(STABLE)
    begun = [version.major for version in listing.versions if version.channel == BETA and is_counted(version)]
    return max([stable.major + 1 if stable else 0, *begun])


def is_counted(version: StackVersion) -> bool:
    """Return whether the build of a version is a number, as in betas."""
    return version.build.isdecimal()
