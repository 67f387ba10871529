"""Removes an installation of the operator, in an order that leaves nothing behind that refuses writes."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

from clusterstacks.csctl.install.apply_installation import POLL_SECONDS, delete_object, installation, removals
from clusterstacks.csctl.install.installations import (
    GO_OPERATOR_LABEL,
    OPERATOR_LABEL,
    definition_conflicts,
    kept_conflicts,
    namespace_conflicts,
    removal_conflicts,
)
from clusterstacks.csctl.install.installed_objects import (
    labelled_objects,
    objects_of,
    read_contents,
    read_installed,
    webhook_configurations,
)
from clusterstacks.csctl.install.operator_chart import CRD, NAME
from clusterstacks.deliver.apply.policy import reason_to_keep
from clusterstacks.deliver.apply.waiting import describe_deletion
from clusterstacks.model.documents import and_more, listed
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.kinds.clusterapi import is_watched
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_CLASS_KIND, Kind
from clusterstacks.model.kinds.shards import MAIN_LEASE
from clusterstacks.model.objects import ObjectId, object_id
from clusterstacks.operator.webhooks.configuration import SECRET_NAME
from clusterstacks.plan.clusters.hold_annotation import drop_holds, held_clusters
from clusterstacks.runtime.cache import key_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence
    from datetime import timedelta

    from clusterstacks.csctl.install.installations import OperatorDeployment
    from clusterstacks.model.objects import Manifest, ObjectKey
    from clusterstacks.net.kube.client import Client

_NAMED: Final = 5
"""Maximum number of objects that a message names (arbitrary)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalPlan:
    """The objects to delete, in groups in the order of their deletion."""

    stacks: tuple[ObjectId, ...] = ()
    """ClusterStacks and their releases: csctl deletes only the ClusterStacks, the operator the releases."""
    operator: tuple[ObjectId, ...] = ()
    """The Deployments, whose pods must be gone before the rest is deleted."""
    created: tuple[ObjectId, ...] = ()
    """The objects that the operator created for itself."""
    rest: tuple[ObjectId, ...] = ()
    """All other objects of the installation."""
    kept: Mapping[ObjectId, str] = field(default_factory=dict)
    """Objects of the installation that are annotated to be kept, with the reasons."""
    awaited: tuple[ObjectId, ...] = ()
    """CustomResourceDefinitions and the Namespace."""
    watched: str = ""
    """The only namespace that the operator watches; empty for all."""
    watch_filter: str = ""
    held: tuple[ObjectKey, ...] = ()
    """The Clusters whose upgrades the operator holds, which are released once its pods are gone."""
    others: tuple[OperatorDeployment, ...] = ()
    """The operators of other installations, whose Clusters stay held."""
    namespace: str = ""

    @property
    def objects(self) -> tuple[ObjectId, ...]:
        """All objects, in the order in which they are deleted."""
        return (*self.stacks, *self.operator, *self.created, *self.rest, *self.awaited)

    @property
    def is_installed(self) -> bool:
        """True if csctl installed something in the namespace."""
        return bool(self.operator or self.rest)


async def plan_removal(client: Client, namespace: str, *, with_definitions: bool, with_namespace: bool) -> RemovalPlan:
    """Find what to delete; nothing is written.

    ``with_definitions`` also deletes the ClusterStacks and the CustomResourceDefinitions. Raises SpecError if another
    program installed the operator, or something is still in use; the message has all reasons.
    """
    labelled = {object_id(one): reason_to_keep(one) for one in await labelled_objects(client, namespace)}
    kept = {one: reason for one, reason in labelled.items() if reason}
    installed, contents = await read_installed(client, namespace), await read_contents(client, namespace)
    home = await _existing(client, ObjectId("", "Namespace", "", namespace)) if with_namespace else {}
    conflicts = [*removal_conflicts(installed)]
    conflicts += kept_conflicts(
        kept | {one: reason for one, reason in home.items() if reason}, namespace, with_namespace=with_namespace
    )
    if with_definitions:
        conflicts += definition_conflicts(installed, contents)
    if home and not set(home) & set(installed.deleting):
        conflicts += namespace_conflicts(
            installed, contents, is_installed=bool(labelled), with_definitions=with_definitions
        )
    if conflicts:
        raise SpecError("CannotUninstall", listed("nothing was deleted:", conflicts))
    deleted = [one for one in labelled if one not in kept]
    operator = tuple(one for one in deleted if one.kind == "Deployment")
    # The webhooks come first: without the operator, the API server refuses writes of our kinds as long as they exist.
    created = [
        *await webhook_configurations(client, namespace),
        *await _existing(client, ObjectId("", "Secret", namespace, SECRET_NAME)),
        *await _existing(client, ObjectId("coordination.k8s.io", "Lease", namespace, MAIN_LEASE)),
    ]
    watched, watch_filter = (installed.here.watched, installed.here.watch_filter) if installed.here else ("", "")
    # Without the Deployment, which an interrupted removal has deleted, the Clusters of this operator are those that no
    # other operator handles.
    held = await _held(client, watched, watch_filter, installed.others) if deleted else []
    return RemovalPlan(
        stacks=tuple(contents.of(Kind.CLUSTER_STACK, Kind.CLUSTER_STACK_RELEASE)) if with_definitions else (),
        operator=operator,
        created=tuple(created) if deleted else (),
        rest=tuple(one for one in deleted if one not in operator),
        kept=kept,
        awaited=(*(installed.definitions if with_definitions else ()), *home),
        watched=watched,
        watch_filter=watch_filter,
        held=tuple(key_of(one) for one in held),
        others=installed.others,
        namespace=namespace,
    )


async def _existing(client: Client, wanted: ObjectId) -> dict[ObjectId, str]:
    """Return the object if it exists, with the reason to keep it."""
    resource = await client.resource(wanted.group, wanted.kind)
    live = await client.find_metadata(resource, wanted.name, wanted.namespace)
    return {wanted: reason_to_keep(live)} if live else {}


async def remove(client: Client, plan: RemovalPlan, within: timedelta, report: Callable[[str], None]) -> None:
    """Delete the objects of a plan; ``report`` is called with a line for each.

    The stacks, the pods of the operator, and the definitions with the namespace must be gone within the time ``within``
    each; otherwise, or if the webhook refuses, DependencyError is raised.
    """
    await _delete_stacks(client, plan.stacks, within, report)
    for one in plan.operator:
        deployment = await client.find(await client.resource(one.group, one.kind), one.name, one.namespace)
        await delete_object(client, one)
        if deployment is not None:
            selector = ",".join(
                f"{key}={value}" for key, value in deployment["spec"]["selector"]["matchLabels"].items()
            )
            await _until_no_pods(client, one.namespace, selector, within)
        report(f"deleted {one}")
    if plan.is_installed:
        if not plan.operator:  # an interrupted removal has deleted it: its pods may still set holds
            for labels in (OPERATOR_LABEL, GO_OPERATOR_LABEL):
                await _until_no_pods(client, plan.namespace, labels, within)
        held = await _held(client, plan.watched, plan.watch_filter, plan.others)
        await drop_holds(client, held, report)
    for one in plan.created:
        await delete_object(client, one)
        report(f"deleted {one}")
    going = [one for one in await labelled_objects(client, plan.namespace) if not reason_to_keep(one)]
    delivery = await installation(client, plan.namespace, going)
    kept = (f"kept {one}: {reason}" for one, reason in plan.kept.items())
    for line in (*removals(await delivery.remove(NAME)), *kept):
        report(line)
    for one in plan.awaited:
        await delete_object(client, one)
    await _until_gone(client, plan.awaited, within, report)


async def _held(
    client: Client, namespace: str, watch_filter: str, others: Sequence[OperatorDeployment]
) -> list[Manifest]:
    """List the held Clusters that no other operator handles."""
    found = await held_clusters(client, namespace, watch_filter)
    return [one for one in found if not any(_handles(operator, one) for operator in others)]


def _handles(operator: OperatorDeployment, cluster: Manifest) -> bool:
    in_namespace = operator.watched in {"", cluster["metadata"]["namespace"]}
    return not operator.is_go and in_namespace and is_watched(cluster, operator.watch_filter)


async def _delete_stacks(
    client: Client, stacks: Sequence[ObjectId], within: timedelta, report: Callable[[str], None]
) -> None:
    """Delete the ClusterStacks and wait until the operator has deleted their releases and classes."""
    for one in stacks:
        if one.kind == Kind.CLUSTER_STACK:
            await delete_object(client, one)
            report(f"deleted {one}")
    kinds = sorted({(one.group, one.kind) for one in stacks})

    async def remaining_stacks() -> str:
        left = [str(one) for group, kind in kinds for one in await objects_of(client, group, kind)]
        names = and_more(left, _NAMED)
        return f"the operator did not finish the deletion of {names}: see its log, then run it again" if left else ""

    await _until_none(remaining_stacks, within)


async def _until_no_pods(client: Client, namespace: str, labels: str, within: timedelta) -> None:
    resource = await client.resource("", "Pod")

    async def running() -> str:
        pods = (await client.list_metadata(resource, namespace, labels=labels)).items
        names = and_more([one["metadata"]["name"] for one in pods], _NAMED)
        return f"pods of the operator do not stop: {names}; run the command again" if pods else ""

    await _until_none(running, within)


async def _until_gone(
    client: Client, objects: Sequence[ObjectId], within: timedelta, report: Callable[[str], None]
) -> None:
    async def left(one: ObjectId) -> str:
        found = await client.find(await client.resource(one.group, one.kind), one.name, one.namespace)
        if found is None:
            return ""
        return f"the deletion of {one} is not finished: it {describe_deletion(found)}; run the command again"

    for one in objects:
        await _until_none(partial(left, one), within)
        report(f"deleted {one}")


async def _until_none(left: Callable[[], Awaitable[str]], within: timedelta) -> None:
    """Wait until nothing is left; raise DependencyError with the text of ``left`` otherwise."""
    until = time.monotonic() + within.total_seconds()
    while problem := await left():
        if time.monotonic() > until:
            raise DependencyError("ObjectsRemain", problem)
        await asyncio.sleep(POLL_SECONDS)


async def remaining(client: Client) -> list[tuple[str, int]]:
    """Count the objects that a removal keeps: CustomResourceDefinitions, objects of our kinds, and ClusterClasses."""
    definitions = [one for crd in all_crds() for one in await _existing(client, object_id(crd))]
    counts = [(f"{CRD}s", len(definitions))]
    counts += [(f"{kind}s", len(await objects_of(client, kind.group, kind))) for kind in Kind]
    counts.append((f"{CLUSTER_CLASS_KIND}es", len(await objects_of(client, CLUSTER_API_GROUP, CLUSTER_CLASS_KIND))))
    return [(kind, count) for kind, count in counts if count]
