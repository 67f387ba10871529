"""Creates a ClusterUpgrade, or finds the one that does the same already, and follows it until it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.csctl.shared.management_objects import MANAGER, UPGRADES, follow
from clusterstacks.model.conditions import from_documents
from clusterstacks.model.documents import and_more, at, mappings, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import (
    CLUSTER_API_GROUP,
    CLUSTER_KIND,
    GROUP,
    READY_CONDITION,
    ClusterPhase,
    Kind,
    UpgradePhase,
)
from clusterstacks.model.objects import ObjectKey, contains

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.csctl.shared.management_objects import ObjectQuery
    from clusterstacks.csctl.shared.upgrade_objects import UpgradeRequest
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client

SHOWN_NAMES: Final = 10
"""Clusters that a message names (arbitrary)."""

ENDED: Final = (UpgradePhase.DONE, UpgradePhase.STOPPED, UpgradePhase.BLOCKED)
"""Phases of a ClusterUpgrade that continues only after a person has changed something."""


async def find_running(client: Client, request: UpgradeRequest) -> ObjectKey | None:
    """Return the ClusterUpgrade that csctl created for the same request, if it is not done; None without one.

    Raises:
        SpecError: The operator carries out no upgrades, or the ClusterUpgrade has other settings.
    """
    from clusterstacks.net.kube.errors import KindNotServed

    wanted, key = request.manifest(), ObjectKey(request.namespace, request.name)
    try:
        found = await client.find(await client.resource(GROUP, Kind.CLUSTER_UPGRADE), key.name, key.namespace)
    except KindNotServed:
        remedy = "update the operator with 'csctl install'"
        here = ", or take the steps in csctl with --here" if request.cluster else ""
        message = "the management cluster does not serve ClusterUpgrade, so its operator carries out no upgrade"
        raise SpecError("KindNotServed", f"{message}: {remedy}{here}") from None
    if found is None or _is_done(found):
        return None
    if not contains(found["spec"], wanted["spec"]):
        change = f"change it with 'kubectl edit clusterupgrade -n {key.namespace} {key.name}', or delete it"
        raise SpecError(
            "UpgradeDiffers", f"ClusterUpgrade {key} runs already, with other settings than these: {change}"
        )
    return key


def _is_done(upgrade: Manifest) -> bool:
    return has_ended(upgrade) and text(upgrade, "status", "phase") == UpgradePhase.DONE


def has_ended(upgrade: Manifest) -> bool:
    """Return whether the status is that of the present spec, and the phase one of ``ENDED``."""
    is_current = at(upgrade, "status", "observedGeneration") == at(upgrade, "metadata", "generation")
    return is_current and text(upgrade, "status", "phase") in ENDED


async def begin(client: Client, request: UpgradeRequest) -> ObjectKey:
    """Create the ClusterUpgrade; one of the same name that is done is replaced, because it does nothing any more.

    Raises:
        SpecError: The API server, a webhook or another field manager refuses it.
    """
    from clusterstacks.net.kube.errors import Conflict, Forbidden, Invalid

    key = ObjectKey(request.namespace, request.name)
    resource = await client.resource(GROUP, Kind.CLUSTER_UPGRADE)
    try:
        done = await client.find(resource, key.name, key.namespace)
        if done is not None and _is_done(done):
            await client.delete(resource, key.name, key.namespace)
        await client.apply(resource, request.manifest(), manager=MANAGER)
    except (Conflict, Forbidden, Invalid) as error:
        raise SpecError(error.code, f"ClusterUpgrade {key} is refused: {error.message}") from error
    return key


async def follow_upgrade(
    client: Client,
    key: ObjectKey,
    queries: Sequence[ObjectQuery],
    show: Callable[[Manifest, Sequence[list[Manifest]]], None],
    seconds: float | None = None,
) -> Manifest | None:
    """Show a ClusterUpgrade, and the objects of further queries, until it ends; return it, or None if it is deleted.

    Raises:
        TimeoutError: It has not ended within ``seconds``.
        DependencyError: The user may not read the objects.
    """
    ended: asyncio.Future[Manifest | None] = asyncio.get_running_loop().create_future()

    def look(objects: Sequence[list[Manifest]]) -> None:
        upgrade = next(iter(objects[0]), None)
        if upgrade is not None:
            show(upgrade, objects[1:])
        if not ended.done() and (upgrade is None or has_ended(upgrade)):
            ended.set_result(upgrade)

    own = replace(UPGRADES, namespace=key.namespace, name=key.name, consequence="")
    following = asyncio.ensure_future(follow(client, [own, *queries], look))
    awaited: set[asyncio.Future[Any]] = {following, ended}
    try:
        await asyncio.wait(awaited, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            return ended.result()
        if following.done():
            await following
        raise TimeoutError
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


def unfinished(upgrade: Manifest) -> list[str]:
    """Return why the upgrade has ended without all of its Clusters: a line for each that does not go on."""
    stuck = (ClusterPhase.FAILED, ClusterPhase.BLOCKED)
    stopped = [entry for entry in mappings(upgrade, "status", "clusters") if text(entry, "phase") in stuck]
    lines = [f"{text(entry, 'name')}: {text(entry, 'message') or text(entry, 'phase')}" for entry in stopped]
    ready = [one.message for one in from_documents(at(upgrade, "status", "conditions")) if one.type == READY_CONDITION]
    return lines or ready


async def selected_clusters(client: Client, request: UpgradeRequest) -> list[str]:
    """Return the names of the Clusters that the labels of a request select.

    Raises:
        SpecError: There is none; the message names the Clusters of the namespace.
    """
    resource = await client.resource(CLUSTER_API_GROUP, CLUSTER_KIND)
    found = (await client.list(resource, request.namespace, labels=request.labels)).items
    if not found:
        everything = (await client.list(resource, request.namespace)).items
        names = sorted(text(cluster, "metadata", "name") for cluster in everything)
        known = f"its Clusters are {and_more(names, SHOWN_NAMES)}" if names else "it has no Cluster"
        where = f"selector {request.labels} selects no Cluster of namespace {request.namespace}"
        raise SpecError("NoClusters", f"{where}: {known}; 'kubectl get clusters -A --show-labels' lists all labels")
    return sorted(text(cluster, "metadata", "name") for cluster in found)
