"""Versions of cluster stacks and of Kubernetes: parsed once, compared as values.

Grammar and order: FORMATS section 6. Nothing else in the program splits or compares version texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering
from typing import TypeAlias

from clusterstacks.domain.documents import shown
from clusterstacks.domain.errors import SpecError

STABLE = "stable"
"""The channel of a version that names none."""

MAX_CHARACTERS = 253
"""Longest version text read; no Kubernetes object name, in which versions end up, may be longer."""

# Leading zeros are refused: v01 and v1 would be one version under two release names.
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
    """A text that is no version of the kind asked for."""

    def __init__(self, message: str) -> None:
        super().__init__("InvalidVersion", message)


def _match(pattern: re.Pattern[str], text: object, refusal: str) -> re.Match[str]:
    found = pattern.fullmatch(text) if isinstance(text, str) and len(text) <= MAX_CHARACTERS else None
    if found is None:
        raise InvalidVersion(f"{shown(text)} {refusal}")
    return found


@total_ordering
@dataclass(frozen=True, slots=True)
class StackVersion:
    """A version of a cluster stack or of one of its components: ``v3``, ``v0-sha.abc1234``, ``v1-beta.10``.

    Inside a channel builds compare as numbers where they are numbers (``beta.9 < beta.10``, INCUMBENT D50) and a
    number comes before a word. Between channels there is no meaning in the order: sorting groups by channel name.

    Args:
        major: The number behind the ``v``.
        channel: ``stable``, or the word of a pre-release: sha, git, ttl, beta, custom, anything.
        build: The word behind the channel; always empty in the stable channel, as ``v1-stable.3`` is ``v1``.
    """

    major: int
    channel: str = STABLE
    build: str = ""

    @classmethod
    def parse(cls, text: object) -> StackVersion:
        """Read a version in its dot form (``v0-sha.abc``) or its dash form (``v0-sha-abc``).

        Raises:
            InvalidVersion: The text is neither.
        """
        return cls._read(_DOT_OR_DASH, text, "v0-beta.1")

    @classmethod
    def parse_dot(cls, text: object) -> StackVersion:
        """Read the dot form only; raises as :meth:`parse`."""
        return cls._read(_DOT, text, "v0-beta.1")

    @classmethod
    def parse_dash(cls, text: object) -> StackVersion:
        """Read the dash form only; raises as :meth:`parse`."""
        return cls._read(_DASH, text, "v0-beta-1")

    @classmethod
    def _read(cls, pattern: re.Pattern[str], text: object, example: str) -> StackVersion:
        found = _match(pattern, text, f"is no cluster stack version: write it like v3 or {example}")
        major, channel, build = int(found[1]), found[2] or STABLE, found[3] or ""
        return cls(major, channel, "" if channel == STABLE else build)

    @property
    def dot(self) -> str:
        """The form of class names, chart versions and everything shown to users: ``v0-sha.abc1234``."""
        return self._spelled(".")

    @property
    def dash(self) -> str:
        """The form of release names and tags: ``v0-sha-abc1234``."""
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
        # The text itself breaks the tie between beta.1 and beta.01, which are two versions.
        return self.channel, self.major, (not numeric, int(self.build) if numeric else 0, self.build)


@dataclass(frozen=True, slots=True, order=True)
class KubernetesMinor:
    """A Kubernetes minor release, the series a cluster stack is made for: ``1.34``."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: object) -> KubernetesMinor:
        """Read ``1.34`` or ``v1.34``.

        Raises:
            InvalidVersion: The text is neither.
        """
        found = _match(_MINOR, text, "is no Kubernetes minor version: write it like 1.34, in quotes in YAML")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@total_ordering
@dataclass(frozen=True, slots=True)
class KubernetesVersion:
    """A Kubernetes version: ``v1.34.7``, ``v1.36.0-rc.1``, ``v1.35.4+k3s1``.

    Args:
        major: Always 1 today.
        minor: The series, see :class:`KubernetesMinor`.
        patch: The number inside the series.
        pre: ``alpha.N``, ``beta.N`` or ``rc.N``: what Kubernetes itself publishes before a release.
        build: Any other suffix with its separator (``+k3s1``, ``-eks-1``), as distributions report it. It only
            breaks ties in the order.
    """

    major: int
    minor: int
    patch: int
    pre: str = ""
    build: str = ""

    @classmethod
    def parse(cls, text: object) -> KubernetesVersion:
        """Read a full version with or without the leading ``v``.

        Raises:
            InvalidVersion: A number is missing or is no number.
        """
        found = _match(_KUBERNETES, text, "is no Kubernetes version: write it like v1.34.7")
        return cls(int(found[1]), int(found[2]), int(found[3]), found[4] or "", found[5] or "")

    @property
    def text(self) -> str:
        """The spelling of Cluster API and metadata.yaml: with the leading ``v``."""
        pre = f"-{self.pre}" if self.pre else ""
        return f"v{self.major}.{self.minor}.{self.patch}{pre}{self.build}"

    @property
    def series(self) -> KubernetesMinor:
        """The minor release this version belongs to."""
        return KubernetesMinor(self.major, self.minor)

    def reaches(self, wanted: KubernetesVersion) -> bool:
        """Tell whether a control plane that reports this version has arrived at ``wanted``.

        A distribution's suffix in the report does not matter unless ``wanted`` names one too.
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
        # alpha, beta and rc are in the order of the alphabet; a version without any of them is the newest.
        return self.major, self.minor, self.patch, (not self.pre, word, int(number or 0))
