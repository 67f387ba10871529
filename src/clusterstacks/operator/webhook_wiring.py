"""Builds and runs the validating webhooks: certificate, server and validators."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import CLUSTER_CLASS_KIND, CLUSTER_KIND, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.tls import server_context
from clusterstacks.operator.controllers.class_access import ClassAccess
from clusterstacks.operator.release_catalog import ReleaseCatalog
from clusterstacks.operator.webhooks.certificates import CertificateRotator
from clusterstacks.operator.webhooks.cluster_validator import ClusterValidator
from clusterstacks.operator.webhooks.configuration import SECRET_NAME, Endpoint, WebhookScope
from clusterstacks.operator.webhooks.dispatch import Validator
from clusterstacks.operator.webhooks.server import WebhookServer
from clusterstacks.operator.webhooks.shard_rule import ShardRule
from clusterstacks.operator.webhooks.stack_validators import StackValidators
from clusterstacks.operator.webhooks.suggestions import Suggester
from clusterstacks.plan.compat.library import facts
from clusterstacks.runtime.background_tasks import RateLimiter
from clusterstacks.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.net.kube.client import Client
    from clusterstacks.operator.settings import OperatorSettings
    from clusterstacks.operator.source_wiring import SourceServices
    from clusterstacks.plan.clusters.provider_rules import ProviderRules
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.informer import Informer
    from clusterstacks.runtime.metrics import Metrics

FETCHES, FETCH_INTERVAL = 16, timedelta(seconds=10)
"""Rate limit for fetching releases that an admission request needs: the burst, and the interval after it. Arbitrary;
every client that reaches the port can cause it, and a release has some megabytes."""

VALIDATED_KINDS = frozenset({CLUSTER_KIND, *Kind})

REGISTRATION_TIMEOUT = timedelta(seconds=10)
"""Timeout for the webhooks at the start of the controllers. Arbitrary: it takes less than one second, and after a
failure the controllers still have work to do."""

log = logging.getLogger(__name__)


class Webhooks:
    """The webhooks of one process.

    ``namespace`` is that of the Secret with the certificate and key; ``events`` records that an annotation allowed a
    change.
    """

    def __init__(  # noqa: PLR0913 - the inputs of all decisions
        self,
        settings: OperatorSettings,
        *,
        namespace: str,
        client: Client,
        informers: Mapping[str, Informer],
        sources: SourceServices,
        events: EventRecorder,
        rules: ProviderRules,
        metrics: Metrics,
    ) -> None:
        access = ClassAccess(
            client=client,
            stacks=informers[Kind.CLUSTER_STACK].cache,
            releases=informers[Kind.CLUSTER_STACK_RELEASE].cache,
            addons=informers[Kind.CLUSTER_ADDON].cache,
            listed=sources.listings.known,
        )
        endpoint = Endpoint(settings.webhook_service, settings.webhook_url)
        upstream, releases = facts(), informers[Kind.CLUSTER_STACK_RELEASE].cache
        self._suggester = Suggester()
        clusters = ClusterValidator(
            releases=ReleaseCatalog(
                client=client,
                releases=releases,
                classes=informers[CLUSTER_CLASS_KIND].cache,
                addons=informers[Kind.CLUSTER_ADDON].cache,
                access=access,
                fetcher=sources.fetcher(_ignore, RateLimiter(FETCHES, FETCH_INTERVAL)),
                listings=sources.listings,
                statements=sources.statements,
            ),
            rules=rules.counting,
            upstream=upstream,
            suggester=self._suggester,
            shards=ShardRule(client, settings.shards),
        )
        live = informers[CLUSTER_KIND].cache
        own = StackValidators(client, live, releases, access.stacks, settings.provider_kinds, access.counts)
        self._validator = Validator(own, clusters, events, live, decided=metrics.count_decision)
        context = server_context()
        self.server = WebhookServer(
            _host(settings.webhook_url), settings.webhook_port, context, self._validator.validate, self._count_response
        )
        self._metrics = metrics
        metrics.watch_webhook_requests(lambda: self.server.in_flight)
        self._keeper = CertificateRotator(
            client=client,
            secret=ObjectKey(namespace, SECRET_NAME),
            endpoint=endpoint,
            scope=WebhookScope(
                settings.namespace,
                settings.watch_filter,
                tuple(settings.provider_kinds),
                settings.webhook_cluster_failure_policy,
            ),
            context=context,
            listening=self.server.started,
            clock=SystemClock(),
        )
        metrics.watch_certificate(self._keeper.expiry)

    async def run(self) -> None:
        """Serve until cancelled; the webhooks are registered at the API server once they can be called."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run(), name="certificate of the webhooks")
            group.create_task(self._serve(), name="webhook server")

    async def registered(self) -> None:
        """Wait until the API server calls these webhooks and not those of an earlier process, within a timeout."""
        try:
            async with asyncio.timeout(REGISTRATION_TIMEOUT.total_seconds()):
                await self._keeper.registered.wait()
        except TimeoutError:
            log.warning(
                "The webhooks are not registered after %s s; the controllers start without them",
                REGISTRATION_TIMEOUT.seconds,
            )

    async def close(self) -> None:
        """Cancel suggestions and events that are not finished."""
        self._suggester.close()
        await self._validator.close()

    def _count_response(self, kind: str, code: int, seconds: float) -> None:
        """Count a response; every client that reaches the port chooses the kind, so others than ours are one."""
        self._metrics.count_webhook_response(kind if kind in VALIDATED_KINDS else "other", code, seconds)

    async def _serve(self) -> None:
        await self._keeper.served.wait()
        await self.server.run()


def webhook_namespace(settings: OperatorSettings) -> str:
    """Return the namespace of the webhooks' Secret: that of their Service, or the operator's own.

    Write access to that Secret decides which CA the API server trusts, so it is never a namespace of users. A SpecError
    says that the operator's namespace is not known.
    """
    if settings.webhook_service is not None:
        return settings.webhook_service.namespace
    if settings.operator_namespace:
        return settings.operator_namespace
    raise SpecError(
        "NoOperatorNamespace",
        "--webhook-url needs a namespace for the Secret of the webhooks' key, and this is not a pod with a service "
        "account: set --operator-namespace to a namespace where only administrators can write Secrets",
    )


def _ignore(_: ObjectKey) -> None:
    """Do nothing after a fetch: the API server or the user sends the request again."""


def _host(url: str) -> str:
    """Return the address to listen on: only the loopback address if the URL names it, else all addresses."""
    host = urlsplit(url).hostname or ""
    try:
        return host if ip_address(host).is_loopback else ""
    except ValueError:
        return ""
