"""``kubeVersion`` of Helm charts as ranges of Kubernetes releases."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

from clusterstacks.domain.ranges import Range
from clusterstacks.domain.semver import SemVer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.domain.semver import Constraint

MINORS: Final = 60
PATCHES: Final = 50
"""Minors and patches looked at (arbitrary: Kubernetes makes three minors a year and some 17 patches of each)."""


def kubernetes_range(constraint: Constraint) -> Range | None:
    """Write a constraint on Kubernetes versions as a range; None where it allows no release, or every one.

    Constraints have more to say than ranges (``^1.25``, ``1.x``, bounds at pre-releases), so the range is found by
    asking the constraint about every release there may be.
    """
    spans = [f"{low} {high}".strip() for low, high in _spans(constraint)]
    return None if spans in ([], [">=1.0"]) else Range.parse(" || ".join(spans))


def _spans(constraint: Constraint) -> Iterator[tuple[str, str]]:
    begin = ""
    for minor, patch in product(range(MINORS), range(PATCHES)):
        allowed = constraint.allows(SemVer(1, minor, patch))
        if allowed and not begin:
            begin = f">={_text(minor, patch)}"
        elif begin and not allowed:
            yield begin, f"<{_text(minor, patch)}"
            begin = ""
    if begin:
        yield begin, ""


def _text(minor: int, patch: int) -> str:
    return f"1.{minor}.{patch}" if patch else f"1.{minor}"
