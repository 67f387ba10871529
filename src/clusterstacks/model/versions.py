"""Versions of cluster stacks and of Kubernetes: parsed once, compared as values.

Other modules never split or compare the text of a version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import TypeAlias

from clusterstacks.model.documents import shown
from clusterstacks.model.errors import SpecError

STABLE = "stable"
"""Channel of a version without a channel."""

MAX_CHARACTERS = 253
"""Longest accepted version: the limit of Kubernetes object names, which contain versions."""

# Leading zeros are rejected: v01 and v1 would be the same version with two release names.
_NUMBER = r"0|[1-9][0-9]*"
_WORD = r"[0-9A-Za-z_]+"
_DOT = re.compile(rf"v({_NUMBER})(?:-({_WORD})\.({_WORD}))?")
_DASH = re.compile(rf"v({_NUMBER})(?:-({_WORD})-({_WORD}))?")
_DOT_OR_DASH = re.compile(rf"v({_NUMBER})(?:-({_WORD})[.-]({_WORD}))?")
_MINOR = re.compile(rf"v?({_NUMBER})\.({_NUMBER})")
_KUBERNETES = re.compile(
    rf"v?({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-((?:alpha|beta|rc)\.(?:{_NUMBER})))?([-+.][0-9A-Za-z.+-]+)?"
)

_BuildKey: TypeAlias = tuple[bool, int, str]


class InvalidVersion(SpecError):
    """The text is not a version of this kind."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidVersion", message)


def _match(pattern: re.Pattern[str], text: object, refusal: str) -> re.Match[str]:
    match = pattern.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_CHARACTERS else None
    if match is None:
        raise InvalidVersion(f"{shown(text)} {refusal}")
    return match


@total_ordering
@dataclass(frozen=True, slots=True)
class StackVersion:
    """A version of a cluster stack or of one of its components: ``v3``, ``v0-sha.abc1234``, ``v1-beta.10``.

    The channel is ``stable`` or a word such as sha, git, ttl, beta or custom. The build is empty in the stable channel,
    because ``v1-stable.3`` is ``v1``. Within a channel, numeric builds compare as numbers (``beta.9 < beta.10``) and
    precede words. Channels have no order; sorting groups by channel name.
    """

    major: int
    channel: str = STABLE
    build: str = ""

    @classmethod
    def parse(cls, text: object) -> StackVersion:
        """Parse the dot form (``v0-sha.abc``) or the dash form (``v0-sha-abc``); raise InvalidVersion for others."""
        return cls._read(_DOT_OR_DASH, text, "v0-beta.1")

    @classmethod
    def parse_dot(cls, text: object) -> StackVersion:
        """Parse the dot form only; raises as :meth:`parse`."""
        return cls._read(_DOT, text, "v0-beta.1")

    @classmethod
    def parse_dash(cls, text: object) -> StackVersion:
        """Parse the dash form only; raises as :meth:`parse`."""
        return cls._read(_DASH, text, "v0-beta-1")

    @classmethod
    def _read(cls, pattern: re.Pattern[str], text: object, example: str) -> StackVersion:
        match = _match(pattern, text, f"is not a valid cluster stack version (expected for example v3 or {example})")
        major, channel, build = int(match[1]), match[2] or STABLE, match[3] or ""
        return cls(major, channel, "" if channel == STABLE else build)

    @property
    def dot(self) -> str:
        """The form in class names, chart versions and output: ``v0-sha.abc1234``."""
        return self._spelled(".")

    @property
    def dash(self) -> str:
        """The form in release names and tags: ``v0-sha-abc1234``."""
        return self._spelled("-")

    def __str__(self) -> str:
        return self.dot

    def __lt__(self, other: StackVersion) -> bool:
        return self._key < other._key

    def _spelled(self, separator: str) -> str:
        return f"v{self.major}-{self.channel}{separator}{self.build}" if self.build else f"v{self.major}"

    @property
    def _key(self) -> tuple[str, int, _BuildKey]:
        numeric = self.build.isdecimal()
        # The text distinguishes beta.1 and beta.01, which are two versions.
        return self.channel, self.major, (not numeric, int(self.build) if numeric else 0, self.build)


@dataclass(frozen=True, slots=True, order=True)
class KubernetesMinor:
    """A Kubernetes minor version, for which a cluster stack is made: ``1.34``."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: object) -> KubernetesMinor:
        """Parse ``1.34`` or ``v1.34``; raise InvalidVersion for another form."""
        match = _match(
            _MINOR, text, "is not a valid Kubernetes minor version (expected for example 1.34, in quotes in YAML)"
        )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@total_ordering
@dataclass(frozen=True, slots=True)
class KubernetesVersion:
    """A Kubernetes version: ``v1.34.7``, ``v1.36.0-rc.1``, ``v1.35.4+k3s1``.

    ``pre`` is ``alpha.N``, ``beta.N`` or ``rc.N``, as Kubernetes publishes them before a release. ``build`` is any
    other suffix with its separator (``+k3s1``, ``-eks-1``), as distributions report it; in the order it only breaks
    ties.
    """

    major: int
    minor: int
    patch: int
    pre: str = ""
    build: str = ""

    @classmethod
    def parse(cls, text: object) -> KubernetesVersion:
        """Parse a full version with or without the leading ``v``; raise InvalidVersion for another form."""
        match = _match(_KUBERNETES, text, "is not a valid Kubernetes version (expected for example v1.34.7)")
        return cls(int(match[1]), int(match[2]), int(match[3]), match[4] or "", match[5] or "")

    @property
    def text(self) -> str:
        """The text as in Cluster API and metadata.yaml, with the leading ``v``."""
        pre = f"-{self.pre}" if self.pre else ""
        return f"v{self.major}.{self.minor}.{self.patch}{pre}{self.build}"

    @property
    def series(self) -> KubernetesMinor:
        """The minor version, for which stacks are made."""
        return KubernetesMinor(self.major, self.minor)

    def reaches(self, wanted: KubernetesVersion) -> bool:
        """Return whether a control plane that reports this version has reached ``wanted``.

        A distribution's suffix is ignored unless ``wanted`` has one.
        """
        if self._release != wanted._release:
            return self._release > wanted._release
        return wanted.build in ("", self.build)

    def __str__(self) -> str:
        return self.text

    def __lt__(self, other: KubernetesVersion) -> bool:
        return (self._release, self.build) < (other._release, other.build)

    @property
    def _release(self) -> tuple[int, int, int, tuple[bool, str, int]]:
        word, _, number = self.pre.partition(".")
        # alpha, beta and rc sort alphabetically; a version without them is the newest.
        return self.major, self.minor, self.patch, (not self.pre, word, int(number or 0))
