"""Keeps the compatibility facts of a release in the status of its ClusterStackRelease."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from clusterstacks.model.conditions import Severity
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION, ReleaseCondition
from clusterstacks.plan.compat.release_facts import FIELD, FactsNotKept, ReleaseFacts, read_facts

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from clusterstacks.release.release import Release
    from clusterstacks.release.sources.fetcher import ReleaseFetcher

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusFacts:
    """Writes the facts of releases to their status; ``fetcher`` opens those applied before facts were recorded."""

    fetcher: ReleaseFetcher
    _written: dict[ObjectKey, str] = field(default_factory=dict)
    """By object, the digest whose facts this process has written: a CRD without the field prunes them each time."""

    def forget(self, key: ObjectKey) -> None:
        """Remove the entry of a deleted release."""
        self._written.pop(key, None)

    def write(self, patch: StatusPatch, release: Release) -> None:
        """Write the facts of a release to its status; a condition reports when that is not possible."""
        self._written[patch.key] = release.digest
        try:
            patch.status[FIELD] = ReleaseFacts(release.metadata, release.compatibility).write()
            patch.drop(ReleaseCondition.FACTS_KEPT)
        except FactsNotKept as error:
            patch.status.pop(FIELD, None)
            patch.false(ReleaseCondition.FACTS_KEPT, error.code, error.message, Severity.WARNING)

    async def restore(self, patch: StatusPatch, name: ReleaseName) -> None:
        """Write missing facts to the status of a release that was applied before, for example by an older version.

        The release is only downloaded if it is not cached; it remains ready in the meantime and after a failure.
        """
        pinned = patch.annotation(DIGEST_ANNOTATION)
        if self._written.get(patch.key) == pinned or patch.condition(ReleaseCondition.FACTS_KEPT) is not None:
            return
        if read_facts(patch.manifest) is not None:
            return
        patch.require_live()
        try:
            fetched = await self.fetcher.fetch(patch.key, patch.manifest, name)
        except ClusterStacksError as error:
            log.info("cannot read the facts of release %s, will retry: %s", name, error)
            return
        if fetched is None:
            return
        release = fetched.release
        patch.status["digest"] = release.digest
        patch.status["kubernetesVersion"] = release.metadata.kubernetes.text
        self.write(patch, release)
