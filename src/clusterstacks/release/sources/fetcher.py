"""Fetches releases from the sources of their ClusterStacks: downloaded once, verified before use."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from clusterstacks.model.documents import mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.net.http.errors import SourceUnavailable
from clusterstacks.release.charts.dependencies import CHART_ERRORS
from clusterstacks.release.errors import DigestMismatch, ReleaseBroken, ReleaseNotFound, images_not_held
from clusterstacks.release.release_source import EnvelopeKind, Evidence, ImageSource
from clusterstacks.release.signing.stage_requirement import missing_evidence
from clusterstacks.release.sources.owners import leading_stack
from clusterstacks.release.sources.pinned_digests import PinnedDigests
from clusterstacks.release.sources.verification import (
    SignatureVerdict,
    Unsigned,
    trusted_keys,
    uncovered,
    verify_release,
)
from clusterstacks.release.sources.verified_content import (
    RequiredSignature,
    VerifiedContent,
    changed_pin,
    reason_to_verify,
)
from clusterstacks.runtime.tracing import span

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
    from datetime import datetime

    from clusterstacks.model.kinds.clusterstackrelease import StageEvidence
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client
    from clusterstacks.release.charts.vendor import ChartDependencies
    from clusterstacks.release.release import Release
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.signing.keys import PublicKey
    from clusterstacks.release.sources.source_cache import CachedSource, SourceCache
    from clusterstacks.release.sources.source_opener import SecretReader
    from clusterstacks.release.sources.spec import SignatureTrust, SourceSettings, StageTrust
    from clusterstacks.release.sources.stack_source import SourcePolicy
    from clusterstacks.release.store import ReleaseStore
    from clusterstacks.runtime.background_tasks import BackgroundTasks
    from clusterstacks.runtime.cache import ObjectCache

DOWNLOAD_DEADLINE = timedelta(minutes=15)
"""Deadline of everything about one release. Arbitrary: each download in the store has 5 min."""

STATE_DEADLINE = timedelta(minutes=2)
"""Deadline of a check. Arbitrary: one or two small requests with a few retries."""

log = logging.getLogger(__name__)

Confirmed: TypeAlias = tuple[str, str]
"""Namespace and name of a ClusterStackRelease, and the digest that its source has."""


@dataclass(frozen=True, slots=True)
class ReleaseOrigin:
    """The source of a release, and the keys that must have signed it; None when no signature is required."""

    settings: SourceSettings
    trust: SignatureTrust | None
    stages: tuple[StageTrust, ...] = ()
    """The stages that must have passed it."""


@dataclass(frozen=True, slots=True)
class PinnedRelease:
    """The pinned digests of a ClusterStackRelease, and what its status says was verified."""

    pins: PinnedDigests
    verified: VerifiedContent

    @classmethod
    def of(cls, release: Manifest) -> PinnedRelease:
        """Read a ClusterStackRelease; an annotation that was edited and is not valid is a SpecError."""
        return cls(PinnedDigests.of(release), VerifiedContent.of(mapping(release, "status")))


@dataclass(frozen=True, slots=True)
class FetchedRelease:
    """A fetched release; the verdict is None when no signature is required, ``fresh`` is true for a new download."""

    release: Release
    verdict: SignatureVerdict | None
    fresh: bool


@dataclass(frozen=True, slots=True)
class PublishedState:
    """The current state of a release in its source."""

    place: str
    digest: str | None
    """Digest of the content; empty when the source does not state it, None when the release is gone."""
    verdict: SignatureVerdict | None
    """The result of the verification; None when it was not verified."""
    evidence: tuple[StageEvidence, ...] = ()
    """What the stages state about the pinned content."""
    unread: str = ""
    """Why further statements were not read; empty if all were."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseFetcher:
    """Fetches releases for the objects of one kind in background tasks, so that reconciles do not wait for a source."""

    client: Client
    stacks: ObjectCache
    policy: SourcePolicy
    sources: SourceCache
    secrets: SecretReader
    store: ReleaseStore
    charts: ChartDependencies | None
    """Resolves missing chart dependencies; None when that is not allowed."""
    tasks: BackgroundTasks
    confirmed: set[Confirmed] = field(default_factory=set)
    """Contents that this process has found in the sources of their releases; the fetchers of all kinds share them."""
    _broken: dict[ObjectKey, tuple[str, SpecError]] = field(default_factory=dict)

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted object."""
        self.tasks.forget(key)
        self._broken.pop(key, None)

    async def origin(self, release: Manifest) -> ReleaseOrigin:
        """Return the source of a ClusterStackRelease: that of the first ClusterStack that owns it."""
        stack = await self._stack(release)
        return ReleaseOrigin(self.policy.settings(stack), self.policy.trusted(stack), self.policy.stages(stack))

    async def missing_evidence(
        self, origin: ReleaseOrigin, name: ReleaseName, known: Sequence[StageEvidence], now: datetime
    ) -> str:
        """Return what a release lacks of the evidence of the first stage that has not passed it; empty if all have.

        Sends requests only for Secrets with keys.
        """
        address = origin.settings.address
        place = str(address) if address.kind.is_registry else ""
        for stage in origin.stages:
            keys = await trusted_keys(stage.keys, self.secrets)
            required = replace(stage.required, keys=frozenset(key.fingerprint for key in keys))
            if problem := missing_evidence(name, required, known, now, place):
                return problem
        return ""

    async def reason_to_verify(self, release: Manifest) -> str:
        """Return why the content that a ClusterStackRelease pins must be verified by its source before it is used.

        Empty when it may be used. Sends requests only for Secrets with keys, and for ClusterStacks in namespaces that
        are not watched.
        """
        known, stack, required = PinnedRelease.of(release), await self._stack(release), None
        trust = self.policy.trusted(stack)
        if trust is not None and trust.required:
            keys = [await trusted_keys(part, self.secrets) for part in trust.parts]
            fingerprints = tuple(frozenset(key.fingerprint for key in part) for part in keys)
            required = RequiredSignature(str(self.policy.settings(stack).address), fingerprints)
        confirmed = (_identity(release), known.pins.digest) in self.confirmed
        return reason_to_verify(known.pins.digest, known.verified, required, confirmed=confirmed)

    async def stored(self, release: Manifest, name: ReleaseName) -> Release | None:
        """Return the release that a ClusterStackRelease pins from disk; None if it is not there or must be verified.

        Everything in the operator that uses the content of a release opens it here or with :meth:`fetch`.

        Raises:
            SpecError: As :meth:`reason_to_verify`, or the content is not that of a release of this name.
        """
        pins = PinnedDigests.of(release)
        if not pins.digest:
            return None
        if reason := await self.reason_to_verify(release):
            log.debug("the stored content of release %s is verified again: %s", name, reason)
            return None
        return await self.store.open(name, pins.digest, pins.charts)

    async def fetch(self, key: ObjectKey, release: Manifest, name: ReleaseName) -> FetchedRelease | None:
        """Return a verified release; None while it is downloaded, which enqueues ``key`` at the end.

        The source is not read for a stored release that was verified before, see :meth:`stored`.

        Raises:
            Unsigned: A required signature is missing.
            SpecError: It is not valid, its content is not the pinned one, or its source is not allowed.
            DependencyError: The source does not have it or cannot be read.
        """
        stored = await self.stored(release, name)
        if stored is not None:
            return FetchedRelease(stored, None, fresh=False)
        origin, known = await self.origin(release), PinnedRelease.of(release)
        download = partial(self._download, key, origin, name, known)
        fetched = await self.tasks.result(key, ("download", origin, known), download)
        if fetched is not None:
            self.confirmed.add((_identity(release), fetched.release.digest))
        return fetched

    @asynccontextmanager
    async def image_source(self, release: Manifest) -> AsyncIterator[ImageSource]:
        """Open the source of a release for the files of its node images.

        Raises:
            SpecError: Sources of this kind have no such files, or the source is not allowed.
            DependencyError: A Secret of the source is missing.
        """
        origin = await self.origin(release)
        async with self.sources.open(origin.settings) as live:
            if not isinstance(live.source, ImageSource):
                raise images_not_held(live.address)
            yield live.source

    async def published_state(
        self, key: ObjectKey, origin: ReleaseOrigin, name: ReleaseName, release: Manifest
    ) -> PublishedState | None:
        """Return the source's current state of a release with one or two small requests; None while they run.

        At the end ``key`` is enqueued. Raises SignaturesUnclear if the signatures cannot be read completely now.
        """
        known = PinnedRelease.of(release)
        return await self.tasks.result(key, ("state", origin, known), partial(self._read_state, origin, name, known))

    async def _download(
        self, key: ObjectKey, origin: ReleaseOrigin, name: ReleaseName, known: PinnedRelease
    ) -> FetchedRelease:
        verdicts: list[SignatureVerdict] = []

        async def approve(release: Release) -> None:
            """Verify the release before its chart dependencies are downloaded."""
            if origin.trust is not None:
                signers = known.verified.signers_of(release.digest, str(origin.settings.address))
                verdicts.append(await self._verify(origin.trust, live, release, signers))
                if verdicts[-1].refused:
                    raise Unsigned(verdicts[-1].complaint)

        async with self.sources.open(origin.settings) as live, live.turn(DOWNLOAD_DEADLINE):
            with span("download release", release=name, source=origin.settings.address):
                release = await self._ensure_stored(key, live, name, known, approve)
            if not verdicts:
                await approve(release)
        return FetchedRelease(release, verdicts[-1] if verdicts else None, fresh=True)

    async def _ensure_stored(
        self,
        key: ObjectKey,
        live: CachedSource,
        name: ReleaseName,
        known: PinnedRelease,
        approve: Callable[[Release], Awaitable[None]],
    ) -> Release:
        """Download a release, unless it is on disk, was found invalid, or is not the pinned one."""
        pins, stated = known.pins, await live.source.digest(name)
        changed = changed_pin(pins.digest, known.verified)
        if changed and stated != pins.digest:
            # A source that does not state digests cannot confirm the pin.
            raise SpecError("PinChanged", f"release {name}: {changed}")
        if pins.digest and stated not in ("", pins.digest):
            raise DigestMismatch(name, pinned=pins.digest, found=stated)
        broken = self._broken.get(key)
        if broken is not None and stated and broken[0] == stated:
            raise broken[1]
        # The store is shared: without a statement of the source or in the status, the content is read from the source.
        known_here = stated or known.verified.digest == pins.digest
        try:
            release = await self.store.ensure(
                name,
                live.source,
                digest=(pins.digest or stated) if known_here else "",
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
        if pins.digest and release.digest != pins.digest:
            raise DigestMismatch(name, pinned=pins.digest, found=release.digest)
        return release

    async def _read_state(self, origin: ReleaseOrigin, name: ReleaseName, known: PinnedRelease) -> PublishedState:
        place, trust, pins = str(origin.settings.address), origin.trust, known.pins
        signers = known.verified.signers_of(pins.digest, place)
        stage_keys = {key for stage in origin.stages for key in await trusted_keys(stage.keys, self.secrets)}
        async with self.sources.open(origin.settings) as live, live.turn(STATE_DEADLINE):
            try:
                stated = await live.source.digest(name)
            except ReleaseNotFound:
                return PublishedState(place, None, None)
            # The signatures of a moved tag are for other content.
            if stated not in ("", pins.digest):
                return PublishedState(place, stated, None)
            state = PublishedState(place, stated, None)
            if stage_keys:
                state = await _with_evidence(state, live.source, name, pins.digest, tuple(stage_keys))
            if trust is None:
                return state
            stored = await self.store.open(name, pins.digest, pins.charts)
            return replace(state, verdict=await self._verify(trust, live, stored, signers) if stored else None)

    async def _stack(self, release: Manifest) -> ClusterStack | None:
        manifest = await leading_stack(release, self.stacks, self.client)
        return ClusterStack.parse(manifest) if manifest is not None else None

    async def _verify(
        self, trust: SignatureTrust, live: CachedSource, release: Release, signers: tuple[str, ...]
    ) -> SignatureVerdict:
        """Verify the signatures of a release; read them from the source only if no trusted key is known to have signed.

        Signed content stays signed, so later changes of the signatures in the source do not matter.
        """
        verdict = SignatureVerdict(trust.required, "", signers)
        for part in trust.parts:
            keys = await trusted_keys(part, self.secrets)
            if not any(key.fingerprint in verdict.signers for key in keys):
                evidence = await _evidence(live.source, release.name)
                verdict = await verify_release(release, evidence, keys, part, verdict.signers)
            if verdict.complaint:
                return verdict
        return replace(verdict, complaint=uncovered(release))


async def _with_evidence(
    state: PublishedState, source: ReleaseSource, name: ReleaseName, digest: str, keys: tuple[PublicKey, ...]
) -> PublishedState:
    """Add the statements of stages in the source, which are verified in a thread: hostile ones may take long."""
    # Only sources with keys load the cryptography.
    from clusterstacks.release.signing.stage_evidence import read_evidence  # noqa: PLC0415

    found = await _evidence(source, name, EnvelopeKind.STAGES)
    stated, problems = await asyncio.to_thread(read_evidence, name, digest, found, keys)
    return replace(state, evidence=stated, unread="" if found.complete else next(iter(problems), "they are too many"))


def _identity(release: Manifest) -> str:
    metadata = mapping(release, "metadata")
    return f"{text(metadata, 'namespace')}/{text(metadata, 'name')}"


async def _evidence(source: ReleaseSource, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:
    """Return the envelopes of a release; a file that cannot have any is a problem of these alone."""
    try:
        return await source.evidence(name, kind)
    except ReleaseBroken as error:
        return Evidence(problems=(error.message,))
