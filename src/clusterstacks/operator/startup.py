"""Starts the operator, runs it until a signal, and stops it in order."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import uvloop

from clusterstacks.model.errors import ClusterStacksError, DependencyError
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Forbidden
from clusterstacks.net.kube.kubeconfig import named_connection
from clusterstacks.net.pool import Pool
from clusterstacks.operator.app import Operator
from clusterstacks.operator.go_operator import own_pod, webhook_service, writable_directory
from clusterstacks.operator.observation import leave_message
from clusterstacks.operator.rbac import TAKE_OVER_RIGHTS, RightScope
from clusterstacks.operator.settings import CACHE_DIR, OperatorSettings, parse_settings
from clusterstacks.plan.clusters.hold_annotation import drop_holds, held_clusters
from clusterstacks.runtime.leader_election import LeaseLostError
from clusterstacks.runtime.log_format import configure_logging
from clusterstacks.runtime.process import ServiceEndedError, run_until_signal
from clusterstacks.runtime.tracing import configure_tracing

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.objects import ObjectKey
    from clusterstacks.operator.observation import Observation

log = logging.getLogger(__name__)


def run() -> None:
    """Run the operator; exits with 0 after a signal, with 1 after an error, with --once as ``observation`` says."""
    settings = parse_settings(sys.argv[1:], os.environ, program=sys.argv[0])
    configure_logging(settings.log_level.upper(), form=settings.log_format)
    stop_tracing = configure_tracing(os.environ, version("cluster-stacks"))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            code = runner.run(_release_upgrades(settings) if settings.release_upgrades else _serve(settings))
    except ServiceEndedError as error:
        if isinstance(error.__cause__, LeaseLostError):
            log.error("%s", error.__cause__)  # noqa: TRY400 - the message is enough, a trace would hide it
        else:
            log.exception("A part of the operator ended")
        sys.exit(1)
    except ClusterStacksError as error:
        log.error("%s", error)  # noqa: TRY400 - the message is enough, a trace would hide it
        sys.exit(1)
    else:
        sys.exit(code)
    finally:
        stop_tracing()


async def _serve(settings: OperatorSettings) -> int:
    """Serve until a signal, or with --once until everything was observed; return the exit code."""
    settings = await _complete_settings(settings)
    operator = Operator(settings, os.environ)
    log.info(
        "cluster-stack-operator %s starts on API server %s, with releases from %s",
        version("cluster-stacks"),
        operator.management,
        operator.source,
    )
    for notice in settings.notices:
        log.warning(notice)
    try:
        if settings.once and operator.observation is not None:
            return await _observe_once(operator, operator.observation)
        await run_until_signal(operator.services())
    finally:
        await operator.close()
    return 0


async def _observe_once(operator: Operator, observation: Observation) -> int:
    serving = asyncio.create_task(run_until_signal(operator.services()))
    observing = asyncio.create_task(observation.completed())
    await asyncio.wait({serving, observing}, return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        observing.cancel()
        serving.result()
        raise DependencyError("NotObserved", "the observation was stopped before it was complete")
    serving.cancel()
    await asyncio.wait({serving})
    leave_message(observing.result().message)
    return observing.result().exit_code


async def _release_upgrades(settings: OperatorSettings) -> int:
    """Let Cluster API upgrade the Clusters that an operator, which is deleted, held."""
    async with _management(settings) as client:
        held = await held_clusters(client, settings.namespace, settings.watch_filter)
        await drop_holds(client, held, log.info)
    return 0


@asynccontextmanager
async def _management(settings: OperatorSettings) -> AsyncIterator[Client]:
    """Connect to the management cluster, for work without informers."""
    connection, _ = named_connection(os.environ, settings.kubeconfig)
    async with Pool() as pool:
        client = Client(connection, pool)
        try:
            yield client
        finally:
            await client.close()


async def _complete_settings(settings: OperatorSettings) -> OperatorSettings:
    """Complete the settings that no flag gives, from the machine and an installation of the Go operator."""
    if settings.cache_dir == CACHE_DIR:
        settings = replace(settings, cache_dir=writable_directory(CACHE_DIR))
        if settings.cache_dir != CACHE_DIR:
            log.warning("%s is not writable, so releases are cached in %s", CACHE_DIR, settings.cache_dir)
    named = settings.webhook_service is not None or settings.webhook_url
    if settings.as_manager and settings.webhook_port and settings.operator_namespace and not named:
        service = await _webhook_service(settings)
        settings = replace(settings, webhook_service=service)
    return settings


async def _webhook_service(settings: OperatorSettings) -> ObjectKey | None:
    namespace, pod = settings.operator_namespace, own_pod(os.environ)
    try:
        async with _management(settings) as client:
            service = await webhook_service(client, namespace, pod, settings.webhook_port)
    except Forbidden:
        rules = " and ".join(json.dumps(right.rule()) for right in TAKE_OVER_RIGHTS if right.scope is RightScope.OWN)
        log.warning(
            "The Service of the webhooks cannot be found, because rights are missing: add the rules %s to a Role in "
            "namespace %s, or set --webhook-service",
            rules,
            namespace,
        )
        return None
    if service is None:
        log.warning(
            "No Service in namespace %s forwards port 443 to port %s of pod %s: set --webhook-service",
            namespace,
            settings.webhook_port,
            pod,
        )
    return service
