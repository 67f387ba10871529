"""Periodic listing of sources."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.http.errors import RateLimited
from clusterstacks.release.release_source import EnvelopeKind
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.periodic_listing import DEADLINE, SourceListings
from clusterstacks.release.sources.source_cache import SourceCache
from clusterstacks.release.sources.source_opener import SecretReader, SourceAccess, SourceOpener
from clusterstacks.release.sources.spec import SourceAddress, SourceSettings
from tests.support.fakes.api_server import FakeApi
from tests.support.virtual_time import VirtualClock, in_virtual_time

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.release.release_source import Evidence, ReleaseSource

ONE, TWO = ObjectKey("team", "one"), ObjectKey("team", "two")
MINUTE = timedelta(minutes=1)


def settings(place: str = "registry.example.org/a", interval: timedelta = MINUTE) -> SourceSettings:
    return SourceSettings(address=SourceAddress(source_kinds.OCI, place), interval=interval)


Times: TypeAlias = list[float]


class Source:
    """Answers with its names, fails with its error, or hangs; ``asked`` holds when it was asked."""

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()
        self.error: Exception | None = None
        self.hangs = False
        self.asked: Times = []

    async def list(self) -> tuple[str, ...]:
        self.asked.append(asyncio.get_running_loop().time())
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error
        return self.names

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        raise AssertionError(f"a listing asks for names only, not for {name} into {into}")

    async def digest(self, name: ReleaseName) -> str:
        raise AssertionError(f"a listing asks for names only, not for the digest of {name}")

    async def evidence(self, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:
        raise AssertionError(f"a listing asks for names only, not for the {kind} of {name}")

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        raise AssertionError(f"a listing asks for names only, not for {limit} bytes of {files} of {name}")

    def pauses(self) -> Sequence[float]:
        return [after - before for before, after in zip(self.asked, self.asked[1:], strict=False)]


@dataclass(frozen=True, kw_only=True)
class Opener(SourceOpener):
    """Opens the sources of a test by their place."""

    sources: Mapping[str, Source]

    async def open(self, address: SourceAddress, access: SourceAccess) -> tuple[ReleaseSource, HTTPClient | None]:  # noqa: ARG002
        return self.sources[address.place], None


@asynccontextmanager
async def listings(news: list[Collection[ObjectKey]], **sources: Source) -> AsyncIterator[SourceListings]:
    places = {f"registry.example.org/{name}": source for name, source in sources.items()}
    clock = VirtualClock()
    opener = Opener(secrets=SecretReader(FakeApi()), release_dir=Path("/nowhere"), environ={}, sources=places)
    made = SourceListings(SourceCache(opener, clock), clock, news.append)
    try:
        yield made
    finally:
        await made.close()


@in_virtual_time
async def test_followers_of_a_source_share_one_listing_and_are_notified_of_changes() -> None:
    news: list[Collection[ObjectKey]] = []
    source = Source()
    async with listings(news, a=source) as made:
        listing = made.follow(ONE, settings())
        assert made.follow(TWO, settings()) is listing
        assert not listing.is_read
        await asyncio.sleep(1)
        assert listing.names() == frozenset()
        assert news == [{ONE, TWO}]

        await asyncio.sleep(600)
        assert len(news) == 1
        source.names = ("v1",)
        await asyncio.sleep(80)
        assert listing.names() == {"v1"}
        assert news[1:] == [{ONE, TWO}]
        assert all(60 <= pause <= 75 for pause in source.pauses())


@in_virtual_time
async def test_failing_source_backs_off_to_ten_intervals_at_most() -> None:
    news: list[Collection[ObjectKey]] = []
    source = Source()
    source.error = DependencyError("Gone", "gone")
    async with listings(news, a=source) as made:
        listing = made.follow(ONE, settings())
        await asyncio.sleep(24 * 3600)
        with pytest.raises(DependencyError, match="gone"):
            listing.names()
        assert len(news) == 1
        pauses = source.pauses()
        assert pauses[0] < pauses[1] < pauses[2]
        assert all(600 <= pause <= 750 for pause in pauses[5:])

        source.error = None
        await asyncio.sleep(800)
        assert listing.names() == frozenset()
        assert len(news) == 2
        await asyncio.sleep(80)
        assert source.pauses()[-1] <= 75


@in_virtual_time
async def test_rate_limited_source_is_not_listed_until_the_given_time() -> None:
    source = Source()
    source.error = RateLimited("registry.example.org", timedelta(hours=1))
    async with listings([], a=source) as made:
        made.follow(ONE, settings())
        await asyncio.sleep(3599)
        assert len(source.asked) == 1
        await asyncio.sleep(2)
        assert len(source.asked) == 2


@in_virtual_time
async def test_hanging_source_is_asked_once_and_delays_no_other() -> None:
    news: list[Collection[ObjectKey]] = []
    hanging, good = Source(), Source()
    hanging.hangs, good.names = True, ("v1",)
    async with listings(news, a=hanging, b=good) as made:
        slow = made.follow(ONE, settings())
        quick = made.follow(TWO, settings("registry.example.org/b"))
        await asyncio.sleep(DEADLINE.total_seconds() + 1)
        assert quick.names() == {"v1"}
        with pytest.raises(DependencyError, match="did not list its releases"):
            slow.names()
        await asyncio.sleep(300)
        assert len(hanging.asked) == 1
        assert len(good.asked) >= 5


@in_virtual_time
async def test_unfollowed_source_is_not_listed() -> None:
    source, other = Source(), Source()
    async with listings([], a=source, b=other) as made:
        made.follow(ONE, settings())
        made.follow(TWO, settings())
        await asyncio.sleep(1)
        made.unfollow(ONE)
        await asyncio.sleep(100)
        assert len(source.asked) == 2

        made.follow(TWO, settings("registry.example.org/b"))
        await asyncio.sleep(600)
        assert len(source.asked) == 2
        assert len(other.asked) >= 8


@in_virtual_time
async def test_unexpected_exception_of_a_source_is_logged_and_listing_continues(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()
    source.error = KeyError("oh")
    async with listings([], a=source) as made:
        listing = made.follow(ONE, settings())
        await asyncio.sleep(1)
        with pytest.raises(DependencyError, match="see the log"):
            listing.names()
        assert "please report it" in caplog.text
        source.error = None
        await asyncio.sleep(100)
        assert listing.names() == frozenset()


@pytest.mark.regression("SEC-14")
@in_virtual_time
async def test_long_failing_source_is_counted_and_reported_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, other = Source(), Source()
    source.error = DependencyError("Gone", "gone")
    async with listings([], a=source, b=other) as made:
        made.follow(ONE, settings())
        made.follow(TWO, settings("registry.example.org/b"))
        await asyncio.sleep(600)
        assert made.failing() == 1
        assert made.problem(settings().address) == ""
        await asyncio.sleep(3000)
        assert "has failed for" in made.problem(settings().address)
        assert made.problem(settings("registry.example.org/b").address) == ""
        assert made.problem(settings("registry.example.org/nobody-follows").address) == ""
        lines = [record for record in caplog.records if "cannot be listed: gone" in record.message]
        assert 3 <= len(lines) <= 6
        source.error = None
        await asyncio.sleep(800)
        assert (made.failing(), made.problem(settings().address)) == (0, "")
