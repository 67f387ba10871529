"""Finds the objects of installations on a management cluster, and what people and the operator created there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.csctl.install.installations import (
    GO_OPERATOR_LABEL,
    INSTALLATION_LABEL,
    OPERATOR_LABEL,
    Installation,
    Installed,
    Program,
    UserObjects,
    helm_release,
    operator_of,
    owner_of,
)
from clusterstacks.csctl.install.operator_chart import NAME
from clusterstacks.model.documents import mapping, mappings, text
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, Kind
from clusterstacks.model.objects import ObjectId, object_id
from clusterstacks.net.kube.errors import Forbidden, KindNotServed, NotFound
from clusterstacks.operator.go_operator import WEBHOOKS
from clusterstacks.operator.webhooks.configuration import LABELS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

_CLUSTER_WIDE: Final = ("ClusterRoleBinding", "ClusterRole")
CHART_KINDS: Final = (
    ("apps", "Deployment"),
    ("policy", "PodDisruptionBudget"),
    ("networking.k8s.io", "NetworkPolicy"),
    ("monitoring.coreos.com", "ServiceMonitor"),
    ("monitoring.coreos.com", "PrometheusRule"),
    ("", "Service"),
    ("", "ConfigMap"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "Role"),
    *(("rbac.authorization.k8s.io", kind) for kind in _CLUSTER_WIDE),
    ("", "ServiceAccount"),
)
"""Kinds of the chart that carry the label of the installation, in the order in which they are deleted."""
_OUTSIDE: Final = {"Role", "RoleBinding"}
"""Those with objects in other namespaces than that of the installation."""


async def read_installed(client: Client, namespace: str, objects: Sequence[Manifest] = ()) -> Installed:
    """Read what is installed, as far as the user may read it.

    ``namespace`` is that of the installation that csctl is asked to change, ``objects`` are those that it would apply.
    """
    labels = (OPERATOR_LABEL, GO_OPERATOR_LABEL)
    found = [one for label in labels for one in await operator_deployments(client, label, namespace)]
    operators = {one.key: one for one in map(operator_of, found)}
    definitions = [one for one in await asyncio.gather(*(_find(client, object_id(crd)) for crd in all_crds())) if one]
    home = await _find(client, ObjectId("", "Namespace", "", namespace))
    rights = await asyncio.gather(*(_find(client, object_id(one)) for one in objects if one["kind"] in _CLUSTER_WIDE))
    releases = {release for one in definitions if (release := helm_release(one)) is not None}
    return Installed(
        namespace=namespace,
        operators=tuple(operators.values()),
        rights=tuple(one for one in rights if one),
        definitions=tuple(object_id(one) for one in definitions),
        deleting=tuple(object_id(one) for one in (home, *definitions) if one and _is_deleted(one)),
        helm_releases=tuple(
            [one for one in sorted(releases) if await _release_exists(client, one.namespace, one.name)]
        ),
    )


async def readable(reading: Awaitable[Any], otherwise: Any) -> Any:  # noqa: ANN401 - any result
    """Read something that the user may not be allowed to read, or that the cluster does not have."""
    try:
        return await reading
    except (Forbidden, KindNotServed, NotFound):
        return otherwise


async def deployments(client: Client, labels: str) -> list[Manifest]:
    """List Deployments of all namespaces; none if the user may not."""

    async def read() -> list[Manifest]:
        resource = await client.resource("apps", "Deployment")
        listing = await client.list(resource, labels=labels)
        return [{"apiVersion": resource.api_version, "kind": resource.kind, **one} for one in listing.items]

    found: list[Manifest] = await readable(read(), [])
    return found


async def operator_deployments(client: Client, labels: str, namespace: str = "") -> list[Manifest]:
    """List the Deployments with the labels of an operator that also have its rights; in ``namespace``, all of them.

    Everybody may label a Deployment in a namespace of his own, but only administrators grant the rights of an operator.
    """
    found = await deployments(client, labels)
    return [
        one
        for one in found
        if one["metadata"]["namespace"] == namespace or await readable(_may_operate(client, one), otherwise=True)
    ]


async def _may_operate(client: Client, deployment: Manifest) -> bool:
    """Ask whether the ServiceAccount of a Deployment may write what only operators write, where it says it watches."""
    account = text(deployment, "spec", "template", "spec", "serviceAccountName") or "default"
    attributes = {
        "group": Kind.CLUSTER_ADDON.group,
        "resource": f"{Kind.CLUSTER_ADDON.lower()}s",
        "subresource": "status",
        "verb": "patch",
        "namespace": operator_of(deployment).watched,
    }
    home = deployment["metadata"]["namespace"]
    user = f"system:serviceaccount:{home}:{account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{home}", "system:authenticated"]
    reviews = await client.resource("authorization.k8s.io", "SubjectAccessReview")
    spec = {"user": user, "groups": groups, "resourceAttributes": attributes}
    review = {"apiVersion": reviews.api_version, "kind": reviews.kind, "spec": spec}
    return bool(mapping(await client.create(reviews, review), "status").get("allowed"))


async def _find(client: Client, wanted: ObjectId) -> Manifest | None:
    async def read() -> Manifest | None:
        return await client.find(await client.resource(wanted.group, wanted.kind), wanted.name, wanted.namespace)

    found: Manifest | None = await readable(read(), None)
    return found


def _is_deleted(manifest: Manifest) -> bool:
    return bool(text(manifest, "metadata", "deletionTimestamp"))


async def _release_exists(client: Client, namespace: str, name: str) -> bool:
    """Return whether a Helm release exists; its objects with the policy "keep" keep their annotations after its end."""

    async def read() -> bool:
        secrets = await client.resource("", "Secret")
        return bool((await client.list_metadata(secrets, namespace, labels=f"owner=helm,name={name}")).items)

    exists: bool = await readable(read(), otherwise=True)
    return exists


async def read_contents(client: Client, namespace: str) -> UserObjects:
    """List all objects of our kinds, and the Clusters in a namespace."""
    kinds = [await objects_of(client, kind.group, kind) for kind in Kind]
    clusters = await objects_of(client, CLUSTER_API_GROUP, CLUSTER_KIND, namespace)
    return UserObjects(objects=tuple(one for found in kinds for one in found), clusters=tuple(clusters))


async def objects_of(client: Client, group: str, kind: str, namespace: str = "") -> list[ObjectId]:
    """List the objects of a kind; none if it is not served."""
    try:
        resource = await client.resource(group, kind)
        return [object_id(one) for one in (await client.list_metadata(resource, namespace)).items]
    except (KindNotServed, NotFound):  # a kind that was just deleted is not served, but may still be discovered
        return []


async def labelled_objects(client: Client, namespace: str) -> list[Manifest]:
    """List the metadata of the objects of csctl's installation in a namespace, in the order of their deletion."""
    found: list[Manifest] = []
    for group, kind in CHART_KINDS:
        try:
            resource = await client.resource(group, kind)
            listing = await client.list_metadata(resource, labels=f"{INSTALLATION_LABEL}={namespace}")
        except KindNotServed:
            continue
        found += listing.items
    return installation_objects(found, namespace)


def installation_objects(labelled: Sequence[Manifest], namespace: str) -> list[Manifest]:
    """Return the labelled objects that are part of the installation in a namespace.

    Helm and clusterctl may have got the label with a copy. In other namespaces, where people of these may write the
    label, the installation has only Roles and RoleBindings with the names of its ClusterRoles.
    """
    owner = Installation(Program.CSCTL, namespace)
    ours = [one for one in labelled if owner_of(one) == owner]
    names = {one["metadata"]["name"] for one in ours if one["kind"] == "ClusterRole"}
    return [
        one
        for one in ours
        if text(one, "metadata", "namespace") in {namespace, ""}
        or (one["kind"] in _OUTSIDE and one["metadata"]["name"] in names)
    ]


async def webhook_configurations(client: Client, namespace: str) -> list[ObjectId]:
    """List the ValidatingWebhookConfigurations that an operator in a namespace registered."""
    resource = await client.resource(*WEBHOOKS)
    listing = await client.list_readable(resource)
    return [object_id({"apiVersion": resource.api_version, **one}) for one in listing.items if _calls(one, namespace)]


def _calls(configuration: Manifest, namespace: str) -> bool:
    """Return whether this operator registered a configuration: its webhooks call only this namespace.

    Early versions of the operator gave it no label.
    """
    services = {text(one, "clientConfig", "service", "namespace") for one in mappings(configuration, "webhooks")}
    labels = mapping(configuration, "metadata", "labels")
    is_ours = LABELS.items() <= labels.items() or text(configuration, "metadata", "name").startswith(NAME)
    return is_ours and services == {namespace}
