"""Connects the objects that read release sources: policy, cache, listings, statements, store and fetchers."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.plan.compat.remote_statements import RemoteStatements
from clusterstacks.release.sources.fetcher import Confirmed, ReleaseFetcher
from clusterstacks.release.sources.periodic_listing import SourceListings
from clusterstacks.release.sources.source_cache import SourceCache
from clusterstacks.release.sources.source_opener import SecretReader, SourceOpener
from clusterstacks.release.sources.stack_source import SourcePolicy, default_settings, trust_of
from clusterstacks.release.store import ReleaseStore
from clusterstacks.runtime.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.net.http.allowlist import AllowedHosts
    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.settings import OperatorSettings
    from clusterstacks.release.charts.vendor import ChartDependencies
    from clusterstacks.runtime.background_tasks import RateLimiter
    from clusterstacks.runtime.cache import ObjectCache
    from clusterstacks.runtime.clock import Clock


class SourceServices:
    """The sources of all ClusterStacks.

    ``environ`` has the operator's own credentials and proxies; ``changed`` is called with the ClusterStacks of a source
    whose releases changed.
    """

    def __init__(
        self,
        settings: OperatorSettings,
        environ: Mapping[str, str],
        *,
        client: Client,
        stacks: ObjectCache,
        clock: Clock,
        changed: Callable[[Collection[ObjectKey]], None],
    ) -> None:
        verification = settings.source.verification
        self.policy = SourcePolicy(
            default=default_settings(settings.source),
            trust=replace(trust_of(verification, ""), setting="--verification-keys") if verification else None,
            allowed=settings.allowed_sources,
        )
        self._secrets = SecretReader(client)
        opener = SourceOpener(
            secrets=self._secrets,
            release_dir=settings.release_dir,
            ca=settings.source_ca,
            environ=environ,
            plain_http_credentials=settings.plain_http_credentials,
        )
        self._sources = SourceCache(opener, clock)
        self.listings = SourceListings(self._sources, clock, changed)
        self._web = HTTPClient(environ=environ)
        self._charts = self._repository_charts(settings.chart_repositories)
        self.statements = RemoteStatements(self._sources, self.listings, self.policy, clock)
        self._client = client
        self._stacks = stacks
        self.store = ReleaseStore(settings.cache_dir)
        self._tasks: list[BackgroundTasks] = []
        self._confirmed: set[Confirmed] = set()

    def _repository_charts(self, allowed: AllowedHosts) -> ChartDependencies | None:
        if not allowed.patterns:
            return None
        from clusterstacks.release.charts.vendor import ChartDependencies  # noqa: PLC0415 - few operators need it

        return ChartDependencies(self._web, None, allowed=allowed)

    def fetcher(self, enqueue: Callable[[ObjectKey], None], limiter: RateLimiter | None = None) -> ReleaseFetcher:
        """Return a fetcher of releases for the objects of one kind; ``enqueue`` reconciles one after its download."""
        tasks = BackgroundTasks(enqueue, limiter=limiter)
        self._tasks.append(tasks)
        return ReleaseFetcher(
            client=self._client,
            stacks=self._stacks,
            policy=self.policy,
            sources=self._sources,
            secrets=self._secrets,
            store=self.store,
            charts=self._charts,
            tasks=tasks,
            confirmed=self._confirmed,
        )

    @property
    def is_idle(self) -> bool:
        """True if all sources were listed, and nothing is downloaded."""
        return self.listings.is_idle and all(tasks.is_idle for tasks in self._tasks)

    async def close(self) -> None:
        """End all listings and downloads, then the connections."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._web.close)
            stack.push_async_callback(self._sources.close)
            stack.push_async_callback(self.store.close)
            for tasks in self._tasks:
                stack.push_async_callback(tasks.close)
            stack.push_async_callback(self.statements.close)
            stack.push_async_callback(self.listings.close)
