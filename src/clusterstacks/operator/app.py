"""Builds the parts of the operator and connects them."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.record_store import SYNC_RECORD
from clusterstacks.deliver.render.renderer import Renderer, RenderLimits
from clusterstacks.deliver.render.worker_pool import sizing
from clusterstacks.model.documents import text
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.model.kinds.names import CLUSTER_KIND, DIGEST_ANNOTATION, SHARD_LABEL, Kind
from clusterstacks.model.kinds.shards import shard_of
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import named_connection
from clusterstacks.net.pool import Pool
from clusterstacks.operator.controllers.addon_sweep import AddonSweep
from clusterstacks.operator.controllers.clusteraddon import registration as clusteraddon
from clusterstacks.operator.controllers.clusterresourcesync import registration as clusterresourcesync
from clusterstacks.operator.controllers.object_problems import find_problems
from clusterstacks.operator.controllers.registered import PROVIDERS, REGISTRATIONS
from clusterstacks.operator.controllers.registration import ControllerContext
from clusterstacks.operator.controllers.shard_moves import ShardMoves
from clusterstacks.operator.controllers.workload_clients import Workloads
from clusterstacks.operator.go_operator import GoLeftovers
from clusterstacks.operator.image_requests import SECRET_NAME as IMAGE_KEY_SECRET
from clusterstacks.operator.image_server import ImageAddresses, ImageServer
from clusterstacks.operator.lease_settings import build_elector
from clusterstacks.operator.observation import Observation, ObservingGate, SweptKind
from clusterstacks.operator.probes_server import ProbesServer
from clusterstacks.operator.rbac import Feature, RightsCheck
from clusterstacks.operator.shard_leases import ShardLeases
from clusterstacks.operator.source_wiring import SourceServices
from clusterstacks.operator.support_metrics import clusters_by_minor, support_days
from clusterstacks.operator.webhooks.configuration import WebhookScope
from clusterstacks.operator.webhooks.unregistration import unregister
from clusterstacks.plan.clusters.provider_rules import ProviderRules
from clusterstacks.runtime.clock import SystemClock
from clusterstacks.runtime.component_health import Probes
from clusterstacks.runtime.controller import Controller
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.informer import Informer
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.process import memory_limit
from clusterstacks.runtime.unreadable_objects import UnreadableObjectReporter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from clusterstacks.model.files.compatibility import Rule
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.kube.connection import Connection
    from clusterstacks.operator.controllers.registration import CachedKind, Reconciler, Registration, ToKeys
    from clusterstacks.operator.settings import OperatorSettings
    from clusterstacks.operator.webhook_wiring import Webhooks
    from clusterstacks.runtime.cache import CacheChange
    from clusterstacks.runtime.leader_election import LeaderElector

COMPONENT = "cluster-stack-operator"
MANAGEMENT_BUDGET = 64
"""Concurrent requests to the management API server: one per worker by default."""

COLLECT_INTERVAL = timedelta(minutes=10)
"""Interval between two removals of unused releases from the cache directory. Arbitrary."""

log = logging.getLogger(__name__)


class Operator:
    """The parts of the operator. ``services`` returns what has to run; ``close`` ends what remains after them.

    ``environ`` is searched for the kubeconfig when no flag names one. A SpecError says which setting is not usable.
    """

    def __init__(self, settings: OperatorSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._metrics = Metrics()
        self._probes = Probes()
        self._pool = Pool(on_answer=partial(self._metrics.count_request, "management"))
        connection, origin = named_connection(environ, settings.kubeconfig)
        self.management = f"{connection.server}, found by {origin}"
        """Address of the management API server, and where the kubeconfig was found."""
        self._elector = self._build_elector(connection)
        observing = ObservingGate() if settings.observe else None
        gate = self._elector.gate if self._elector else observing
        self._client = Client(connection, self._pool, budget=MANAGEMENT_BUDGET, user_agent=COMPONENT, gate=gate)
        # Webhooks serve on every replica and rotate their certificate with optimistic locking, so they pass no gate.
        # Every client that reaches their port can make them read, which must not use up the reconcilers' budget. The
        # same holds for the server of node images.
        self._webhook_client = Client(connection, self._pool, user_agent=COMPONENT, gate=observing)
        self._image_addresses = self._build_image_addresses()
        self._events = EventRecorder(self._client, COMPONENT)
        self._unreadable = UnreadableObjectReporter(self._events, self._metrics)
        self._renderer = self._build_renderer()
        self._metrics.watch_renders(self._renderer.waiting, self._renderer.oldest_wait)
        self._probes.add_ready("render workers", self._renderer.problem)
        self._workloads = Workloads(
            self._client,
            gate,
            on_answer=partial(self._metrics.count_request, "workload"),
            is_ours=self._owns,
        )
        known = [*REGISTRATIONS, *(one for name in settings.providers for one in PROVIDERS[name])]
        registered = [one for one in known if one.in_shards or not settings.shard]
        caches = {cache.kind: cache for registration in known for cache in registration.caches}
        self._caches = {kind: self._make_informer(cache) for kind, cache in caches.items()}
        self._informers = {kind: informer for kind, informer in self._caches.items() if caches[kind].required}
        self._further_informers: asyncio.Queue[Informer] = asyncio.Queue()
        self._rules = ProviderRules(self._clock)
        self._caches[Kind.COMPATIBILITY_RULE].subscribe(self._rules.changed)
        self._sources = SourceServices(
            settings,
            environ,
            client=self._client,
            stacks=self._informers[Kind.CLUSTER_STACK].cache,
            clock=self._clock,
            changed=self._source_changed,
        )
        clusters = self._informers[CLUSTER_KIND].cache
        namespace = settings.election.namespace if settings.election else settings.operator_namespace
        self._shard_leases = ShardLeases(self._client, namespace, clusters, self._enqueue(clusteraddon.CREATOR_NAME))
        self._shards = ShardMoves(
            own=settings.shard,
            client=self._client,
            clusters=clusters,
            workloads=self._workloads,
            is_running=self._shard_leases.is_running,
            unserved=self._shard_leases.unserved,
        )
        self._controllers: dict[str, Controller] = {}
        self._source_watches: list[tuple[Controller, Callable[[ObjectKey], Iterable[ObjectKey]]]] = []
        environment = self._environment()
        for registration in registered:
            self._register(registration, registration.build(environment))
        self._webhooks = self._build_webhooks()
        self._wire_probes_and_metrics()
        self.observation = self._build_observation(environment, observing) if observing else None
        """Reports what would be written; None in an operator that writes."""

    @property
    def source(self) -> str:
        """Address of the operator's own source of releases, for ClusterStacks without ``spec.source``."""
        return str(self._sources.policy.default.address)

    def services(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the services that run until the operator stops, by name."""
        services: dict[str, Callable[[], Awaitable[None]]] = {
            f"{kind.lower()} informer": informer.run for kind, informer in self._caches.items()
        }
        elector = self._elector
        writers = {
            f"{name} controller": self._after_webhooks(controller.run) for name, controller in self._controllers.items()
        }
        for name, write in writers.items():
            services[name] = self._after_sync(write if elector is None else elector.while_held(write))
        settings = self._settings
        if self.observation is not None:
            if not settings.once:
                services["observation"] = self.observation.run
        else:
            for name, write in self._further_writers().items():
                services[name] = write if elector is None else elector.while_held(write)
        if settings.operator_namespace:
            services["rights"] = RightsCheck(
                client=self._webhook_client,
                namespace=settings.operator_namespace,
                features=self._features(),
                watched=settings.namespace,
            ).run
        if elector is not None:
            # A replica that leads without complete caches would only keep other replicas from working.
            services["leader election"] = self._after_sync(elector.run)
        services["release collection"] = self._after_sync(self._collect_releases)
        services["informers of further kinds"] = self._run_further_informers
        if self._webhooks is not None:
            services["webhooks"] = self._after_sync(self._webhooks.run)
        elif self._settings.webhook_port:
            log.warning(
                "The webhooks are disabled: set --webhook-service to the Service by which the API server calls them"
            )
        return services | self._servers()

    async def close(self) -> None:
        """End the worker processes, then the connections."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._pool.close)
            stack.push_async_callback(self._client.close)
            stack.push_async_callback(self._webhook_client.close)
            stack.push_async_callback(self._workloads.close)
            stack.push_async_callback(self._renderer.close)
            stack.push_async_callback(self._sources.close)
            if self._webhooks is not None:
                stack.push_async_callback(self._webhooks.close)

    def _servers(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the servers besides that of the webhooks."""
        settings = self._settings
        services: dict[str, Callable[[], Awaitable[None]]] = {}
        if self._image_addresses is not None and self.observation is None:
            services["node images"] = self._after_sync(
                ImageServer(
                    *settings.node_image_address,
                    addresses=self._image_addresses,
                    releases=self._informers[Kind.CLUSTER_STACK_RELEASE].cache,
                    open_source=self._sources.fetcher(lambda _: None).image_source,
                    certificates=settings.node_image_cert_dir,
                ).run
            )
        host, port = self._settings.probe_address
        if port:
            services["probes"] = ProbesServer(host, port, probes=self._probes, observation=self.observation).run
        host, port = self._settings.metrics_address
        if port:
            services["metrics"] = ProbesServer(host, port, metrics=self._metrics).run
        return services

    def _further_writers(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the services that write, besides the controllers; a shard leaves most to the main instance."""
        settings = self._settings
        writers: dict[str, Callable[[], Awaitable[None]]] = {"unreadable objects": self._unreadable.run}
        if settings.shard:
            return writers
        leftovers = GoLeftovers(client=self._client, namespace=settings.operator_namespace, remove=settings.take_over)
        writers["leftovers"] = leftovers.run
        if settings.operator_namespace and not settings.webhook_port:
            name = WebhookScope(settings.namespace).name
            forget = partial(unregister, self._client, name, settings.operator_namespace, self._clock)
            writers["webhook registration"] = forget
        if self._elector is not None:
            writers["shards"] = self._after_sync(self._shard_leases.run)
        return writers

    def _wire_probes_and_metrics(self) -> None:
        settings = self._settings
        for kind, informer in self._caches.items():
            self._metrics.watch_health(f"{kind.lower()} informer", informer.health)
        for kind, informer in self._informers.items():
            self._probes.add_ready(f"{kind.lower()} informer", partial(sync_problem, informer))
        listings = self._sources.listings
        self._probes.add_ready("releases", partial(listings.problem, self._sources.policy.default.address))
        self._metrics.watch_failing_sources(listings.failing)
        self._metrics.watch_source_age(listings.oldest_success)
        if not settings.shard:
            clusters = self._informers[CLUSTER_KIND].cache
            self._metrics.watch_support(
                lambda: clusters_by_minor(clusters.all()), lambda minor: support_days(minor, self._clock.now().date())
            )
            self._metrics.watch_unserved(self._shard_leases.unserved, settings.shards)
        self._metrics.set_version(version("cluster-stacks"), settings.shard)
        if self._elector is not None:
            self._probes.add_ready("leader election", self._elector.problem)
        self._metrics.watch_checks(self._probes.failing)

    def _build_observation(self, environment: ControllerContext, gate: ObservingGate) -> Observation:
        addons, bindings = self._caches[Kind.CLUSTER_ADDON], self._caches[Kind.CLUSTER_RESOURCE_SYNC_BINDING]
        swept = (
            SweptKind(addons.cache, ("spec", "clusterRef", "name"), environment.addon_sweep.uncompared),
            SweptKind(bindings.cache, ("spec", "clusterName"), environment.sync_sweep.uncompared),
        )
        return Observation(gate, swept, self._is_idle)

    def _is_idle(self) -> bool:
        """Return whether all caches are filled as far as possible, and nothing is reconciled or downloaded."""
        are_filled = all(one.is_synced or one.health.is_failing for one in self._caches.values())
        are_required = all(one.is_synced for one in self._informers.values())
        controllers = all(controller.is_idle for controller in self._controllers.values())
        return are_filled and are_required and controllers and self._sources.is_idle

    def _build_renderer(self) -> Renderer:
        size = sizing(memory_limit())
        if size.shortage:
            log.warning("%s", size.shortage)
        limits = RenderLimits(memory_bytes=size.memory_bytes)
        return Renderer(workers=size.workers, limits=limits, on_failure=self._metrics.count_render_failure)

    def _features(self) -> frozenset[Feature]:
        settings = self._settings
        on = {
            Feature.WEBHOOKS: self._webhooks is not None,
            Feature.NO_WEBHOOKS: not (settings.webhook_port or settings.observe or settings.shard),
            Feature.ELECTION: self._elector is not None,
            Feature.NODE_IMAGES: self._image_addresses is not None,
        }
        return frozenset(feature for feature, switched in on.items() if switched)

    def _build_image_addresses(self) -> ImageAddresses | None:
        settings = self._settings
        if not settings.node_image_address[1]:
            return None
        secret = ObjectKey(settings.operator_namespace, IMAGE_KEY_SECRET)
        return ImageAddresses(client=self._webhook_client, secret=secret, url=settings.node_image_url)

    def _build_elector(self, connection: Connection) -> LeaderElector | None:
        settings = self._settings.election
        self._metrics.leader.set(settings is None and not self._settings.observe)
        if settings is None:
            return None
        return build_elector(settings, connection, self._pool, COMPONENT, self._metrics.leader.set)

    def _make_informer(self, cache: CachedKind) -> Informer:
        shard = self._settings.shard
        informer = Informer(
            self._client,
            cache.group,
            cache.kind,
            namespace=self._settings.namespace if cache.namespaced else "",
            labels=f"{SHARD_LABEL}={shard}" if shard and cache.sharded else "",
            indexes=cache.indexes,
            trim=cache.trim,
            keep_unreadable=cache.keep_unreadable,
            metadata_only=cache.metadata_only,
        )
        if not cache.metadata_only and (cache.sharded or not shard):
            self._unreadable.follow(informer)
        return informer

    def _watch_kind(self, cache: CachedKind) -> Informer:
        informer = self._make_informer(cache)
        self._further_informers.put_nowait(informer)
        return informer

    def _environment(self) -> ControllerContext:
        # A rollout of addons and the delivery of a sync to the same cluster read each other's records.
        locks: dict[ObjectKey, asyncio.Lock] = defaultdict(asyncio.Lock)
        return ControllerContext(
            client=self._client,
            clock=self._clock,
            events=self._events,
            metrics=self._metrics,
            renderer=self._renderer,
            workloads=self._workloads,
            addon_sweep=AddonSweep(
                workloads=self._workloads,
                clock=self._clock,
                changed=self._enqueue(clusteraddon.NAME),
                poll=self._enqueue(clusteraddon.SWEEP_NAME),
                metrics=self._metrics,
                renderer=self._renderer,
                locks=locks,
                at_once=self._settings.observe,
            ),
            sync_sweep=AddonSweep(
                workloads=self._workloads,
                clock=self._clock,
                changed=self._enqueue(clusterresourcesync.BINDING_NAME),
                poll=self._enqueue(clusterresourcesync.SWEEP_NAME),
                metrics=self._metrics,
                renderer=self._renderer,
                locks=locks,
                kind=SYNC_RECORD,
                at_once=self._settings.observe,
            ),
            informers=self._caches,
            watch_kind=self._watch_kind,
            enqueue=self._enqueue,
            make_fetcher=self._sources.fetcher,
            source_policy=self._sources.policy,
            listings=self._sources.listings,
            statements=self._sources.statements,
            rules=self._counting,
            watch_filter=self._settings.watch_filter,
            shards=self._shards,
            provider_kinds=self._settings.provider_kinds,
            class_kinds=self._settings.class_kinds,
            drift_interval=self._settings.drift_interval,
            image_url=self._image_addresses.of if self._image_addresses else None,
        )

    def _owns(self, cluster: ObjectKey) -> bool:
        return self._shards.owns(cluster)

    def _register(self, registration: Registration, reconciler: Reconciler) -> None:
        workers = self._settings.workers.get(registration.concurrency_of or registration.name, registration.concurrency)
        controller = Controller(registration.name, reconciler.reconcile, workers=workers, metrics=self._metrics)
        self._controllers[registration.name] = controller
        if reconciler.forget is not None:
            self._caches[registration.kind].subscribe(partial(_forget_deleted, reconciler.forget))
        for watch in reconciler.watches:
            self._caches[watch.kind].subscribe(partial(_enqueue_changed, controller, watch.to_keys))
        if reconciler.source_keys is not None:
            self._source_watches.append((controller, reconciler.source_keys))
        if registration.reports_ready:
            store, shard = self._caches[registration.kind].cache, self._settings.shard
            held = (lambda one: shard_of(one) == shard) if registration.in_shards else (lambda _: True)
            self._metrics.watch_problems(registration.kind, lambda: find_problems(filter(held, store.all())))

    def _enqueue(self, controller: str) -> Callable[[ObjectKey], None]:
        """Return a function that enqueues an object of a controller, which may be built later."""

        def enqueue(key: ObjectKey) -> None:
            self._controllers[controller].enqueue(key)

        return enqueue

    def _source_changed(self, stacks: Collection[ObjectKey]) -> None:
        for stack in stacks:
            for controller, to_keys in self._source_watches:
                for key in to_keys(stack):
                    controller.enqueue(key)

    def _counting(self, release: ReleaseName, labels: Mapping[str, str]) -> tuple[Rule, ...] | None:
        return self._rules.counting(release, labels) if self._caches[Kind.COMPATIBILITY_RULE].is_synced else None

    def _build_webhooks(self) -> Webhooks | None:
        settings = self._settings
        if not settings.webhook_port or (settings.webhook_service is None and not settings.webhook_url):
            return None
        # Without webhooks the planner and the validators stay out of memory.
        from clusterstacks.operator.webhook_wiring import Webhooks, webhook_namespace  # noqa: PLC0415

        return Webhooks(
            settings,
            namespace=webhook_namespace(settings),
            client=self._webhook_client,
            informers=self._informers,
            sources=self._sources,
            events=EventRecorder(self._webhook_client, COMPONENT),
            rules=self._rules,
            metrics=self._metrics,
        )

    def _after_sync(self, service: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Run a service once all required informers are synced: with partial caches it would delete objects in use."""

        async def run() -> None:
            for informer in self._informers.values():
                await informer.synced()
            await service()

        return run

    def _after_webhooks(self, service: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Run a service once the webhooks serve: before, the API server calls those of an earlier process and fails."""

        async def run() -> None:
            if self._webhooks is not None:
                await self._webhooks.registered()
            await service()

        return run

    async def _collect_releases(self) -> None:
        releases = self._informers[Kind.CLUSTER_STACK_RELEASE].cache
        while True:
            places = (("metadata", "annotations", DIGEST_ANNOTATION), ("status", "digest"))
            used = {text(release, *place) for release in releases.all() for place in places}
            try:
                await self._sources.store.collect(used)
            except ClusterStacksError as error:
                log.warning("Unused releases cannot be removed from the cache directory: %s", error)
            await self._clock.sleep(COLLECT_INTERVAL.total_seconds())

    async def _run_further_informers(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                informer = await self._further_informers.get()
                group.create_task(informer.run(), name=f"{informer} informer")


def sync_problem(informer: Informer) -> str:
    """Return why an informer is not ready; empty when it is.

    Decisions on a store that has not followed the server for minutes may be wrong.
    """
    if not informer.is_synced:
        return f"{informer} has not been listed yet"
    return informer.health.problem()


def _forget_deleted(forget: Callable[[ObjectKey], None], change: CacheChange) -> None:
    if change.new is None:
        forget(change.key)


def _enqueue_changed(controller: Controller, to_keys: ToKeys, change: CacheChange) -> None:
    for key in to_keys(change):
        controller.enqueue(key)
