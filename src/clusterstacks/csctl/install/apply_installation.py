"""Delivers the objects of an installation, and waits until the operator runs."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.install.cluster_facts import MANAGER
from clusterstacks.csctl.install.installations import INSTALLATION_LABEL, operator_of
from clusterstacks.csctl.install.installed_objects import labelled_objects, webhook_configurations
from clusterstacks.csctl.install.operator_chart import CRD, NAME
from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.delivery_plan import RecordedObject
from clusterstacks.deliver.apply.health_rules import health_of
from clusterstacks.deliver.apply.object_applier import ObjectStep
from clusterstacks.deliver.apply.policy import holds_data
from clusterstacks.deliver.apply.prune_plan import PruneOutcome
from clusterstacks.deliver.apply.record_store import INSTALLATION_RECORD, RecordStore
from clusterstacks.deliver.apply.results import Deadlines
from clusterstacks.deliver.apply.targets import resolve
from clusterstacks.deliver.apply.waiting import CRDS, await_established
from clusterstacks.deliver.apply.wave_applier import WaveApplier
from clusterstacks.model.documents import listed, mapping, mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import object_id, split_api_version
from clusterstacks.net.kube.errors import Forbidden, KindNotServed, NotFound
from clusterstacks.operator.go_operator import WEBHOOKS
from clusterstacks.operator.webhooks.configuration import WebhookScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from clusterstacks.deliver.apply.results import ObjectResult, PruneReport
    from clusterstacks.model.objects import Manifest, ObjectId
    from clusterstacks.net.kube.client import Client

POLL_SECONDS: Final = 0.25
"""Interval between two looks at an object that is awaited (arbitrary)."""
EARLIER_CSCTL: Final = (MANAGER, "Apply")
INSTALLERS: Final = frozenset(
    {
        EARLIER_CSCTL,
        ("kubectl", "Apply"),
        ("kubectl-client-side-apply", "Update"),
        ("helm", "Apply"),
        ("helm", "Update"),
    }
)
"""Writers that install the operator: what they applied and the chart does not render any more is removed."""


async def apply_installation(client: Client, objects: Sequence[Manifest], namespace: str) -> list[str]:
    """Create the namespace if it does not exist, apply all objects, and delete those no longer rendered.

    Returns a line for each object that was deleted, or is kept although it is no longer rendered.
    """
    await _apply_shared(client, objects, namespace)
    delivery = await installation(client, namespace, await labelled_objects(client, namespace))
    rendered = [one for one in objects if not holds_data(one)]
    report = await delivery.install(NAME, Revision.of(rendered, ""), default_namespace=namespace)
    _raise_refused(report.objects)
    # Replicas of the earlier version cannot register the webhooks again: they have lost the right.
    wanted = webhook_configuration(objects)
    stale = [one for one in await webhook_configurations(client, namespace) if one.name != wanted]
    for one in stale:
        await delete_object(client, one)
    return [*(f"deleted {one}" for one in stale), *removals(await delivery.prune_addon(NAME))]


async def _apply_shared(client: Client, objects: Sequence[Manifest], namespace: str) -> None:
    """Apply the Namespace and the CustomResourceDefinitions.

    They are not recorded: other installations use the definitions, users put objects in the namespace, and an
    installation never deletes them.
    """
    exists = await client.find(await client.resource("", "Namespace"), namespace) is not None
    shared = [one for one in objects if holds_data(one) and not (exists and one["kind"] == "Namespace")]
    steps = [ObjectStep(one) for one in await resolve(client, shared, default_namespace=namespace)]
    _raise_refused(await WaveApplier(client, inherits={EARLIER_CSCTL}).apply_objects(steps))
    definitions = {one["metadata"]["name"]: one for one in shared if one["kind"] == CRD}
    live = {name: await client.get(CRDS, name) for name in definitions}
    if late := await await_established(client, live, Deadlines().established):
        reasons = [f"{CRD} {name}: {reason}" for name, reason in late.items()]
        raise DependencyError("NotEstablished", "; ".join((*reasons, "run the command again when it is")))


async def installation(client: Client, namespace: str, labelled: Iterable[Manifest]) -> Delivery:
    """Return the delivery of the installation in a namespace, which consists of the labelled objects.

    Its record is in the same namespace. So an installation without a record, by kubectl or an earlier version of csctl,
    does not differ from another one.
    """
    store = RecordStore(client, namespace, kind=INSTALLATION_RECORD, selector=f"{INSTALLATION_LABEL}={namespace}")
    delivery = Delivery(client, store=store, inherits=INSTALLERS)
    await delivery.adopt(
        NAME,
        [
            RecordedObject(object_id(one), split_api_version(one["apiVersion"])[1], one["metadata"]["uid"])
            for one in labelled
        ],
    )
    return delivery


def _raise_refused(results: Iterable[ObjectResult]) -> None:
    if refused := [one.described_error for one in results if not one.synced]:
        raise DependencyError("NotInstalled", listed("the installation is not complete:", refused))


def removals(report: PruneReport) -> list[str]:
    """Return a line for each object that was deleted, or is kept; raise DependencyError if some are not deleted."""
    results = [(one.id, one.result.outcome, one.result.reason) for one in report.removals]
    if left := [f"{identity}: {reason}" for identity, outcome, reason in results if outcome is PruneOutcome.PENDING]:
        raise DependencyError("ObjectsRemain", listed("objects are not deleted:", left))
    kept = [f"kept {identity}: {reason}" for identity, outcome, reason in results if outcome is PruneOutcome.KEPT]
    gone = [one for one, outcome, reason in results if outcome is PruneOutcome.GONE and not reason]
    return [*(f"deleted {one}" for one in gone), *kept]


def webhook_configuration(objects: Iterable[Manifest]) -> str:
    """Return the name of the configuration that the rendered operator registers; empty if the webhooks are disabled."""
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    return WebhookScope(operator_of(deployment).watched).name if webhook_service(deployment) else ""


async def delete_object(client: Client, found: ObjectId) -> None:
    """Delete an object; one that is already gone is fine."""
    try:
        await client.delete(await client.resource(found.group, found.kind), found.name, found.namespace)
    except (NotFound, KindNotServed):
        return


async def until_ready(
    client: Client, objects: Sequence[Manifest], within: timedelta, report: Callable[[str], None]
) -> None:
    """Wait until all replicas of the new version are available and the webhooks are registered.

    Raises DependencyError if they are not in time; the message says why the pods do not start.
    """
    (wanted,) = (one for one in objects if one["kind"] == "Deployment")
    key = object_id(wanted)
    deployments = await client.resource("apps", "Deployment")
    until = time.monotonic() + within.total_seconds()
    last = ""
    while True:
        found = await client.get(deployments, key.name, key.namespace)
        health = health_of(found, datetime.now(UTC))
        state = health.message or health.reason or await _missing_webhooks(client, wanted)
        if not state:
            return
        if state != last:
            report(last := state)
        if time.monotonic() > until:
            problem = (
                f"the operator is not ready after {within.total_seconds():.0f} s: {state}; look at it with 'kubectl "
                f"--namespace {key.namespace} describe deployment,pods', or wait longer with --timeout"
            )
            raise DependencyError("NotReady", listed(problem, await _pod_problems(client, found)))
        await asyncio.sleep(POLL_SECONDS)


async def _missing_webhooks(client: Client, deployment: Manifest) -> str:
    service = webhook_service(deployment)
    if not service:
        return ""
    try:
        listing = await client.list_readable(await client.resource(*WEBHOOKS))
    except Forbidden:
        return ""
    registered = any(
        (text(one, "clientConfig", "service", "namespace"), text(one, "clientConfig", "service", "name")) == service
        for configuration in listing.items
        for one in mappings(configuration, "webhooks")
    )
    return "" if registered else "the webhooks are not registered yet"


def webhook_service(deployment: Manifest) -> tuple[str, str] | None:
    """Return namespace and name of the Service of the webhooks; None if they are disabled."""
    for container in mappings(deployment, "spec", "template", "spec", "containers"):
        for argument in container.get("args", ()):
            if argument.startswith("--webhook-service="):
                namespace, _, name = argument.partition("=")[2].partition("/")
                return namespace, name
    return None


async def _pod_problems(client: Client, deployment: Manifest) -> list[str]:
    """Return the reasons of the kubelet and the scheduler for pods that are not ready."""
    selector = ",".join(f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items())
    try:
        pods = await client.list(await client.resource("", "Pod"), deployment["metadata"]["namespace"], labels=selector)
    except Forbidden:
        return []
    return [problem for pod in pods.items if (problem := pod_problem(pod))]


def pod_problem(pod: Manifest) -> str:
    """Return why a pod is not ready, as far as its status says it; empty if it does not."""
    name = text(pod, "metadata", "name")
    for status in mappings(pod, "status", "containerStatuses"):
        for state in ("waiting", "terminated"):
            if found := mapping(status, "state", state):
                return f"pod {name}: {text(found, 'reason')}: {text(found, 'message')}".rstrip(": ")
    for condition in mappings(pod, "status", "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return f"pod {name}: {text(condition, 'reason')}: {text(condition, 'message')}".rstrip(": ")
    ready = any(
        (one.get("type"), one.get("status")) == ("Ready", "True") for one in mappings(pod, "status", "conditions")
    )
    return "" if ready else f"pod {name} is not ready: see its log"
