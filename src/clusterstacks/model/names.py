"""Names of releases and of cluster classes: one value with two spellings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError
from clusterstacks.model.versions import InvalidVersion, KubernetesMinor, KubernetesVersion, StackVersion

if TYPE_CHECKING:
    from collections.abc import Callable

_PROVIDER = re.compile(r"[a-z0-9]+")
_STACK = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME = re.compile(r"([^-]+)-(.+)-([0-9]+)-([0-9]+)-(v.*)", re.DOTALL)
"""A name; the stack ends at the last ``-<major>-<minor>-v``, because no version contains that."""


class InvalidName(SpecError):
    """The text or its parts are not a valid name of a release or class."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidName", message)


@dataclass(frozen=True, slots=True, order=True)
class ReleaseName:
    """The identity of a release of a cluster stack, ordered by stack, Kubernetes minor, then version.

    Raises InvalidName if provider (e.g. ``openstack``) or stack (e.g. ``scs``) have other characters than lower-case
    letters and digits. The stack may have dashes between them; a provider with a dash could not be parsed.
    """

    provider: str
    stack: str
    kubernetes: KubernetesMinor
    version: StackVersion

    def __post_init__(self) -> None:
        if not _PROVIDER.fullmatch(self.provider):
            raise InvalidName(
                f"{shown(self.provider)} is not a valid provider: use only lower-case letters and digits, no dashes"
            )
        if not _STACK.fullmatch(self.stack):
            raise InvalidName(
                f"{shown(self.stack)} is not a valid cluster stack name: use only lower-case letters and digits, with "
                "single dashes between them"
            )

    @property
    def series(self) -> str:
        """The common prefix of all releases of a stack and minor: ``openstack-scs-1-34``."""
        return f"{self.provider}-{self.stack}-{self.kubernetes.major}-{self.kubernetes.minor}"

    @property
    def release(self) -> str:
        """The name of the directory, tag and ClusterStackRelease: ``openstack-scs-1-34-v0-sha-abc1234``."""
        return f"{self.series}-{self.version.dash}"

    @property
    def class_name(self) -> str:
        """The name of the ClusterClass: ``openstack-scs-1-34-v0-sha.abc1234``."""
        return f"{self.series}-{self.version.dot}"

    def same_stack(self, other: ReleaseName) -> bool:
        """Return whether both are releases of the same provider and stack, of any minor."""
        return (self.provider, self.stack) == (other.provider, other.stack)

    def __str__(self) -> str:
        return self.release


def parse_release(text: object) -> ReleaseName:
    """Parse the name of a release, with the version in dash form; raise InvalidName for anything else."""
    return _parse(text, StackVersion.parse_dash, "release", "openstack-scs-1-34-v0-beta-1")


@lru_cache(maxsize=4096)  # listings of sources are filtered repeatedly
def release_named(text: str) -> ReleaseName | None:
    """Parse the name of a release; None for any other text, such as unrelated tags and directories."""
    try:
        return parse_release(text)
    except InvalidName:
        return None


def parse_class(text: object) -> ReleaseName:
    """Parse the name of a class, with the version in dot form; raise InvalidName, as for classes of other origin."""
    return _parse(text, StackVersion.parse_dot, "cluster class", "openstack-scs-1-34-v0-beta.1")


def _parse(text: object, version: Callable[[str], StackVersion], what: str, example: str) -> ReleaseName:
    remedy = f"write <provider>-<stack>-<major>-<minor>-<version>, like {example}"
    parts = _NAME.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        raise InvalidName(f"{shown(text)} is not a valid {what} name: {remedy}")
    try:
        return ReleaseName(parts[1], parts[2], KubernetesMinor.parse(f"{parts[3]}.{parts[4]}"), version(parts[5]))
    except SpecError as error:
        raise InvalidName(f"{shown(text)} is not a valid {what} name ({error}): {remedy}") from None


def parse_target(text: str) -> ReleaseName | KubernetesVersion:
    """Read ``v1.36.1``, or the name of a release or of its class.

    Raises:
        SpecError: It is neither.
    """
    try:
        return KubernetesVersion.parse(text)
    except InvalidVersion:
        pass
    for parse in (parse_release, parse_class):
        try:
            return parse(text)
        except InvalidName:
            continue
    raise SpecError(
        "TargetInvalid",
        f"{text!r} is not a valid target (expected for example openstack-scs-1-36-v2 or v1.36.1)",
    )


def parse_goal(text: str) -> ReleaseName | KubernetesVersion | KubernetesMinor:
    """Read a target as :func:`parse_target`, or a Kubernetes minor (``1.36``), which stands for its newest version."""
    try:
        return KubernetesMinor.parse(text)
    except InvalidVersion:
        return parse_target(text)
