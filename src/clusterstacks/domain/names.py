"""Names of releases and of cluster classes: one value with both spellings (INCUMBENT D9, D10, D31)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError
from clusterstacks.domain.versions import KubernetesMinor, StackVersion

if TYPE_CHECKING:
    from collections.abc import Callable

_PART = re.compile(r"[a-z0-9]+")


class InvalidName(SpecError):
    """A text that is no name of a release or class, or parts that make none."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidName", message)


@dataclass(frozen=True, slots=True, order=True)
class ReleaseName:
    """What identifies a release of a cluster stack; sorts by stack, Kubernetes minor, then version.

    Args:
        provider: The infrastructure provider, e.g. ``openstack``.
        stack: The cluster stack's name, e.g. ``scs``.
        kubernetes: The minor release the stack is made for.
        version: The release's own version.

    Raises:
        InvalidName: Provider or stack holds anything but lower-case letters and digits. A dash or dot would give
            names that cannot be taken apart again, other characters are refused by Kubernetes.
    """

    provider: str
    stack: str
    kubernetes: KubernetesMinor
    version: StackVersion

    def __post_init__(self) -> None:
        for what, part in (("provider", self.provider), ("cluster stack name", self.stack)):
            if not _PART.fullmatch(part):
                raise InvalidName(f"{shown(part)} is no {what}: use lower-case letters and digits only, no dash")

    @property
    def series(self) -> str:
        """The part all releases of one stack and minor share: ``openstack-scs-1-34``."""
        return f"{self.provider}-{self.stack}-{self.kubernetes.major}-{self.kubernetes.minor}"

    @property
    def release(self) -> str:
        """The name of release directory, tag and ClusterStackRelease: ``openstack-scs-1-34-v0-sha-abc1234``."""
        return f"{self.series}-{self.version.dash}"

    @property
    def class_name(self) -> str:
        """The name of the ClusterClass: ``openstack-scs-1-34-v0-sha.abc1234``."""
        return f"{self.series}-{self.version.dot}"

    def __str__(self) -> str:
        return self.release


def parse_release(text: object) -> ReleaseName:
    """Read the name of a release, which holds the version in dash form.

    Raises:
        InvalidName: The text has another shape.
    """
    return _parse(text, StackVersion.parse_dash, "release", "openstack-scs-1-34-v0-beta-1")


@lru_cache(maxsize=4096)  # listings of sources are sorted out again and again
def release_named(text: str) -> ReleaseName | None:
    """Read the name of a release; None for any other text, as tags and directories of other people have."""
    try:
        return parse_release(text)
    except InvalidName:
        return None


def parse_class(text: object) -> ReleaseName:
    """Read the name of a cluster class, which holds the version in dot form.

    Raises:
        InvalidName: The text has another shape, as every class that comes from no cluster stack has.
    """
    return _parse(text, StackVersion.parse_dot, "cluster class", "openstack-scs-1-34-v0-beta.1")


def _parse(text: object, version: Callable[[str], StackVersion], what: str, example: str) -> ReleaseName:
    way_out = f"write <provider>-<stack>-<major>-<minor>-<version>, like {example}"
    parts = text.split("-", 4) if isinstance(text, str) else []
    if len(parts) != 5:
        raise InvalidName(f"{shown(text)} is no {what} name: {way_out}")
    try:
        return ReleaseName(parts[0], parts[1], KubernetesMinor.parse(f"{parts[2]}.{parts[3]}"), version(parts[4]))
    except SpecError as error:
        raise InvalidName(f"{shown(text)} is no {what} name ({error}): {way_out}") from None
