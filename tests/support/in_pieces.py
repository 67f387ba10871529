"""Runs work that is split into pieces at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator

T = TypeVar("T")


def completed(work: Generator[None, None, T]) -> T:
    """Run all pieces in order."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
