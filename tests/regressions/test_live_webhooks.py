"""A failing admission webhook of a workload cluster is named and does not block deliveries forever."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.delivery_plan import DeliveryState
from clusterstacks.deliver.apply.failing_webhooks import CONFIGURATIONS
from clusterstacks.deliver.apply.record_store import SECRETS
from clusterstacks.deliver.apply.results import Deadlines
from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, CLUSTER_KIND, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import WebhookFailed
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.resources import Resource
    from tests.support.running.world import World

VALIDATING, MUTATING = CONFIGURATIONS
SERVED = Deadlines(served=timedelta(minutes=1))


def strict(word: str, *resources: str, kind: str = VALIDATING.kind) -> dict[str, Any]:
    """A configuration whose service does not exist, for the objects with the word in their name only."""
    service = {"name": "missing", "namespace": "kube-system"}
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "resources": resources, "operations": ["*"]}
    webhook = {
        "name": f"{word}.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "clientConfig": {"service": service},
        "rules": [rule],
        "matchConditions": [{"name": "mine", "expression": f"request.name.contains('{word}')"}],
    }
    metadata = {"name": word}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": metadata,
        "webhooks": [webhook],
    }


@pytest.fixture
async def workload(world: World) -> AsyncIterator[Client]:
    """The operator's client of the workload cluster; no webhook configuration of the test stays."""
    async with Pool() as pool:
        yield Client(parse_kubeconfig(world.workload_kubeconfig, base=None), pool)
        for resource in CONFIGURATIONS:
            if await world.workload.find(resource, world.namespace):
                await world.workload.delete(resource, world.namespace)


@pytest.fixture(autouse=True)
def in_force(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a webhook configuration that is applied be in force before the next request."""
    apply = Client.apply

    async def applied(self: Client, resource: Resource, manifest: Manifest, **how: Any) -> Manifest:
        found = await apply(self, resource, manifest, **how)
        if resource in CONFIGURATIONS and manifest["webhooks"][0]["failurePolicy"] == "Fail":
            await eventually(lambda: refuses(world), about="the webhook configuration in force")
        return found

    monkeypatch.setattr(Client, "apply", applied)


async def refuses(world: World) -> bool:
    metadata = {"name": f"{world.namespace}-probe", "namespace": "kube-system"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    try:
        await world.workload.apply(SECRETS, secret, manager="tests", dry_run=True)
    except WebhookFailed:
        return True
    return False


def delivery(workload: Client) -> Delivery:
    return Delivery(workload, deadlines=SERVED)


@pytest.mark.regression("LIVE-H4")
async def test_record_is_written_before_a_webhook_configuration_and_delivery_completes(
    world: World, workload: Client
) -> None:
    word = world.namespace
    manifests = [strict(word, "secrets", "configmaps"), config_map(word, number="1")]

    with pytest.raises(WebhookFailed) as caught:
        await delivery(workload).install(word, Revision.of(manifests, "1"))

    told = str(caught.value)
    for part in (
        f'failed calling webhook "{word}.example.com"',
        "withheld",
        f"ValidatingWebhookConfiguration {word} of addon {word}",
        f"kubectl delete validatingwebhookconfiguration {word}",
    ):
        assert part in told
    record = (await delivery(workload).records())[word]
    assert record.state is DeliveryState.DELIVERING
    assert [known.id.kind for known in record.objects if known.mark] == ["ConfigMap"]

    webhook = {**strict(word, "secrets")["webhooks"][0], "failurePolicy": "Ignore"}
    await world.workload.merge_patch(VALIDATING, word, {"webhooks": [webhook]})
    await _until_delivered(workload, word, Revision.of([{**manifests[0], "webhooks": [webhook]}, manifests[1]], "2"))


async def _until_delivered(workload: Client, word: str, revision: Revision) -> None:
    report = await delivery(workload).install(word, revision)
    assert report.synced
    assert report.state is DeliveryState.PRUNED


@pytest.mark.regression("LIVE-H4")
@pytest.mark.parametrize("resource", CONFIGURATIONS, ids=["validating", "mutating"])
async def test_webhook_configuration_removed_by_a_revision_is_deleted_before_the_record_write(
    world: World, workload: Client, resource: Any
) -> None:
    word = world.namespace
    webhook = strict(word, "secrets", "configmaps", kind=resource.kind)
    await _deliver_locked(workload, word, [webhook, config_map(word, number="1")])

    report = await delivery(workload).install(word, Revision.of([config_map(word, number="2")], "2"))

    assert report.synced
    assert await workload.find(resource, word) is None
    assert (await world.delivered(word) or {})["data"] == {"number": "2"}
    pruned = await delivery(workload).prune({word})
    assert pruned.complete


@pytest.mark.regression("LIVE-H4")
async def test_webhook_configuration_of_a_removed_addon_is_deleted_before_the_prune(
    world: World, workload: Client
) -> None:
    word = world.namespace
    await _deliver_locked(workload, word, [strict(word, "secrets"), config_map(word)])

    report = await delivery(workload).prune(set())

    assert report.complete
    assert await workload.find(VALIDATING, word) is None
    assert await delivery(workload).records() == {}


@pytest.mark.regression("LIVE-H4")
async def test_foreign_webhook_configuration_of_the_same_name_is_not_deleted(world: World, workload: Client) -> None:
    word = world.namespace
    webhook = strict(word, "secrets")
    await _deliver_locked(workload, word, [webhook, config_map(word, number="1")])
    await world.workload.delete(VALIDATING, word)
    await world.workload.create(VALIDATING, webhook)
    await eventually(lambda: refuses(world), about="the webhook configuration in force")

    with pytest.raises(WebhookFailed, match=f"ValidatingWebhookConfiguration {word}: repair"):
        await delivery(workload).install(word, Revision.of([config_map(word, number="2")], "2"))

    assert await workload.find(VALIDATING, word) is not None


async def _deliver_locked(workload: Client, word: str, manifests: list[dict[str, Any]]) -> None:
    """Deliver a webhook configuration that refuses the end of its own delivery."""
    with pytest.raises(WebhookFailed):
        await delivery(workload).install(word, Revision.of(manifests, "1"))


@pytest.mark.regression("LIVE-H4")
async def test_blocking_webhook_is_named_and_a_rollback_succeeds(world: World, workload: Client) -> None:
    word = world.namespace
    assert workload is not None
    charts = {
        "v1": {word: templates(config_map(word, number="1"))},
        "v2": {
            word: templates(config_map(word, number="2")),
            f"{word}-hook": templates(strict(word, "secrets", "configmaps")),
        },
    }
    for version, addons in charts.items():
        world.publish(world.stack.release(version), world.stack.files(version, addons))
    first, second = (world.stack.release(version).class_name for version in charts)
    async with world.operator():
        await world.create(world.stack.manifest(word, *charts))
        for version in charts:
            await world.release_ready(world.stack.release(version))
        await world.cluster("one", first)
        await world.addons_ready("one", first)
        await world.set_class("one", second)
        name = f"ValidatingWebhookConfiguration {word}"
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartApplied", "WebhookFailed", words=[name])

        def told(cluster: dict[str, Any]) -> bool:
            return condition_of(cluster, ADDONS_READY_CONDITION).get("reason") == "WebhookFailed"

        await world.until(CLUSTER_KIND, "one", told)
        await world.set_class("one", first)
        await world.addons_ready("one", first)
        await world.shows(word, {"number": "1"})
        assert await world.workload.find(VALIDATING, word) is None
