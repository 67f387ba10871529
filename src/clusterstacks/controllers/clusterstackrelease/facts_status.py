"""Keeps the compatibility facts of a release in the status of its ClusterStackRelease."""

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
    """Writes the facts of releases to their status.

    Args:
        supply: Opens releases that were applied before their facts were kept.
    """

    supply: ReleaseFetcher
    _written: dict[ObjectKey, str] = field(default_factory=dict)
    """By object, the digest whose facts this process has written: a CRD without the field prunes them each time."""

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted release."""
        self._written.pop(key, None)

    def write(self, draft: StatusPatch, release: Release) -> None:
        """Write the facts of a release to its status; a condition reports when that is not possible."""
        self._written[draft.key] = release.digest
        try:
            draft.status[FIELD] = ReleaseFacts(release.metadata, release.compatibility).write()
            draft.drop(ReleaseCondition.FACTS_KEPT)
        except FactsNotKept as error:
            draft.status.pop(FIELD, None)
            draft.false(ReleaseCondition.FACTS_KEPT, error.code, error.message, Severity.WARNING)

    async def restore(self, draft: StatusPatch, name: ReleaseName) -> None:
        """Write missing facts to the status of a release that was applied before, for example by an older version.

        The release is only downloaded if it is not cached; it remains ready in the meantime and after a failure.
        """
        pinned = draft.annotation(DIGEST_ANNOTATION)
        if self._written.get(draft.key) == pinned or draft.condition(ReleaseCondition.FACTS_KEPT) is not None:
            return
        if read_facts(draft.manifest) is not None:
            return
        try:
            obtained = await self.supply.obtain(draft.key, draft.manifest, name)
        except ClusterStacksError as error:
            log.info("cannot read the facts of release %s, will retry: %s", name, error)
            return
        if obtained is None:
            return
        release = obtained.release
        draft.status["digest"] = release.digest
        draft.status["kubernetesVersion"] = release.metadata.kubernetes.text
        self.write(draft, release)
