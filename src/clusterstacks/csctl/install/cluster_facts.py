"""Reads the facts about a management cluster that decide whether the operator can be installed there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.install.installations import install_conflicts, operator_of
from clusterstacks.csctl.install.installed_objects import CHART_KINDS, deployments, read_installed, readable
from clusterstacks.csctl.install.operator_chart import CRD, NAME
from clusterstacks.csctl.install.preflight import CONTRACT, RUNTIME, TOPOLOGY, ClusterFacts
from clusterstacks.deliver.apply.waiting import CRDS
from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import (
    API_VERSION,
    CLUSTER_API_GROUP,
    CLUSTER_CLASS_KIND,
    CLUSTER_KIND,
    GROUP,
    Kind,
)
from clusterstacks.model.objects import split_api_version
from clusterstacks.net.kube.errors import ApiError, KindNotServed, WebhookFailed
from clusterstacks.operator.go_operator import EXTENSIONS, WEBHOOKS, leftover

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.resources import Resource
    from clusterstacks.operator.go_operator import Leftover

MANAGER: Final = "csctl"
"""Field manager of csctl."""
_CORE_LABEL: Final = "cluster.x-k8s.io/provider=cluster-api"
_PROBE: Final = "csctl-install-check"
"""Name of the objects that the probes would create; all of them are dry runs."""


async def read_facts(client: Client, objects: Sequence[Manifest], namespace: str) -> ClusterFacts:
    """Read everything that the user may read about the cluster and the objects of an installation; write nothing."""
    version = await client.version()
    served = await _served_versions(client)
    topology, runtime = await asyncio.gather(_gate(client, TOPOLOGY, _CLASS), _gate(client, RUNTIME, _EXTENSION))
    (wanted,) = (operator_of(one) for one in objects if one["kind"] == "Deployment")
    installed = await read_installed(client, namespace, objects)
    here = installed.here
    return ClusterFacts(
        kubernetes=version.minor,
        git_version=version.git_version,
        cluster_api=await cluster_api_version(client) if served else "",
        served=served,
        gates={TOPOLOGY: topology, RUNTIME: runtime},
        refusals=await _refusals(client, objects, namespace),
        conflicts=tuple(install_conflicts(installed, wanted)),
        unserved=await _unserved_kinds(client) if here or not _has_definitions(objects) else (),
        go_operators=tuple(one.key for one in installed.operators if one.is_go and one.desired),
        leftovers=await _leftovers(client),
        here=here,
        webhooks=await _webhooks(client, namespace) if here else None,
        unrestricted_from=await _api_servers(client, namespace) if here else (),
    )


async def _api_servers(client: Client, namespace: str) -> tuple[str, ...]:
    """Return the addresses of the API servers; none if the namespace has a NetworkPolicy, or they cannot be read."""

    async def read() -> tuple[str, ...]:
        policies = await client.resource("networking.k8s.io", "NetworkPolicy")
        if (await client.list_readable(policies, namespace)).items:
            return ()
        slices = await client.resource("discovery.k8s.io", "EndpointSlice")
        found = (await client.list_readable(slices, "default", labels="kubernetes.io/service-name=kubernetes")).items
        endpoints = [endpoint for one in found for endpoint in mappings(one, "endpoints")]
        return tuple(sorted({str(address) for endpoint in endpoints for address in endpoint.get("addresses") or ()}))

    found: tuple[str, ...] = await readable(read(), ())
    return found


def _has_definitions(objects: Sequence[Manifest]) -> bool:
    return any(one["kind"] == CRD for one in objects)


async def _unserved_kinds(client: Client) -> tuple[str, ...]:
    async def read(kind: Kind) -> bool:
        return bool(await client.resource(kind.group, kind))

    return tuple([kind for kind in Kind if not await readable(read(kind), otherwise=False)])


async def _served_versions(client: Client) -> tuple[str, ...]:
    async def read() -> tuple[str, ...]:
        versions = [CONTRACT, "v1beta1"]
        found = [(await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND, one)).version for one in versions]
        return tuple(dict.fromkeys(found))

    found: tuple[str, ...] = await readable(read(), ())
    return found


async def cluster_api_version(client: Client) -> str:
    """Read the version from the inventory of clusterctl, or from the image of the core manager."""

    async def inventory() -> list[Manifest]:
        providers = await client.resource("clusterctl.cluster.x-k8s.io", "Provider")
        return (await client.list_readable(providers)).items

    for provider in await readable(inventory(), []):
        if text(provider, "providerName") == "cluster-api":
            return text(provider, "version")
    for deployment in await deployments(client, _CORE_LABEL):
        for container in mappings(deployment, "spec", "template", "spec", "containers"):
            tag = text(container, "image").partition("@")[0].rpartition(":")[2]
            if tag[:1] == "v" and tag[1:2].isdigit():
                return tag
    return ""


async def _leftovers(client: Client) -> tuple[str, ...]:
    async def read(group: str, kind: str) -> list[Leftover | None]:
        resource = await client.resource(group, kind)
        items = (await client.list_readable(resource)).items
        return [leftover({"apiVersion": resource.api_version, "kind": kind, **one}) for one in items]

    found = [one for kind in (WEBHOOKS, EXTENSIONS) for one in await readable(read(*kind), [])]
    return tuple(f"{one.describe()}. Remove it with '{one.command()}'" for one in found if one is not None)


# Feature gates: the webhooks of Cluster API refuse objects of disabled features, also in a dry run.

_REFERENCE = {"kind": "CsctlInstallCheckTemplate", "name": _PROBE}
_CLASS: Manifest = {
    "apiVersion": f"{CLUSTER_API_GROUP}/v1beta2",
    "kind": CLUSTER_CLASS_KIND,
    "metadata": {"name": _PROBE, "namespace": "default"},
    "spec": {
        "infrastructure": {"templateRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", **_REFERENCE}},
        "controlPlane": {"templateRef": {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", **_REFERENCE}},
    },
}
_EXTENSION: Manifest = {
    "apiVersion": f"{EXTENSIONS[0]}/v1beta2",
    "kind": EXTENSIONS[1],
    "metadata": {"name": _PROBE},
    "spec": {"clientConfig": {"url": "https://192.0.2.1"}},
}


async def _gate(client: Client, gate: str, probe: Manifest) -> bool | None:
    group, version = split_api_version(probe["apiVersion"])
    try:
        resource = await client.resource(group, probe["kind"], version)
        if resource.version != version:
            return None
        await client.apply(resource, probe, manager=MANAGER, dry_run=True)
    except DependencyError as error:
        if f"{gate} feature flag is enabled" in error.message:
            return False
        return True if "admission webhook" in error.message and not isinstance(error, WebhookFailed) else None
    return True


async def _webhooks(client: Client, namespace: str) -> str | None:
    """Have the API server call the webhooks: an answer is fine, also a refusal."""
    stack: Manifest = {
        "apiVersion": API_VERSION,
        "kind": Kind.CLUSTER_STACK,
        "metadata": {"name": _PROBE, "namespace": namespace},
        "spec": {"provider": "csctl", "name": "check", "kubernetesVersion": "1.30", "noProvider": True},
    }
    try:
        configurations = await client.resource(*WEBHOOKS)
        if not [one for one in (await client.list_metadata(configurations)).items if _is_ours(one)]:
            return None
        await client.apply(await client.resource(GROUP, stack["kind"]), stack, manager=MANAGER, dry_run=True)
    except WebhookFailed as error:
        return error.message
    except (ApiError, KindNotServed) as error:
        return "" if "admission webhook" in error.message else None
    return ""


def _is_ours(configuration: Manifest) -> bool:
    return text(configuration, "metadata", "name").startswith(NAME)


async def _refusals(client: Client, objects: Sequence[Manifest], namespace: str) -> tuple[str, ...]:
    """Apply all objects as a dry run; where their namespace does not exist yet, ask for the rights only.

    csctl also lists and deletes objects of an earlier version of the chart, records the installation in a Secret, and
    watches its CustomResourceDefinitions.
    """
    namespaces = await client.resource("", "Namespace")
    exists = await readable(client.find(namespaces, namespace), None) is not None
    found = await asyncio.gather(
        *(_refusal(client, one, "" if exists else namespace) for one in objects),
        *(_lacking(client, kind, ("list", "delete")) for kind in (*CHART_KINDS, WEBHOOKS)),
        _lacking(client, ("", "Secret"), ("list", "create", "patch", "delete"), namespace),
        _lacking(client, (CRDS.group, CRD), ("get", "watch")),
    )
    return tuple(dict.fromkeys(one for one in found if one))


async def _refusal(client: Client, manifest: Manifest, missing: str) -> str:
    group, version = split_api_version(manifest["apiVersion"])
    namespace = text(manifest, "metadata", "namespace")
    verbs = ("create", "patch")
    try:
        resource = await client.resource(group, manifest["kind"], version)
        if not missing or namespace != missing:
            await client.apply(resource, manifest, manager=MANAGER, force=True, dry_run=True)
        elif not await _may(client, resource, verbs, namespace):
            return _no_right(resource, verbs, namespace)
    except (ApiError, KindNotServed) as error:
        return _no_right(resource, verbs, namespace) if any(one in error.message for one in _RBAC) else error.message
    return ""


async def _lacking(client: Client, kind: tuple[str, str], verbs: Sequence[str], namespace: str = "") -> str:
    try:
        resource = await client.resource(*kind)
    except KindNotServed:
        return ""
    return "" if await _may(client, resource, verbs, namespace) else _no_right(resource, verbs, namespace)


_RBAC: Final = ("cannot create resource", "cannot patch resource")
"""In the messages of the authorizer; an admission plugin that refuses an object has other ones."""


def _no_right(resource: Resource, verbs: Sequence[str], namespace: str = "") -> str:
    scope = f" in namespace {namespace}" if namespace else ""
    return f"you lack the right to {', '.join(verbs[:-1])} and {verbs[-1]} {resource.plural}{scope}"


async def _may(client: Client, resource: Resource, verbs: Sequence[str], namespace: str = "") -> bool:
    reviews = await client.resource("authorization.k8s.io", "SelfSubjectAccessReview")
    for verb in verbs:
        attributes = {"group": resource.group, "resource": resource.plural, "verb": verb, "namespace": namespace}
        review = {"apiVersion": reviews.api_version, "kind": reviews.kind, "spec": {"resourceAttributes": attributes}}
        if not mapping(await client.create(reviews, review), "status").get("allowed"):
            return False
    return True
