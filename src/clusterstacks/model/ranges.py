"""Version ranges of compatibility statements: ``>=1.30 <1.36 || =1.38.2``."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import Node, shown
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from clusterstacks.model.versions import KubernetesVersion

MAX_CHARACTERS: Final = 512
"""Longest accepted range in characters. Arbitrary; the longest of the built-in data has 40."""

Numbers = tuple[int, int, int]
"""Major, minor and patch number."""

_COMPARATOR = re.compile(r"(>=|>|<=|<|=)(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})(?:\.(0|[1-9][0-9]{0,8}))?")
_HOLDS: Final[dict[str, Callable[[Numbers, Numbers], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "=": operator.eq,
}


class InvalidRange(SpecError):
    """The text is not a range, or the range is empty."""

    def __init__(self, text: object, problem: str = "is not a valid version range") -> None:
        super().__init__("InvalidRange", f"{shown(text)} {problem} (expected for example '>=1.30 <1.36' or '=1.38.2')")


@dataclass(frozen=True, slots=True)
class Comparator:
    """A comparator (``>=``, ``>``, ``<=``, ``<`` or ``=``) with its version."""

    symbol: str
    numbers: Numbers

    def holds(self, numbers: Numbers) -> bool:
        """Return whether a release is on this side of the version."""
        return _HOLDS[self.symbol](numbers, self.numbers)


@dataclass(frozen=True, slots=True)
class Range:
    """A set of releases; ranges do not contain pre-releases.

    At least one of the alternatives must match, with all of its comparators.
    """

    text: str
    alternatives: tuple[tuple[Comparator, ...], ...] = field(repr=False, compare=False)

    @classmethod
    def parse(cls, text: object) -> Range:
        """Parse a range: comparators separated by one blank, alternatives by ``||`` between blanks.

        ``X.Y`` means ``X.Y.0``, so ``<1.33`` excludes every release of 1.33. Raises InvalidRange.
        """
        if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
            raise InvalidRange(text)
        alternatives = tuple(
            tuple(_comparator(text, part) for part in alternative.split(" ")) for alternative in text.split(" || ")
        )
        if not any(_is_possible(comparators) for comparators in alternatives):
            raise InvalidRange(text, "contains no version")
        return cls(text, alternatives)

    @classmethod
    def at(cls, node: Node) -> Range:
        """Parse a range in a document; the message of its DocumentError names file and field."""
        try:
            return cls.parse(node.value)
        except InvalidRange as error:
            raise node.error(f"{node.file}: {node.field}: {error.message}") from None

    def holds(self, numbers: Numbers, pre: str = "") -> bool:
        """Return whether a version is in the range; ``pre`` are the identifiers of a pre-release."""
        return not pre and any(all(bound.holds(numbers) for bound in bounds) for bounds in self.alternatives)

    def contains(self, kubernetes: KubernetesVersion) -> bool:
        """Return whether a Kubernetes version is in the range; build metadata (``+k3s1``) is ignored."""
        return self.holds((kubernetes.major, kubernetes.minor, kubernetes.patch), kubernetes.pre)

    def __str__(self) -> str:
        return self.text


def _comparator(text: str, part: str) -> Comparator:
    match = _COMPARATOR.fullmatch(part)
    if match is None:
        raise InvalidRange(text)
    return Comparator(match[1], (int(match[2]), int(match[3]), int(match[4] or 0)))


def _is_possible(comparators: tuple[Comparator, ...]) -> bool:
    """Return whether a release satisfies all: if any does, one at or right above a bound does."""
    candidates = [(0, 0, 0)]
    for bound in comparators:
        major, minor, patch = bound.numbers
        candidates += [bound.numbers, (major, minor, patch + 1)]
    return any(all(bound.holds(candidate) for bound in comparators) for candidate in candidates)


def merged(ranges: Iterable[Range]) -> str:
    """Join ranges, each once; adjacent ones become one.

    Alternatives of another form than ``>=1.30 <1.36`` are kept.
    """
    spans: list[tuple[Numbers, Numbers]] = []
    words: dict[Numbers, str] = {}
    others: dict[str, None] = {}
    for range_ in ranges:
        for comparators, text in zip(range_.alternatives, range_.text.split(" || "), strict=True):
            if [bound.symbol for bound in comparators] == [">=", "<"]:
                spans.append((comparators[0].numbers, comparators[1].numbers))
                words.update(zip(spans[-1], (bound.lstrip("<>=") for bound in text.split(" ")), strict=True))
            else:
                others[text] = None
    return " || ".join([*(f">={words[low]} <{words[high]}" for low, high in _joined(spans)), *others])


def _joined(spans: Iterable[tuple[Numbers, Numbers]]) -> list[tuple[Numbers, Numbers]]:
    joined: list[tuple[Numbers, Numbers]] = []
    for low, high in sorted(spans):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(high, joined[-1][1])
        else:
            joined.append((low, high))
    return joined
