"""A delivery record names its Cluster, so addons of another Cluster are not changed."""

from __future__ import annotations

import base64
import gzip
import shlex
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.deliver.apply.delivery import Delivery, RecordOwner, Revision
from clusterstacks.deliver.apply.messages import RecordOfAnotherCluster
from clusterstacks.deliver.apply.record_store import SECRETS, record_name
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import ADOPT_ANNOTATION, CLUSTER_KIND, RECONCILE_ANNOTATION, Kind
from clusterstacks.model.objects import ObjectKey
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.observing.client_requests import Recorder
from tests.support.running.world import condition_of

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("DROP-L7")


async def stack_with(world: World, *addons: str) -> ReleaseName:
    """Offer a stack whose addons deliver a ConfigMap each."""
    stack = TinyStack(f"{world.namespace}{addons[0]}")
    name = stack.release("v1")
    charts = {addon: templates(config_map(f"{world.namespace}-{addon}")) for addon in addons}
    world.publish(name, stack.files("v1", charts))
    await world.create(stack.manifest(world.namespace, "v1"))
    await world.release_ready(name)
    return name


async def record_of(world: World, addon: str) -> Manifest:
    return await world.workload.get(SECRETS, record_name(addon), "kube-system")


def is_health_unknown(addon: Manifest) -> bool:
    return condition_of(addon, "Healthy").get("reason") == "HealthUnknown"


@pytest.mark.regression("DROP-L7")
async def test_second_cluster_with_the_same_kubeconfig_does_not_change_the_addons_of_the_first(
    world: World,
) -> None:
    async with world.operator():
        ours, theirs = await stack_with(world, "cni", "metrics"), await stack_with(world, "csi")
        await world.cluster("first", ours.class_name)
        await world.addons_ready("first", ours.class_name)
        before = [await record_of(world, addon) for addon in ("cni", "metrics")]

        await world.cluster("second", theirs.class_name)
        found = await world.says(
            Kind.CLUSTER_ADDON,
            addon_name("second"),
            "Ready",
            "RecordOfAnotherCluster",
            words=[
                f"has addons of Cluster {world.namespace}/first (cni, metrics)",
                f"Cluster {world.namespace}/second",
            ],
        )

        assert [await record_of(world, addon) for addon in ("cni", "metrics")] == before
        assert await world.delivered(f"{world.namespace}-metrics") is not None
        assert await world.delivered(f"{world.namespace}-csi") is None

        # What the message says to do.
        command = shlex.split(found["message"].partition("adopt the addons: ")[2])
        assert command[:3] == ["kubectl", "annotate", "--overwrite"]
        assert command[3:-1] == ["clusters.cluster.x-k8s.io", "--namespace", world.namespace, "second"]
        key, _, value = command[-1].partition("=")
        assert (key, value) == (ADOPT_ANNOTATION, f"{world.namespace}/first")
        second = await world.get(CLUSTER_KIND, "second")
        await world.patch(second, {"metadata": {"annotations": {key: value}}})
        await world.addons_ready("second", theirs.class_name)

        assert await world.delivered(f"{world.namespace}-csi") is not None
        assert await world.delivered(f"{world.namespace}-metrics") is None

        # The annotation has done its part: neither is it needed again, nor does the first Cluster come back.
        await world.patch(second, {"metadata": {"annotations": {key: None}}})
        first = await world.get(CLUSTER_KIND, "first")
        await world.patch(first, {"metadata": {"annotations": {RECONCILE_ANNOTATION: "now"}}})
        await world.until(Kind.CLUSTER_ADDON, addon_name("first"), is_health_unknown)
        await world.patch(first, {"metadata": {"labels": {"changed": "inputs"}}})
        await world.says(
            Kind.CLUSTER_ADDON,
            addon_name("first"),
            "Ready",
            "RecordOfAnotherCluster",
            words=[f"has addons of Cluster {world.namespace}/second (csi)"],
        )
        await world.addons_ready("second", theirs.class_name)


@pytest.mark.regression("DROP-L7")
async def test_records_without_a_cluster_are_adopted_by_the_next_regular_write(world: World) -> None:
    recipient = RecordOwner(ObjectKey("team", "prod"))
    addon = f"{world.namespace}-cni"
    manifests = [config_map(f"{world.namespace}-old")]
    await Delivery(world.workload).install(addon, Revision.of(manifests, "inputs"))

    requests = Recorder.on(world.workload)
    delivery = Delivery(world.workload, recipient)
    assert (await delivery.records())[addon].cluster == ""
    await delivery.install(addon, Revision.of(manifests, "inputs"))
    report = await delivery.prune([addon])
    assert report.complete
    assert not requests.writes

    changed = [config_map(f"{world.namespace}-new")]
    await Delivery(world.workload, recipient).install(addon, Revision.of(changed, "other"))
    assert (await Delivery(world.workload, recipient).records())[addon].cluster == "team/prod"


@pytest.mark.regression("DROP-L7")
async def test_replacement_cluster_adopts_only_annotated_records(world: World) -> None:
    for name in ("old", "other"):
        revision = Revision.of([config_map(f"{world.namespace}-{name}")], "inputs")
        # As if each had come first.
        await Delivery(world.workload).install(f"{world.namespace}-{name}", revision)
        stored = await world.workload.get(SECRETS, record_name(f"{world.namespace}-{name}"), "kube-system")
        await named(world, stored, f"team/{name}")

    delivery = Delivery(world.workload, RecordOwner(ObjectKey("team", "new"), adopts="team/old"))
    with pytest.raises(RecordOfAnotherCluster, match=r"has addons of Cluster team/other \(") as caught:
        await delivery.prune(())

    assert caught.value.message.endswith(f"--namespace team new {ADOPT_ANNOTATION}=team/other")
    assert await world.delivered(f"{world.namespace}-old") is not None
    assert await world.delivered(f"{world.namespace}-other") is not None
    await Delivery(world.workload, RecordOwner(ObjectKey("team", "new"), adopts="team/other")).prune(())
    assert await world.delivered(f"{world.namespace}-old") is None
    assert await world.delivered(f"{world.namespace}-other") is None


async def named(world: World, secret: Manifest, cluster: str) -> None:
    """Write a Cluster into a record."""
    document = orjson.loads(gzip.decompress(base64.b64decode(secret["data"]["record"])))
    packed = base64.b64encode(gzip.compress(orjson.dumps({**document, "cluster": cluster}))).decode()
    await world.workload.merge_patch(SECRETS, secret["metadata"]["name"], {"data": {"record": packed}}, "kube-system")
