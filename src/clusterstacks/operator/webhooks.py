"""Builds the validating webhooks and runs them: certificate, server, and what they decide by."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from clusterstacks.admission.advice import Adviser
from clusterstacks.admission.clusters import ClusterJudge
from clusterstacks.admission.configuration import Endpoint, Scope
from clusterstacks.admission.judging import Judge
from clusterstacks.admission.keeping import SECRET_NAME, CertificateKeeper
from clusterstacks.admission.ours import OwnKinds
from clusterstacks.admission.server import WebhookServer
from clusterstacks.api.compatibility.library import facts
from clusterstacks.domain.objects import ObjectKey
from clusterstacks.kube.tls import server_context
from clusterstacks.operator.offering import ReleaseOffers
from clusterstacks.runtime.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.admission.rules import ProviderRules
    from clusterstacks.kube.client import Client
    from clusterstacks.operator.settings import Settings
    from clusterstacks.operator.supplying import Supplies
    from clusterstacks.runtime.events import EventRecorder
    from clusterstacks.runtime.informer import Informer

HOME = "default"
"""Namespace of the Secret where the webhooks are no Service and the operator is not told of one namespace only."""


class Webhooks:
    """The webhooks of one process.

    Args:
        settings: The command line, which says where the API server finds them.
        client: The management cluster.
        informers: Of ClusterStackReleases, ClusterAddons and Clusters, by the lower-case kind.
        supplies: Where releases come from.
        events: Where it is told that an annotation let something through.
        rules: The provider's.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        client: Client,
        informers: Mapping[str, Informer],
        supplies: Supplies,
        events: EventRecorder,
        rules: ProviderRules,
    ) -> None:
        endpoint = Endpoint(settings.webhook_service, settings.webhook_url)
        upstream, releases = facts(), informers["clusterstackrelease"].store
        self._adviser = Adviser()
        clusters = ClusterJudge(
            offers=ReleaseOffers(
                client=client,
                releases=releases,
                addons=informers["clusteraddon"].store,
                supply=supplies.supply(_wake_nobody),
                listings=supplies.listings,
                statements=supplies.statements,
            ),
            rules=rules,
            upstream=upstream,
            adviser=self._adviser,
        )
        self._judge = Judge(
            OwnKinds(client, informers["cluster"].store, releases, settings.provider_kinds), clusters, events
        )
        context = server_context()
        self.server = WebhookServer(_host(settings.webhook_url), settings.webhook_port, context, self._judge)
        home = settings.webhook_service.namespace if settings.webhook_service else settings.namespace or HOME
        self._keeper = CertificateKeeper(
            client=client,
            secret=ObjectKey(home, SECRET_NAME),
            endpoint=endpoint,
            scope=Scope(settings.namespace, settings.watch_filter),
            context=context,
            listening=self.server.started,
            clock=SystemClock(),
        )

    async def run(self) -> None:
        """Serve until cancelled; the API server is told of the webhooks once they can be called."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keeper.run(), name="certificate of the webhooks")
            group.create_task(self._serve(), name="webhook server")

    async def close(self) -> None:
        """Give up what is being computed, and end what is being told."""
        self._adviser.close()
        await self._judge.close()

    async def _serve(self) -> None:
        await self._keeper.served.wait()
        await self.server.run()


def _wake_nobody(_: ObjectKey) -> None:
    """Whoever is told to try again does so by himself."""


def _host(url: str) -> str:
    """Return where to listen: at the loopback address alone where the API server calls that one, else everywhere."""
    host = urlsplit(url).hostname or ""
    try:
        return host if ip_address(host).is_loopback else ""
    except ValueError:
        return ""
