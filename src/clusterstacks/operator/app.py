"""Builds the operator's parts and connects them; the only place that knows all of them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING

from clusterstacks.api.names import DIGEST_ANNOTATION, GROUP, Kind
from clusterstacks.apply.class_applier import Applier
from clusterstacks.apply.class_object_rules import GroupKind
from clusterstacks.compat.library import facts
from clusterstacks.controllers.clusteraddon.class_access import ClassAccess
from clusterstacks.controllers.clusteraddon.compat_check import ADVISORY as ADDON_ADVISORY
from clusterstacks.controllers.clusteraddon.compat_check import LiveCheck
from clusterstacks.controllers.clusteraddon.contract_kinds import ContractKinds
from clusterstacks.controllers.clusteraddon.create_addon import AddonCreator
from clusterstacks.controllers.clusteraddon.reconciler import AddonReconciler
from clusterstacks.controllers.clusteraddon.rollout import Rolling
from clusterstacks.controllers.clusteraddon.workload_clients import Workloads
from clusterstacks.controllers.clusterstack.owned_releases import OwnedReleases
from clusterstacks.controllers.clusterstack.reconciler import StackReconciler
from clusterstacks.controllers.clusterstackrelease.drift import ClassObjects, class_metadata
from clusterstacks.controllers.clusterstackrelease.facts_status import FactsInStatus
from clusterstacks.controllers.clusterstackrelease.reconciler import ReleaseReconciler
from clusterstacks.controllers.clusterstackrelease.source_check import ADVISORY, Vigilance
from clusterstacks.controllers.provider_objects import ProviderObjects
from clusterstacks.controllers.status_reconciler import StatusReconciler
from clusterstacks.domain.errors import ClusterStacksError
from clusterstacks.kube.client import Client
from clusterstacks.kube.kubeconfig import named_connection
from clusterstacks.kube.transport import Pool
from clusterstacks.operator.event_handlers import EventHandlers
from clusterstacks.operator.go_installation import GoLeftovers
from clusterstacks.operator.informers import build_informers, keeps_remnants, sync_problem, trim_of
from clusterstacks.operator.lease_settings import build_elector
from clusterstacks.operator.probes_server import ProbesServer
from clusterstacks.operator.rbac import Feature, RightsCheck
from clusterstacks.operator.ready_counts import unready
from clusterstacks.operator.source_wiring import Supplies
from clusterstacks.operator.webhook_wiring import Webhooks, webhook_namespace
from clusterstacks.render.pool_size import sizing
from clusterstacks.render.renderer import Renderer, RenderLimits
from clusterstacks.runtime.clock import SystemClock
from clusterstacks.runtime.controller import ReconcilerHost
from clusterstacks.runtime.events import EventRecorder
from clusterstacks.runtime.health_checks import Probes
from clusterstacks.runtime.informer import Informer
from clusterstacks.runtime.memory_limit import memory_limit
from clusterstacks.runtime.metrics import Metrics
from clusterstacks.runtime.unreadable_objects import UnreadableObjects
from clusterstacks.runtime.watchdog import Watchdog
from clusterstacks.webhooks.provider_rules import ProviderRules

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from clusterstacks.controllers.status_reconciler import StatusPatch
    from clusterstacks.domain.compatibility import Rule
    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.objects import Manifest, ObjectKey
    from clusterstacks.domain.outcomes import Outcome
    from clusterstacks.kube.connection import Connection
    from clusterstacks.operator.settings import OperatorSettings
    from clusterstacks.runtime.cache import CacheChange, Store
    from clusterstacks.runtime.controller import Reconcile
    from clusterstacks.runtime.leader_election import Elector
    from clusterstacks.runtime.metrics import Unready

COMPONENT = "cluster-stack-operator"
MANAGEMENT_BUDGET = 64
"""Requests to the management API server at the same time: one per worker by default."""

COLLECT_INTERVAL = timedelta(minutes=10)
"""How often releases nobody needs are removed from the cache directory. Arbitrary."""

log = logging.getLogger(__name__)


class Operator:
    """The operator's parts. ``services`` are what has to run; ``close`` ends what remains after them.

    Args:
        settings: The command line.
        environ: The environment; where the kubeconfig is found when no flag names one.

    Attributes:
        management: Address of the management API server, and where it was found.

    Raises:
        SpecError: A setting or the kubeconfig is unusable.
    """

    def __init__(self, settings: OperatorSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._metrics = Metrics()
        self._probes = Probes()
        self._pool = Pool(on_answer=self._metrics.count_request)
        connection, origin = named_connection(environ, settings.kubeconfig)
        self.management = f"{connection.server}, found by {origin}"
        self._elector = self._build_elector(connection)
        gate = self._elector.gate if self._elector else None
        self._client = Client(connection, self._pool, budget=MANAGEMENT_BUDGET, user_agent=COMPONENT, gate=gate)
        # Webhooks serve on every replica, and keep their certificate by optimistic locking: no gate for them. Whoever
        # reaches their port can make them read: that must not take the reconcilers' budget.
        self._webhook_client = Client(connection, self._pool, user_agent=COMPONENT)
        self._events = EventRecorder(self._client, COMPONENT)
        self._unreadable = UnreadableObjects(self._events, self._metrics)
        self._renderer = self._build_renderer()
        self._metrics.watch_renders(self._renderer.waiting, self._renderer.oldest_wait)
        self._probes.add_ready("render workers", self._renderer.problem)
        self._workloads = Workloads(self._client, self._pool, gate)
        self._informers = build_informers(self._informer)
        self._rules = ProviderRules(self._clock)
        # Nobody waits for it: where rules cannot be read, clusters come up all the same.
        self._rule_informer = Informer(self._client, GROUP, Kind.COMPATIBILITY_RULE)
        self._unreadable.follow(self._rule_informer)
        self._kind_informers: asyncio.Queue[Informer] = asyncio.Queue()
        self._supplies = Supplies(
            settings,
            environ,
            client=self._client,
            stacks=self._informers["clusterstack"].store,
            clock=self._clock,
            changed=self._source_changed,
        )
        self._release_supply = self._supplies.supply(self._waker("clusterstackrelease"))
        self._addon_supply = self._supplies.supply(self._waker("clusteraddon"))
        self._vigilance = Vigilance(supply=self._release_supply, clock=self._clock)
        self._class_objects = self._build_class_objects()
        self._hosts = self._build_hosts()
        self._wakers = self._build_wakers()
        self._webhooks = self._build_webhooks()
        for name, informer in self._informers.items():
            self._probes.add_ready(f"{name} informer", partial(sync_problem, informer))
            self._metrics.watch_health(f"{name} informer", informer.health)
        self._metrics.watch_health("compatibilityrule informer", self._rule_informer.health)
        listings = self._supplies.listings
        self._probes.add_ready("releases", partial(listings.problem, self._supplies.choice.default.address))
        self._metrics.watch_failing_sources(listings.failing)
        self._metrics.watch_source_age(listings.oldest_success)
        self._metrics.set_version(version("cluster-stacks"))
        for kind in (Kind.CLUSTER_STACK, Kind.CLUSTER_STACK_RELEASE, Kind.CLUSTER_ADDON):
            store = self._informers[kind.lower()].store
            self._metrics.watch_not_ready(kind, partial(_unready_in, store))
        if self._elector is not None:
            self._probes.add_ready("leader election", self._elector.problem)

    @property
    def source(self) -> str:
        """Where releases come from, unless a ClusterStack says where."""
        return str(self._supplies.choice.default.address)

    def services(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Everything that runs until the operator is told to stop, by name."""
        services: dict[str, Callable[[], Awaitable[None]]] = {
            f"{name} informer": informer.run for name, informer in self._informers.items()
        }
        elector = self._elector
        writers = {f"{name} controller": self._after_webhooks(host.run) for name, host in self._hosts.items()}
        for name, write in writers.items():
            services[name] = self._after_sync(write if elector is None else elector.while_held(write))
        services["unreadable objects"] = (
            self._unreadable.run if elector is None else elector.while_held(self._unreadable.run)
        )
        services["watchdog"] = Watchdog(self._metrics).run
        settings = self._settings
        leftovers = GoLeftovers(client=self._client, namespace=settings.operator_namespace, remove=settings.take_over)
        services["leftovers"] = leftovers.run if elector is None else elector.while_held(leftovers.run)
        if settings.operator_namespace:
            services["rights"] = RightsCheck(
                client=self._webhook_client,
                namespace=settings.operator_namespace,
                features=self._features(),
                watched=settings.namespace,
            ).run
        if elector is not None:
            # A replica that cannot read what it needs would only keep others from working.
            services["leader election"] = self._after_sync(elector.run)
        services["compatibilityrule informer"] = self._rule_informer.run
        services["release collection"] = self._after_sync(self._collect_releases)
        services["informers of further kinds"] = self._run_kind_informers
        if self._webhooks is not None:
            services["webhooks"] = self._after_sync(self._webhooks.run)
        elif self._settings.webhook_port:
            log.warning("Nothing is validated at admission: --webhook-service says how the API server calls")
        host, port = self._settings.probe_address
        if port:
            services["probes"] = ProbesServer(host, port, probes=self._probes).run
        host, port = self._settings.metrics_address
        if port:
            services["metrics"] = ProbesServer(host, port, metrics=self._metrics).run
        return services

    async def close(self) -> None:
        """End workers and connections."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._pool.close)
            stack.push_async_callback(self._client.close)
            stack.push_async_callback(self._webhook_client.close)
            stack.push_async_callback(self._workloads.close)
            stack.push_async_callback(self._renderer.close)
            stack.push_async_callback(self._supplies.close)
            if self._webhooks is not None:
                stack.push_async_callback(self._webhooks.close)

    def _build_renderer(self) -> Renderer:
        size = sizing(memory_limit())
        if size.shortage:
            log.warning("%s", size.shortage)
        limits = RenderLimits(memory_bytes=size.memory_bytes)
        return Renderer(workers=size.workers, limits=limits, on_failure=self._metrics.count_render_failure)

    def _features(self) -> frozenset[Feature]:
        on = {Feature.WEBHOOKS: self._webhooks is not None, Feature.ELECTION: self._elector is not None}
        return frozenset(feature for feature, switched in on.items() if switched)

    def _build_elector(self, connection: Connection) -> Elector | None:
        settings = self._settings.election
        self._metrics.leader.set(settings is None)
        if settings is None:
            return None
        return build_elector(settings, connection, self._pool, COMPONENT, self._metrics.leader.set)

    def _informer(
        self, group: str, kind: str, indexes: Mapping[str, Callable[[Manifest], list[str]]] | None = None
    ) -> Informer:
        informer = Informer(
            self._client,
            group,
            kind,
            namespace=self._settings.namespace,
            indexes=indexes,
            trim=trim_of(kind),
            keep_remnants=keeps_remnants(kind),
        )
        self._unreadable.follow(informer)
        return informer

    def _build_hosts(self) -> dict[str, ReconcilerHost]:
        offers = ClassAccess(self._client, self._informers["clusterstack"].store)
        creator = AddonCreator(
            client=self._client,
            clock=self._clock,
            releases=self._informers["clusterstackrelease"].store,
            addons=self._informers["clusteraddon"].store,
            offers=offers,
            events=self._events,
        )
        release = self._framed(Kind.CLUSTER_STACK_RELEASE, self._release_reconciler().work, ADVISORY)
        return {
            "clusterstack": self._host("clusterstack", self._framed(Kind.CLUSTER_STACK, self._stack_reconciler().work)),
            "clusterstackrelease": self._host("clusterstackrelease", release),
            "clusteraddon": self._host(
                "clusteraddon",
                self._framed(Kind.CLUSTER_ADDON, self._addon_reconciler(offers).work, ADDON_ADVISORY),
            ),
            "cluster": self._host("cluster", creator.reconcile),
        }

    def _stack_reconciler(self) -> StackReconciler:
        releases = self._informers["clusterstackrelease"].store
        return StackReconciler(
            client=self._client,
            choice=self._supplies.choice,
            listings=self._supplies.listings,
            clusters=self._informers["cluster"].store,
            addons=self._informers["clusteraddon"].store,
            releases=OwnedReleases(client=self._client, store=releases, events=self._events),
            events=self._events,
            provider_kinds=self._settings.provider_kinds,
        )

    def _release_reconciler(self) -> ReleaseReconciler:
        return ReleaseReconciler(
            client=self._client,
            supply=self._release_supply,
            vigilance=self._vigilance,
            facts=FactsInStatus(supply=self._release_supply),
            class_objects=self._class_objects,
            renderer=self._renderer,
            applier=Applier(self._client, extra_kinds=[GroupKind.parse(kind) for kind in self._settings.class_kinds]),
            providers=ProviderObjects(
                client=self._client,
                kinds=self._settings.provider_kinds,
                informer=self._informer,
                start=self._kind_informers.put_nowait,
                enqueue=self._provider_changed,
            ),
            events=self._events,
        )

    def _build_class_objects(self) -> ClassObjects:
        def informer(group: str, kind: str) -> Informer:
            namespace = self._settings.namespace
            return Informer(self._client, group, kind, namespace=namespace, trim=class_metadata, metadata_only=True)

        return ClassObjects(
            client=self._client,
            classes=self._informers["clusterclass"],
            informer=informer,
            start=self._kind_informers.put_nowait,
            enqueue=self._waker("clusterstackrelease"),
            clock=self._clock,
            extra_kinds=[GroupKind.parse(kind) for kind in self._settings.class_kinds],
        )

    def _addon_reconciler(self, offers: ClassAccess) -> AddonReconciler:
        rolling = Rolling(
            client=self._client,
            supply=self._addon_supply,
            renderer=self._renderer,
            events=self._events,
            metrics=self._metrics,
        )
        return AddonReconciler(
            client=self._client,
            clock=self._clock,
            offers=offers,
            contracts=ContractKinds(self._client),
            workloads=self._workloads,
            rolling=rolling,
            live=LiveCheck(store=self._supplies.store, counting=self._counting, upstream=facts()),
        )

    def _counting(self, release: ReleaseName, labels: Mapping[str, str]) -> tuple[Rule, ...] | None:
        return self._rules.counting(release, labels) if self._rule_informer.is_synced else None

    def _waker(self, host: str) -> Callable[[ObjectKey], None]:
        """Give what wakes an object of a controller that is built later."""

        def wake(key: ObjectKey) -> None:
            self._hosts[host].enqueue(key)

        return wake

    def _source_changed(self, stacks: Collection[ObjectKey]) -> None:
        self._wakers.source_changed(stacks)

    def _forget_stack(self, change: CacheChange) -> None:
        if change.new is None:
            self._supplies.listings.unfollow(change.key)

    def _forget_release(self, change: CacheChange) -> None:
        if change.new is None:
            self._release_supply.forget(change.key)
            self._vigilance.forget(change.key)
            self._class_objects.forget(change.key)

    def _forget_addon(self, change: CacheChange) -> None:
        if change.new is None:
            self._addon_supply.forget(change.key)

    def _provider_changed(self, key: ObjectKey) -> None:
        self._wakers.provider_changed(key)

    def _framed(
        self,
        kind: Kind,
        work: Callable[[StatusPatch], Awaitable[Outcome | None]],
        advisory: frozenset[str] = frozenset(),
    ) -> Reconcile:
        return StatusReconciler(
            group=GROUP,
            kind=kind,
            client=self._client,
            clock=self._clock,
            events=self._events,
            work=work,
            advisory=advisory,
        ).reconcile

    def _host(self, name: str, reconcile: Reconcile) -> ReconcilerHost:
        workers = self._settings.workers.get(name, self._settings.workers["clusterstackrelease"])
        return ReconcilerHost(name, reconcile, workers=workers, metrics=self._metrics)

    def _build_webhooks(self) -> Webhooks | None:
        settings = self._settings
        if not settings.webhook_port or (settings.webhook_service is None and not settings.webhook_url):
            return None
        return Webhooks(
            settings,
            home=webhook_namespace(settings),
            client=self._webhook_client,
            informers=self._informers,
            supplies=self._supplies,
            events=EventRecorder(self._webhook_client, COMPONENT),
            rules=self._rules,
            metrics=self._metrics,
        )

    def _build_wakers(self) -> EventHandlers:
        wakers = EventHandlers(
            watch_filter=self._settings.watch_filter,
            stack_host=self._hosts["clusterstack"],
            release_host=self._hosts["clusterstackrelease"],
            creator_host=self._hosts["cluster"],
            addon_host=self._hosts["clusteraddon"],
            stacks=self._informers["clusterstack"].store,
            releases=self._informers["clusterstackrelease"].store,
            clusters=self._informers["cluster"].store,
        )
        self._informers["clusterstack"].subscribe(self._forget_stack)
        self._informers["clusterstackrelease"].subscribe(self._forget_release)
        self._informers["clusteraddon"].subscribe(self._forget_addon)
        self._informers["clusterstack"].subscribe(wakers.stack_changed)
        self._informers["clusterstackrelease"].subscribe(wakers.release_changed)
        self._informers["clusteraddon"].subscribe(wakers.addon_changed)
        self._informers["cluster"].subscribe(wakers.cluster_changed)
        self._informers["clusterclass"].subscribe(wakers.class_changed)
        self._rule_informer.subscribe(self._rules.changed)
        self._rule_informer.subscribe(wakers.rule_changed)
        return wakers

    def _after_sync(self, service: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Decisions on half-filled stores would delete what is in use: nothing decides before all are complete."""

        async def run() -> None:
            for informer in self._informers.values():
                await informer.synced()
            await service()

        return run

    def _after_webhooks(self, service: Callable[[], Awaitable[None]]) -> Callable[[], Awaitable[None]]:
        """Until the webhooks serve, the API server would call those of an earlier process, and fail our writes."""

        async def run() -> None:
            if self._webhooks is not None:
                await self._webhooks.registered()
            await service()

        return run

    async def _collect_releases(self) -> None:
        releases = self._informers["clusterstackrelease"].store
        while True:
            annotations = [release["metadata"].get("annotations") or {} for release in releases.all()]
            try:
                await self._supplies.store.collect(
                    {one[DIGEST_ANNOTATION] for one in annotations if DIGEST_ANNOTATION in one}
                )
            except ClusterStacksError as error:
                log.warning("Releases nobody needs are not removed: %s", error)
            await self._clock.sleep(COLLECT_INTERVAL.total_seconds())

    async def _run_kind_informers(self) -> None:
        async with asyncio.TaskGroup() as group:
            while True:
                informer = await self._kind_informers.get()
                group.create_task(informer.run(), name=f"{informer} informer")


def _unready_in(store: Store) -> Unready:
    return unready(store.all())
