"""One listing of the release source for everybody."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from clusterstacks.controllers.clusterstack.listing import Listing
from clusterstacks.domain.errors import DependencyError
from clusterstacks.runtime.clock import SystemClock


class Source:
    """A source that answers once it is let."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.asked = 0
        self.answering = asyncio.Event()

    async def list(self) -> tuple[str, ...]:
        self.asked += 1
        await self.answering.wait()
        if self.errors:
            raise self.errors.pop()
        return ("a", "b")

    async def fetch(self, *_: object) -> None:
        raise NotImplementedError


async def test_calls_at_the_same_time_share_one_listing() -> None:
    source = Source()
    listing = Listing(source, SystemClock())
    calls = [asyncio.create_task(listing.names()) for _ in range(3)]
    await asyncio.sleep(0)
    source.answering.set()

    assert await asyncio.gather(*calls, listing.names()) == [{"a", "b"}] * 4
    assert source.asked == 1


async def test_a_source_that_hangs_is_asked_once_and_holds_nobody() -> None:
    source = Source()
    listing = Listing(source, SystemClock(), deadline=timedelta(milliseconds=10))

    for _ in range(3):
        with pytest.raises(DependencyError, match="gives no list"):
            await listing.names()
    assert source.asked == 1

    source.answering.set()
    assert await listing.names() == {"a", "b"}


async def test_a_failed_listing_is_repeated_at_the_next_call() -> None:
    source = Source(DependencyError("SourceUnavailable", "gone"))
    source.answering.set()
    listing = Listing(source, SystemClock())

    with pytest.raises(DependencyError, match="gone"):
        await listing.names()

    assert await listing.names() == {"a", "b"}
