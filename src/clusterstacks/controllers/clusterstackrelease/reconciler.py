"""ClusterStackRelease: bring one release into the management cluster and keep saying whether its class can be used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.api.clusterstackrelease import ClusterStackRelease
from clusterstacks.api.names import DIGEST_ANNOTATION, RELEASE_FINALIZER, Reason, ReleaseCondition
from clusterstacks.controllers.clusterstackrelease.classes import class_outcome
from clusterstacks.controllers.clusterstackrelease.deletion import delete_release
from clusterstacks.controllers.clusterstackrelease.objects import apply_class_chart
from clusterstacks.controllers.finalizers import hold
from clusterstacks.domain.errors import DependencyError, SpecError
from clusterstacks.domain.names import ReleaseName, parse_release
from clusterstacks.domain.objects import split_api_version
from clusterstacks.domain.outcomes import Outcome, Settled, Waiting

if TYPE_CHECKING:
    from clusterstacks.apply.engine import Applier
    from clusterstacks.controllers.base import Draft
    from clusterstacks.controllers.providers import ProviderObjects
    from clusterstacks.kube.client import Client
    from clusterstacks.releases.release import Release
    from clusterstacks.releases.sources import ReleaseSource
    from clusterstacks.releases.store import ReleaseStore
    from clusterstacks.render.renderer import Renderer

PROVIDER_RECHECK = timedelta(minutes=5)
"""A provider object of the release's own name and namespace wakes the reconciler; a reference may name another one."""


class ReleaseUnusable(DependencyError):
    """What the source has cannot be used. Its author must mend it, but nothing tells when: so it is looked at again."""

    def __init__(self, cause: SpecError) -> None:
        super().__init__(cause.code, cause.message)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseReconciler:
    """Download, verify, wait for the provider, apply the class, wait until Cluster API accepts it.

    A release whose objects are all applied is not opened again, so a restart downloads and renders nothing (D56); only
    provider and class are looked at, and ``ready`` follows them both ways (D19).
    """

    client: Client
    source: ReleaseSource
    store: ReleaseStore
    renderer: Renderer
    applier: Applier
    providers: ProviderObjects

    async def work(self, draft: Draft) -> Outcome:
        """Do what is next for one release."""
        if draft.deleting:
            return await delete_release(draft, self.client, self.applier)
        draft.drop(ReleaseCondition.ASSETS_CLIENT_AVAILABLE)  # left by the Go operator, nobody else would mend it
        with draft.blaming(ReleaseCondition.DOWNLOADED, Reason.ISSUE_WITH_RELEASE):
            name = parse_release(draft.key.name)
        await hold(draft, RELEASE_FINALIZER, self.client)
        outcome = await self._advance(draft, name)
        draft.status["ready"] = isinstance(outcome, Settled)
        return outcome

    async def _advance(self, draft: Draft, name: ReleaseName) -> Outcome:
        applied = draft.holds(ReleaseCondition.CHART_APPLIED) and bool(draft.annotation(DIGEST_ANNOTATION))
        release = None if applied else await self._open(draft, name)
        waiting = await self._provider(draft)
        if waiting is not None:
            return waiting
        if release is not None:
            failed = await apply_class_chart(draft, release, self.renderer, self.applier)
            if failed is not None:
                return failed
        return await class_outcome(draft, name, self.client)

    async def _open(self, draft: Draft, name: ReleaseName) -> Release:
        pinned = draft.annotation(DIGEST_ANNOTATION)
        draft.status["ready"] = False
        try:
            with draft.blaming(ReleaseCondition.DOWNLOADED, Reason.RELEASE_NOT_DOWNLOADED_YET):
                release = await self.store.ensure(name, self.source, digest=pinned)
        except SpecError as error:
            draft.false(ReleaseCondition.DOWNLOADED, Reason.ISSUE_WITH_RELEASE, error.message)
            raise ReleaseUnusable(error) from error
        if not pinned:
            await self._pin(draft, release.digest)
        draft.true(ReleaseCondition.DOWNLOADED)
        draft.status["digest"] = release.digest
        draft.status["kubernetesVersion"] = release.metadata.kubernetes.text
        return release

    async def _pin(self, draft: Draft, digest: str) -> None:
        """Remember the first download's digest where it outlives status: a release that changes later is refused."""
        group, version = split_api_version(draft.manifest["apiVersion"])
        resource = await self.client.resource(group, draft.manifest["kind"], version)
        patch = {"metadata": {"annotations": {DIGEST_ANNOTATION: digest}}}
        draft.manifest = await self.client.merge_patch(resource, draft.key.name, patch, draft.key.namespace)

    async def _provider(self, draft: Draft) -> Outcome | None:
        """Wait for the provider object; None when there is none or it is ready."""
        reference = ClusterStackRelease.parse(draft.manifest).spec.provider_ref
        if reference is None:
            draft.drop(ReleaseCondition.PROVIDER_READY)
            return None
        title = f"{reference.kind} {reference.namespace or draft.key.namespace}/{reference.name}"
        with draft.blaming(ReleaseCondition.PROVIDER_READY, Reason.PROCESS_ONGOING):
            provider = await self.providers.find(reference, draft.key.namespace)
            if provider is not None:
                await self.providers.own(provider, draft.manifest)
        if provider is not None and (provider.get("status") or {}).get("ready") is True:
            draft.true(ReleaseCondition.PROVIDER_READY)
            return None
        message = f"{title} is not ready yet" if provider is not None else f"{title} does not exist yet"
        draft.false(ReleaseCondition.PROVIDER_READY, Reason.PROCESS_ONGOING, message)
        return Waiting(Reason.PROCESS_ONGOING, message, PROVIDER_RECHECK)
