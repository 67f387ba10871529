"""Kill -9 at every request of a delivery, an upgrade and a prune: the next run ends where an undisturbed one does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.apply.delivery import Delivery, Revision
from clusterstacks.apply.delivery_plan import DeliveryState
from clusterstacks.apply.ownership import OWNED_LABEL, PART_OF_LABEL
from clusterstacks.kube.resources import Resource
from tests.support.builders.manifests import config_map, crd, deployment, named
from tests.support.observing.client_requests import Killed, Recorder

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.kube.client import Client
    from tests.integration.apply.conftest import Cluster

MOST_REQUESTS = 60
"""More than any run here makes; a run that is not killed ends the loop."""


def chart(prefix: str, version: str) -> list[Manifest]:
    """Two revisions: objects that stay, change, come and go, a CRD with its resource, a once-only take-over."""
    group = f"{prefix}.example.org"
    manifests = [
        named("v1", "Namespace", prefix),
        crd("Widget", group),
        named(f"{group}/v1", "Widget", "first", prefix, spec={"version": version}),
        config_map("same", prefix, key="value"),
        config_map("changing", prefix, key=version),
        config_map("inherited", prefix, key=version),
        deployment("app", prefix, replicas=1 if version == "old" else 2),
        config_map(f"only-in-{version}", prefix),
    ]
    if version == "old":
        manifests.append(named(f"{group}/v1", "Widget", "second", prefix))
    return manifests


async def prepare(client: Client, prefix: str) -> None:
    """Leave what the Go operator would have left."""
    await client.create(await client.resource("", "Namespace"), named("v1", "Namespace", prefix))
    inherited = config_map("inherited", prefix, key="go", gone="go")
    inherited["metadata"]["labels"] = {OWNED_LABEL: "owned"}
    await client.apply(await client.resource("", "ConfigMap"), inherited, manager="kubectl", force=True)


async def run(client: Client, prefix: str, versions: tuple[str, ...]) -> None:
    for version in versions:
        delivery = Delivery(client)
        report = await delivery.install(prefix, Revision.of(chart(prefix, version), version))
        assert report.synced, [one.error for one in report.objects if not one.synced]
        assert (await delivery.prune({prefix})).complete


async def end_state(cluster: Cluster, prefix: str) -> dict[str, Any]:
    """Everything in the namespace, without what differs between any two runs."""
    found: dict[str, Any] = {}
    for place in (
        Resource("", "v1", "ConfigMap", "configmaps", namespaced=True),
        Resource("apps", "v1", "Deployment", "deployments", namespaced=True),
        Resource(f"{prefix}.example.org", "v1", "Widget", "widgets", namespaced=True),
    ):
        for item in (await cluster.user.list(place, prefix)).items:
            metadata = item["metadata"]
            labels = {key: value for key, value in metadata.get("labels", {}).items() if key != PART_OF_LABEL}
            managers = sorted(entry["manager"] for entry in metadata["managedFields"])
            found[f"{place.kind} {metadata['name']}"] = (item.get("data"), item.get("spec"), labels, managers)
    return found


@pytest.mark.parametrize("after", [False, True], ids=["lost", "answered"])
@pytest.mark.parametrize("versions", [("old",), ("old", "new")], ids=["install", "upgrade"])
@pytest.mark.timeout(300)
async def test_a_kill_at_any_request_changes_nothing_in_the_end(
    cluster: Cluster, unique: str, versions: tuple[str, ...], *, after: bool
) -> None:
    await prepare(cluster.user, unique)
    await run(cluster.client, unique, versions)
    expected = await end_state(cluster, unique)
    await Delivery(cluster.user).prune(())
    for number in range(1, MOST_REQUESTS):
        prefix = f"{unique}-{number}"
        await prepare(cluster.user, prefix)
        await run(cluster.user, prefix, versions[:-1])
        victim = cluster.new_client()
        requests = Recorder.on(victim, kill_at=number, kill_after=after)
        try:
            await run(victim, prefix, versions[-1:])
        except Killed:
            pass
        else:
            assert len(requests.calls) < number
            return
        finally:
            await victim.close()
        await settles(cluster, prefix, versions[-1])
        assert await end_state(cluster, prefix) == expected, number
        await Delivery(cluster.user).prune(())
    pytest.fail("a run made more requests than expected")


async def settles(cluster: Cluster, prefix: str, version: str) -> None:
    """Run again; then nothing is left to write, and the record lists what is there."""
    heir = cluster.new_client()
    await run(heir, prefix, (version,))
    requests = Recorder.on(heir)
    await run(heir, prefix, (version,))
    assert requests.writes == []
    record = (await Delivery(heir).records())[prefix]
    assert record.state is DeliveryState.PRUNED
    assert {known.id.name for known in record.members} == {one["metadata"]["name"] for one in chart(prefix, version)}
    await heir.close()
