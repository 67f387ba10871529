"""Keeps what a release states in the status of its ClusterStackRelease."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.api.names import DIGEST_ANNOTATION, ReleaseCondition
from clusterstacks.compat.release_facts import FIELD, FactsNotKept, ReleaseFacts, read_facts
from clusterstacks.domain.conditions import Severity
from clusterstacks.domain.errors import ClusterStacksError

if TYPE_CHECKING:
    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import ObjectKey
    from clusterstacks.releases.release import Release
    from clusterstacks.sources.fetcher import ReleaseFetcher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFacts:
    """Writes the facts of releases.

    Args:
        supply: Opens releases that were applied before their facts were kept.
    """

    supply: ReleaseFetcher
    _written: dict[ObjectKey, str] = field(default_factory=dict)
    """By object, the digest whose facts this process has written: a CRD without the field drops them each time."""

    def forget(self, key: ObjectKey) -> None:
        """Forget a release that is gone."""
        self._written.pop(key, None)

    def write(self, draft: StatusPatch, release: Release) -> None:
        """Put the facts of a release into its status; a condition says where that is not possible."""
        self._written[draft.key] = release.digest
        try:
            draft.status[FIELD] = ReleaseFacts(release.metadata, release.compatibility).write()
            draft.drop(ReleaseCondition.FACTS_KEPT)
        except FactsNotKept as error:
            draft.status.pop(FIELD, None)
            draft.false(ReleaseCondition.FACTS_KEPT, error.code, error.message, Severity.WARNING)

    async def restore(self, draft: StatusPatch, name: ReleaseName) -> None:
        """Put missing facts into the status of a release that was applied before, for example by an older version.

        Only a release that is not in the cache is downloaded; the release stays ready meanwhile and if that fails.
        """
        pinned = draft.annotation(DIGEST_ANNOTATION)
        if self._written.get(draft.key) == pinned or draft.condition(ReleaseCondition.FACTS_KEPT) is not None:
            return
        if read_facts(draft.manifest) is not None:
            return
        try:
            obtained = await self.supply.obtain(draft.key, draft.manifest, name)
        except ClusterStacksError as error:
            log.info("The facts of release %s are not known, it is tried again later: %s", name, error)
            return
        if obtained is None:
            return
        release = obtained.release
        draft.status["digest"] = release.digest
        draft.status["kubernetesVersion"] = release.metadata.kubernetes.text
        self.write(draft, release)
