"""Fetches releases from the sources of their ClusterStacks: downloaded once, verified before use."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from clusterstacks.api.clusterstack import ClusterStack
from clusterstacks.charts.errors import ChartsUnavailable
from clusterstacks.charts.vendor import CHART_ERRORS, ChartDependencies
from clusterstacks.domain.errors import DependencyError, SpecError
from clusterstacks.http.errors import SourceUnavailable
from clusterstacks.releases.errors import DigestMismatch, ReleaseBroken, ReleaseNotFound
from clusterstacks.releases.release_source import Evidence
from clusterstacks.sources.owners import leading_stack
from clusterstacks.sources.pinned_digests import PinnedDigests, signers_of
from clusterstacks.sources.verification import SignatureVerdict, Unsigned, trusted_keys, uncovered, verify_release

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from clusterstacks.charts.lockfile import ResolvedChart
    from clusterstacks.charts.vendor import Vendored
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.kube.client import Client
    from clusterstacks.releases.release import Release
    from clusterstacks.releases.release_source import ReleaseSource
    from clusterstacks.releases.store import ReleaseStore
    from clusterstacks.runtime.background_tasks import BackgroundTasks
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.sources.source_cache import CachedSource, SourceCache
    from clusterstacks.sources.source_opener import SecretReader
    from clusterstacks.sources.spec import SignatureTrust, SourceSettings
    from clusterstacks.sources.stack_source import SourcePolicy

DOWNLOAD_DEADLINE = timedelta(minutes=15)
"""Deadline of everything about one release. Arbitrary: each download in the store has 5 min."""

LOOK_DEADLINE = timedelta(minutes=2)
"""Deadline of a check. Arbitrary: one or two small requests with a few retries."""


@dataclass(frozen=True, slots=True)
class ReleaseOrigin:
    """The source of a release, and the keys that must have signed it; None when no signature is required."""

    terms: SourceSettings
    trust: SignatureTrust | None


@dataclass(frozen=True, slots=True)
class PinnedRelease:
    """The digests that a ClusterStackRelease pins, and the keys that are known to have signed them."""

    pins: PinnedDigests
    signers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FetchedRelease:
    """A fetched release.

    Args:
        release: The release.
        verdict: The result of its verification; None when no signature is required.
        fresh: Whether it was downloaded just now.
    """

    release: Release
    verdict: SignatureVerdict | None
    fresh: bool


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The current state of a release in its source.

    Args:
        place: The source.
        digest: Digest of the content; empty when the source does not state it, None when the release is gone.
        verdict: The result of the verification; None when it was not verified.
    """

    place: str
    digest: str | None
    verdict: SignatureVerdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFetcher:
    """Fetches releases for the objects of one kind in background tasks, so that reconciles do not wait for a source.

    Args:
        charts: Resolves missing chart dependencies; None when that is not allowed.
        tasks: Those of the reconciler that asks.
    """

    client: Client
    stacks: ObjectCache
    choice: SourcePolicy
    sources: SourceCache
    secrets: SecretReader
    store: ReleaseStore
    charts: ChartDependencies | None
    tasks: BackgroundTasks
    _broken: dict[ObjectKey, tuple[str, SpecError]] = field(default_factory=dict)

    def forget(self, key: ObjectKey) -> None:
        """Give up what was known for an object that is gone."""
        self.tasks.forget(key)
        self._broken.pop(key, None)

    async def origin(self, release: Manifest) -> ReleaseOrigin:
        """Find out where a ClusterStackRelease comes from: what the first ClusterStack that owns it says.

        Raises:
            SpecError: The ClusterStack names a source it may not name.
            DependencyError: The management API server does not answer.
        """
        manifest = await leading_stack(release, self.stacks, self.client)
        stack = ClusterStack.parse(manifest) if manifest is not None else None
        return ReleaseOrigin(self.choice.terms(stack), self.choice.trusted(stack))

    async def obtain(self, key: ObjectKey, release: Manifest, name: ReleaseName) -> FetchedRelease | None:
        """Return a release that may be used, None while it is being downloaded; then ``key`` is woken at the end.

        One that is in the store under the pinned digest was verified when it was pinned: no source is asked for it.

        Args:
            key: The object that needs it.
            release: Its ClusterStackRelease; what is pinned there must be found, otherwise whatever there is.
            name: Its name.

        Raises:
            Unsigned: It must be signed and is not.
            SpecError: It is broken, its content is not the pinned one, or its source may not be used.
            DependencyError: The source does not have it or cannot be read.
        """
        pins = PinnedDigests.of(release)
        held = await self.store.open(name, pins.digest, pins.charts) if pins.digest else None
        if held is not None:
            return FetchedRelease(held, None, fresh=False)
        origin = await self.origin(release)
        bring = partial(self._bring, key, origin, name, PinnedRelease(pins, signers_of(release)))
        return await self.tasks.result(key, ("download", origin, pins), bring)

    async def look(
        self, key: ObjectKey, origin: ReleaseOrigin, name: ReleaseName, release: Manifest
    ) -> PublishedState | None:
        """Return what the source has now, at the cost of one or two small requests; None while it is being asked.

        Args:
            key: The object that asks.
            origin: The source, and whose signatures are wanted.
            name: The release's.
            release: Its ClusterStackRelease, which says what is pinned and who is known to have signed that.

        Raises:
            SpecError: The source cannot be used.
            SignaturesUnclear: Whether a trusted key signed it cannot be found out now.
            DependencyError: The source cannot be read.
        """
        known = PinnedRelease(PinnedDigests.of(release), signers_of(release))
        return await self.tasks.result(key, ("look", origin, known), partial(self._look, origin, name, known))

    async def _bring(
        self, key: ObjectKey, origin: ReleaseOrigin, name: ReleaseName, known: PinnedRelease
    ) -> FetchedRelease:
        verdicts: list[SignatureVerdict] = []

        async def approve(release: Release) -> None:
            """Verify the release before its chart dependencies are downloaded."""
            if origin.trust is not None:
                signers = known.signers if release.digest == known.pins.digest else ()
                verdicts.append(await self._judge(origin.trust, live, release, signers))
                if verdicts[-1].refused:
                    raise Unsigned(verdicts[-1].complaint)

        async with self.sources.open(origin.terms) as live, live.turn(DOWNLOAD_DEADLINE):
            release = await self._fetch(key, live, name, known.pins, approve)
            if not verdicts:
                await approve(release)
        return FetchedRelease(release, verdicts[-1] if verdicts else None, fresh=True)

    async def _fetch(
        self,
        key: ObjectKey,
        live: CachedSource,
        name: ReleaseName,
        pins: PinnedDigests,
        approve: Callable[[Release], Awaitable[None]],
    ) -> Release:
        """Download a release, unless the source says that it is on disk, was found broken, or is not the pinned one."""
        stated = await live.source.digest(name)
        if pins.digest and stated not in ("", pins.digest):
            raise DigestMismatch(name, pinned=pins.digest, found=stated)
        known = self._broken.get(key)
        if known is not None and stated and known[0] == stated:
            raise known[1]
        try:
            return await self.store.ensure(
                name,
                live.source,
                digest=pins.digest or stated,
                dependencies=self.charts,
                pinned=pins.charts,
                approve=approve,
                whole=False,
            )
        except Unsigned:
            raise
        except DigestMismatch:
            if pins.digest:
                raise
            raise SourceUnavailable(live.address, f"release {name} was changed while it was read") from None
        except SpecError as error:
            if not isinstance(error, CHART_ERRORS):
                self._broken[key] = (stated, error)
            raise

    async def _look(self, origin: ReleaseOrigin, name: ReleaseName, known: PinnedRelease) -> PublishedState:
        place, trust, pins = str(origin.terms.address), origin.trust, known.pins
        async with self.sources.open(origin.terms) as live, live.turn(LOOK_DEADLINE):
            try:
                stated = await live.source.digest(name)
            except ReleaseNotFound:
                return PublishedState(place, None, None)
            # The signatures of a moved tag are those of another content and say nothing of ours.
            if trust is None or stated not in ("", pins.digest):
                return PublishedState(place, stated, None)
            held = await self.store.open(name, pins.digest, pins.charts)
            return PublishedState(place, stated, await self._judge(trust, live, held, known.signers) if held else None)

    async def _judge(
        self, trust: SignatureTrust, live: CachedSource, release: Release, signers: tuple[str, ...]
    ) -> SignatureVerdict:
        """Find out who signed a release; the source is asked only when no trusted key is known to have.

        Content that a key has signed stays signed, so what happens to signatures in the source later is no matter.

        Raises:
            SignaturesUnclear: Not all signatures could be looked at, and none is known of before.
        """
        keys = await trusted_keys(trust, self.secrets)
        if any(key.fingerprint in signers for key in keys):
            verdict = SignatureVerdict(trust.required, "", signers)
        else:
            verdict = await verify_release(release, await _evidence(live.source, release.name), keys, trust, signers)
        return verdict if verdict.complaint else replace(verdict, complaint=uncovered(release))


async def _evidence(source: ReleaseSource, name: ReleaseName) -> Evidence:
    """Return the signatures of a release; a file that cannot be one is a problem of the signature alone."""
    try:
        return await source.evidence(name)
    except ReleaseBroken as error:
        return Evidence(problems=(error.message,))


class RepositoryCharts(ChartDependencies):
    """Chart dependencies with their own error class, so that callers can tell chart repositories from sources."""

    async def vendor_all(
        self,
        charts: Mapping[str, Mapping[str, bytes]],
        pinned: Sequence[ResolvedChart] = (),
        *,
        tree: Mapping[str, bytes] | None = None,
    ) -> dict[str, Vendored]:
        """Add to each chart what it depends on.

        Raises:
            ChartsUnavailable: A repository lacks a chart or cannot be asked now.
            SpecError: As in the base class.
        """
        try:
            return await super().vendor_all(charts, pinned, tree=tree)
        except DependencyError as error:
            raise ChartsUnavailable(error) from error
