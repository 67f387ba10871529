"""Checks the source of a release regularly: whether it still has the pinned digest, who signed it, and its stages.

Conditions report the result; a moved tag changes nothing else. A release without a required signature, or without the
evidence of a stage, is not ready for new clusters, and existing clusters keep using it. The status lists the keys that
have signed the release, and what the stages stated: what is removed from the source later has no effect.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from random import SystemRandom
from typing import TYPE_CHECKING

from pydantic import ValidationError

from clusterstacks.model.conditions import Severity
from clusterstacks.model.documents import mappings
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.clusterstackrelease import StageEvidence
from clusterstacks.model.kinds.names import Reason, ReleaseCondition
from clusterstacks.model.outcomes import Outcome, Waiting
from clusterstacks.release.signing.errors import SignaturesUnclear
from clusterstacks.release.signing.stage_requirement import newest
from clusterstacks.release.sources.pinned_digests import PinnedDigests
from clusterstacks.release.sources.verification import Unsigned
from clusterstacks.release.sources.verified_content import EVIDENCE_FIELD, SIGNERS_FIELD, SOURCE_FIELD, VerifiedContent
from clusterstacks.runtime.backoff import JITTER

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.sources.fetcher import FetchedRelease, PublishedState, ReleaseFetcher, ReleaseOrigin
    from clusterstacks.release.sources.spec import SignatureTrust
    from clusterstacks.release.sources.verification import SignatureVerdict
    from clusterstacks.runtime.clock import Clock

INTERVAL = timedelta(minutes=10)
"""Interval at which the source of each release is checked. Arbitrary: one or two small requests."""

RETRY_INTERVAL = timedelta(minutes=1)
"""Interval for a release that only waits for its signatures. Arbitrary."""
ADVISORY = frozenset(
    {
        ReleaseCondition.SOURCE_UNCHANGED,
        ReleaseCondition.SIGNATURE_VERIFIED,
        ReleaseCondition.STAGES_PASSED,
        ReleaseCondition.FACTS_KEPT,
        ReleaseCondition.DEPENDENCIES_RESOLVED,
        ReleaseCondition.NODE_IMAGES_AS_STATED,
    }
)
"""Conditions about the source, the webhooks' facts, the addons, and the content of images: they do not count for Ready,
which means that Clusters can use the class."""

_chance = SystemRandom()
log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Watch:
    origin: ReleaseOrigin
    due: float
    asked: bool = False  # the request is running, and enqueues the release
    failure: str = ""  # why the last check failed, or was not complete


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """Checks the sources of pinned releases, each at ``interval``."""

    fetcher: ReleaseFetcher
    clock: Clock
    interval: timedelta = INTERVAL
    _watches: dict[ObjectKey, _Watch] = field(default_factory=dict)

    def forget(self, key: ObjectKey) -> None:
        """Remove the state of a deleted release."""
        self._watches.pop(key, None)

    def until_next_check(self, key: ObjectKey) -> timedelta:
        """Return the time until the next check of a release, at least a second."""
        watch = self._watches.get(key)
        remaining = watch.due - self.clock.monotonic() if watch else 0
        return timedelta(seconds=max(remaining, 1))

    async def check(self, patch: StatusPatch, name: ReleaseName) -> Outcome | None:
        """Check the source if that is due; return an outcome when the release may not be used."""
        try:
            origin = await self.fetcher.origin(patch.manifest)
        except SpecError as error:
            # The ClusterStack reports the error; the pinned content is still used.
            log.debug("the source of %s is not checked: %s", name, error)
            return self._refusal(patch, None)
        if origin.trust is None:
            patch.drop(ReleaseCondition.SIGNATURE_VERIFIED)
        else:
            await self._review(patch, origin.trust)
        watch = self._watch(patch, origin)
        if watch.asked or self.clock.monotonic() >= watch.due:
            await self._check(patch, name, watch)
        await self._judge_stages(patch, name, watch)
        return self._refusal(patch, origin.trust)

    def record_download(self, patch: StatusPatch, origin: ReleaseOrigin, fetched: FetchedRelease) -> None:
        """Set the conditions for a downloaded release, and schedule its next check."""
        patch.true(ReleaseCondition.SOURCE_UNCHANGED)
        patch.status.pop(SIGNERS_FIELD, None)  # the content may have changed
        if VerifiedContent.of(patch.manifest.get("status") or {}).digest != fetched.release.digest:
            patch.status.pop(EVIDENCE_FIELD, None)
        _set_verdict(patch, origin, fetched.release.digest, fetched.verdict)
        self._watches[patch.key] = _Watch(origin, self.clock.monotonic() if origin.stages else self._next())

    async def _review(self, patch: StatusPatch, trust: SignatureTrust) -> None:
        """Compare an earlier verification with the present pin, source and keys."""
        # With CRDs that drop the proof, the one that this process sent last counts.
        status = {**patch.pruned, **patch.status}
        try:
            reason = await self.fetcher.reason_to_verify({**patch.manifest, "status": status})
        except ClusterStacksError as error:
            reason = error.message
        signature, watch = patch.condition(ReleaseCondition.SIGNATURE_VERIFIED), self._watches.get(patch.key)
        if not reason and trust.required:
            patch.true(ReleaseCondition.SIGNATURE_VERIFIED)
        elif reason and signature is not None and signature.status != "False":
            if watch is not None and signature.status == "True":
                watch.due = self.clock.monotonic()
            message = "; ".join(filter(None, (reason, watch.failure if watch is not None else "")))
            patch.unknown(ReleaseCondition.SIGNATURE_VERIFIED, Reason.SIGNATURE_UNKNOWN, message)

    def _watch(self, patch: StatusPatch, origin: ReleaseOrigin) -> _Watch:
        """Return when the next check is due: at once if something is unknown or was wrong, else at a random time."""
        watch = self._watches.get(patch.key)
        if watch is None:
            share = 0.0 if self._is_doubtful(patch, origin) else _chance.random()
            watch = _Watch(origin, self.clock.monotonic() + share * self.interval.total_seconds())
            self._watches[patch.key] = watch
        elif watch.origin != origin:
            watch.origin, watch.due, watch.asked = origin, self.clock.monotonic(), False
        return watch

    @staticmethod
    def _is_doubtful(patch: StatusPatch, origin: ReleaseOrigin) -> bool:
        unsigned = origin.trust is not None and not patch.holds(ReleaseCondition.SIGNATURE_VERIFIED)
        unproven = bool(origin.stages) and not patch.holds(ReleaseCondition.STAGES_PASSED)
        return unsigned or unproven or not patch.holds(ReleaseCondition.SOURCE_UNCHANGED)

    async def _check(self, patch: StatusPatch, name: ReleaseName, watch: _Watch) -> None:
        patch.require_live()
        unverified = _requires(watch.origin.trust) and _is_unknown(patch)
        published, soon = None, unverified or not _is_applied(patch)
        try:
            pinned = PinnedDigests.of(patch.manifest).digest
            published = await self.fetcher.published_state(patch.key, watch.origin, name, patch.manifest)
            watch.asked, watch.failure = published is None, ""
            if published is not None and published.verdict is None and unverified:
                # It is not on disk, as after a restart with an empty cache: it is downloaded to be verified.
                fetched = await self.fetcher.fetch(patch.key, patch.manifest, name)
                watch.asked = fetched is None
                published = replace(published, verdict=fetched.verdict if fetched else None)
        except ClusterStacksError as error:
            log.info("cannot check the source of %s, which has no effect: %s", name, error)
            watch.asked, watch.failure = False, error.message
            if isinstance(error, Unsigned):
                set_unsigned(patch, error.message, required=True)
                soon = True
            if isinstance(error, SignaturesUnclear):
                set_signatures_unclear(patch, error)
                soon = soon or not patch.holds(ReleaseCondition.SIGNATURE_VERIFIED)
        if published is not None:
            _set_source_unchanged(patch, name, published, pinned)
            watch.failure = published.unread
            if stated := newest(_known_evidence(patch), published.evidence):
                patch.status[EVIDENCE_FIELD] = [one.document() for one in stated]
            if published.verdict is not None:
                _set_verdict(patch, watch.origin, pinned, published.verdict)
                soon = published.verdict.refused
        watch.due = self._next(soon=soon)

    async def _judge_stages(self, patch: StatusPatch, name: ReleaseName, watch: _Watch) -> None:
        """Report whether the stages have passed the release, by all that is known of their statements."""
        stages = watch.origin.stages
        if not stages:
            patch.drop(ReleaseCondition.STAGES_PASSED)
            patch.status.pop(EVIDENCE_FIELD, None)
            return
        try:
            problem = await self.fetcher.missing_evidence(watch.origin, name, _known_evidence(patch), self.clock.now())
        except ClusterStacksError as error:
            if patch.holds(ReleaseCondition.STAGES_PASSED):
                return
            problem = error.message
        if not problem:
            patch.true(ReleaseCondition.STAGES_PASSED)
            return
        message = "; ".join(filter(None, (problem, watch.failure)))
        if stages[0].keys.required:
            patch.false(ReleaseCondition.STAGES_PASSED, Reason.EVIDENCE_REQUIRED, message, Severity.INFO)
        else:
            patch.false(ReleaseCondition.STAGES_PASSED, Reason.EVIDENCE_MISSING, message)
        wait = min(watch.origin.settings.interval, self.interval)
        watch.due = min(watch.due, self.clock.monotonic() + wait.total_seconds())

    def _refusal(self, patch: StatusPatch, trust: SignatureTrust | None) -> Outcome | None:
        verified = patch.condition(ReleaseCondition.SIGNATURE_VERIFIED)
        required = _requires(trust)
        is_refused = required or (verified is not None and verified.reason == Reason.SIGNATURE_REQUIRED)
        if verified is not None and verified.status == "False" and is_refused:
            return Waiting(verified.reason, verified.message, self.until_next_check(patch.key))
        if _is_unknown(patch) and required and not _is_applied(patch):
            why = self._watches[patch.key].failure if patch.key in self._watches else ""
            message = why or "its signatures have not been checked yet"
            return Waiting(Reason.SIGNATURE_UNKNOWN, message, self.until_next_check(patch.key))
        stages = patch.condition(ReleaseCondition.STAGES_PASSED)
        if stages is not None and stages.status == "False" and stages.reason == Reason.EVIDENCE_REQUIRED:
            return Waiting(stages.reason, stages.message, self.until_next_check(patch.key))
        return None

    def _next(self, *, soon: bool = False) -> float:
        wait = min(RETRY_INTERVAL, self.interval) if soon else self.interval
        return self.clock.monotonic() + wait.total_seconds() * (1 + JITTER * _chance.random())


def _known_evidence(patch: StatusPatch) -> tuple[StageEvidence, ...]:
    """Return the statements of stages in the status; those of another form are ignored."""
    known = []
    for entry in mappings(patch.status, EVIDENCE_FIELD):
        with suppress(ValidationError):
            known.append(StageEvidence.model_validate(entry))
    return tuple(known)


def set_tag_moved(patch: StatusPatch, message: str) -> None:
    """Report that the source has other content; nothing else changes."""
    patch.false(ReleaseCondition.SOURCE_UNCHANGED, Reason.TAG_MOVED, message)


def _set_source_unchanged(patch: StatusPatch, name: ReleaseName, published: PublishedState, pinned: str) -> None:
    if published.digest is None:
        message = (
            f"release {name} is no longer in {published.place}: clusters keep using it, but it could not be "
            "downloaded again; publish it again"
        )
        patch.false(ReleaseCondition.SOURCE_UNCHANGED, Reason.RELEASE_GONE, message)
    elif published.digest == pinned:
        patch.true(ReleaseCondition.SOURCE_UNCHANGED)
    elif published.digest:
        set_tag_moved(
            patch,
            f"release {name} was pinned to {pinned}, but {published.place} now has {published.digest}, "
            "which is not used: restore the old content and publish the change as a new version",
        )


def _set_verdict(patch: StatusPatch, origin: ReleaseOrigin, digest: str, verdict: SignatureVerdict | None) -> None:
    patch.status.pop(SOURCE_FIELD, None)
    if verdict is None:
        patch.drop(ReleaseCondition.SIGNATURE_VERIFIED)
        return
    # Signed content stays signed: later checks use these fields to decide whether a trusted key signed it.
    if verdict.signers:
        patch.status[SIGNERS_FIELD] = list(verdict.signers)
    if not verdict.complaint:
        patch.status["digest"] = digest
        patch.status[SOURCE_FIELD] = str(origin.settings.address)
        patch.true(ReleaseCondition.SIGNATURE_VERIFIED)
    else:
        set_unsigned(patch, verdict.complaint, required=verdict.required)


def set_unsigned(patch: StatusPatch, complaint: str, *, required: bool) -> None:
    """Report that no trusted key signed the release."""
    reason = Reason.SIGNATURE_REQUIRED if required else Reason.NOT_SIGNED
    severity = Severity.ERROR if required else Severity.WARNING
    patch.false(ReleaseCondition.SIGNATURE_VERIFIED, reason, complaint, severity)


def set_signatures_unclear(patch: StatusPatch, error: SignaturesUnclear) -> None:
    """Report that not all signatures could be checked; an earlier verification remains valid."""
    if not patch.holds(ReleaseCondition.SIGNATURE_VERIFIED):
        patch.false(ReleaseCondition.SIGNATURE_VERIFIED, Reason.SIGNATURES_UNCLEAR, error.message)


def _is_unknown(patch: StatusPatch) -> bool:
    signature = patch.condition(ReleaseCondition.SIGNATURE_VERIFIED)
    return signature is None or signature.status == "Unknown"


def _requires(trust: SignatureTrust | None) -> bool:
    return trust is not None and trust.required


def _is_applied(patch: StatusPatch) -> bool:
    return patch.holds(ReleaseCondition.CHART_APPLIED)
