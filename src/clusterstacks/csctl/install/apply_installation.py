"""Applies the objects of an installation, deletes those that it no longer has, and waits until the operator runs."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.install.cluster_facts import MANAGER
from clusterstacks.csctl.install.installations import INSTALLATION_LABEL, operator_of
from clusterstacks.csctl.install.installed_objects import labelled_objects, webhook_configurations
from clusterstacks.csctl.install.operator_chart import CRD
from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectId, object_id, split_api_version
from clusterstacks.net.kube.errors import Forbidden, KindNotServed, NotFound
from clusterstacks.operator.go_operator import WEBHOOKS
from clusterstacks.operator.webhooks.configuration import WebhookScope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource

ESTABLISHED_WITHIN: Final = timedelta(seconds=60)
"""Timeout for the API server to serve the CustomResourceDefinitions, which takes less than a second (arbitrary)."""
POLL_SECONDS: Final = 0.25
"""Interval between two looks at an object that is awaited (arbitrary)."""


async def apply_installation(client: Client, objects: Sequence[Manifest], namespace: str) -> list[ObjectId]:
    """Create the namespace if it does not exist, apply all objects in order, and delete those no longer rendered.

    Returns:
        The deleted objects.

    Raises:
        DependencyError: The API server refuses an object, or does not answer.
    """
    for one in objects:
        group, version = split_api_version(one["apiVersion"])
        resource = await client.resource(group, one["kind"], version)
        if one["kind"] == "Namespace" and await client.find(resource, one["metadata"]["name"]) is not None:
            continue
        if INSTALLATION_LABEL in mapping(one, "metadata", "labels"):
            await _take_over_fields(client, resource, one)
        await client.apply(resource, one, manager=MANAGER, force=True)
    await _until_established(client, [one["metadata"]["name"] for one in objects if one["kind"] == CRD])
    # Replicas of the earlier version cannot register the webhooks again: they have lost the right.
    wanted = webhook_configuration(objects)
    registered = [one for one in await webhook_configurations(client, namespace) if one.name != wanted]
    stale = [*registered, *no_longer_rendered(await labelled_objects(client, namespace), objects)]
    for found in stale:
        await delete_object(client, found)
    return stale


def webhook_configuration(objects: Iterable[Manifest]) -> str:
    """Return the name of the configuration that the rendered operator registers; empty if the webhooks are disabled."""
    (deployment,) = (one for one in objects if one["kind"] == "Deployment")
    return WebhookScope(operator_of(deployment).watched).name if webhook_service(deployment) else ""


async def _take_over_fields(client: Client, resource: Resource, manifest: Manifest) -> None:
    """Make the fields that kubectl applied those of csctl, which removes the ones that it does not render."""
    name, namespace = manifest["metadata"]["name"], text(manifest, "metadata", "namespace")
    live = await client.find(resource, name, namespace)
    if live is None or (fields := taken_over(mappings(live, "metadata", "managedFields"))) is None:
        return
    version = {"path": "/metadata/resourceVersion", "value": live["metadata"]["resourceVersion"]}
    replaced = {"op": "replace", "path": "/metadata/managedFields", "value": fields}
    await client.json_patch(resource, name, [replaced, {"op": "replace", **version}], namespace)


def taken_over(managed: Sequence[Manifest]) -> list[Manifest] | None:
    """Return managed fields in which csctl owns what kubectl applied; None if kubectl applied nothing."""
    own = {"manager": MANAGER, "operation": "Apply"}
    applied = [one for one in managed if (one.get("manager"), one.get("operation")) in _KUBECTL]
    if not applied:
        return None
    joined = [one for one in managed if one in applied or own.items() <= one.items()]
    fields: Manifest = {}
    for one in joined:
        fields = _union(fields, mapping(one, "fieldsV1"))
    return [*(one for one in managed if one not in joined), {**joined[-1], **own, "fieldsV1": fields}]


_KUBECTL: Final = {("kubectl", "Apply"), ("kubectl-client-side-apply", "Update")}
"""Field managers and operations of 'kubectl apply', on the server and in kubectl."""


def _union(one: Manifest, other: Manifest) -> Manifest:
    return {key: _union(one.get(key, {}), other.get(key, {})) for key in {**one, **other}}


def no_longer_rendered(live: Iterable[ObjectId], objects: Iterable[Manifest]) -> list[ObjectId]:
    """Return the objects of the installation that the chart does not contain any more."""
    rendered = {object_id(one) for one in objects}
    return [one for one in live if one not in rendered]


async def delete_object(client: Client, found: ObjectId) -> None:
    """Delete an object; one that is already gone is fine."""
    try:
        await client.delete(await client.resource(found.group, found.kind), found.name, found.namespace)
    except (NotFound, KindNotServed):
        return


async def _until_established(client: Client, names: Iterable[str]) -> None:
    resource = await client.resource("apiextensions.k8s.io", CRD)
    until = time.monotonic() + ESTABLISHED_WITHIN.total_seconds()
    for name in names:
        while not _has_condition(found := await client.get(resource, name), "Established"):
            if time.monotonic() > until:
                lacking = [one for one in mappings(found, "status", "conditions") if one.get("status") == "False"]
                why = "; ".join(f"{text(one, 'type')} is False: {text(one, 'message')}" for one in lacking)
                message = (
                    f"{CRD} {name} is not established after {ESTABLISHED_WITHIN.total_seconds():.0f} s: "
                    f"{why or 'it has no condition Established'}; run the command again when it is"
                )
                raise DependencyError("NotEstablished", message)
            await asyncio.sleep(POLL_SECONDS)


def _has_condition(manifest: Manifest, kind: str) -> bool:
    conditions = mappings(manifest, "status", "conditions")
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


async def until_ready(
    client: Client, objects: Sequence[Manifest], within: timedelta, report: Callable[[str], None]
) -> None:
    """Wait until all replicas of the new version are available and the webhooks are registered.

    Raises:
        DependencyError: They are not in time; the message says why the pods do not start.
    """
    (wanted,) = (one for one in objects if one["kind"] == "Deployment")
    key = object_id(wanted)
    deployments = await client.resource("apps", "Deployment")
    until = time.monotonic() + within.total_seconds()
    last = ""
    while True:
        found = await client.get(deployments, key.name, key.namespace)
        state = unfinished(found) or await _missing_webhooks(client, wanted)
        if not state:
            return
        if state != last:
            report(last := state)
        if time.monotonic() > until:
            problem = (
                f"the operator is not ready after {within.total_seconds():.0f} s: {state}; look at it with 'kubectl "
                f"--namespace {key.namespace} describe deployment,pods', or wait longer with --timeout"
            )
            raise DependencyError("NotReady", "\n".join((problem, *await _pod_problems(client, found))))
        await asyncio.sleep(POLL_SECONDS)


def unfinished(deployment: Manifest) -> str:
    """Return what a rolling update waits for, as 'kubectl rollout status' decides it; empty when it is finished."""
    status, desired = mapping(deployment, "status"), deployment["spec"].get("replicas", 1)
    if status.get("observedGeneration", 0) < deployment["metadata"].get("generation", 0):
        return "the Deployment is not processed yet"
    updated, available = status.get("updatedReplicas", 0), status.get("availableReplicas", 0)
    if updated < desired:
        return f"{updated} of {desired} replicas have the new version"
    if status.get("replicas", 0) > updated:
        return "replicas of the old version are stopping"
    return "" if available >= desired else f"{available} of {desired} replicas are available"


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
    return "" if _has_condition(pod, "Ready") else f"pod {name} is not ready: see its log"
