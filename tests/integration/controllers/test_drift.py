"""Drift of delivered addons as users see it: in the cluster, on the ClusterAddon, and in events."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.documents import mappings
from clusterstacks.model.kinds.clusteraddon import addon_name
from clusterstacks.model.kinds.names import CLUSTER_KIND, DRIFT_INTERVAL_ANNOTATION, RECONCILE_ANNOTATION, Kind
from tests.support.builders.manifests import deployment
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.observing.write_counter import writes
from tests.support.running.csctl import call_csctl
from tests.support.running.doc_pages import Page, environ_of_reader
from tests.support.running.world import attempts, condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

ADDON = addon_name("one")
OFTEN = timedelta(seconds=0.3)
SWEEPS = 5


async def deliver(
    world: World, versions: Sequence[str] = ("v1",), wanted: Sequence[Manifest] = (), **drift: Any
) -> None:
    """Deliver an addon, if no objects are given one with a ConfigMap, to one cluster."""
    name = world.stack.release("v1")
    objects = wanted or [config_map(world.namespace, key="ours")]
    world.publish(name, world.stack.files("v1", {"app": templates(*objects)}))
    manifest = world.stack.manifest(world.namespace, *versions)
    manifest["spec"] |= {"drift": drift} if drift else {}
    await world.create(manifest)
    await world.release_ready(name)
    await world.cluster("one", name.class_name)
    await world.addons_ready("one", name.class_name)


async def edit(world: World, value: str = "theirs", manager: str = "kubectl-edit") -> None:
    resource = await world.workload.resource("", "ConfigMap")
    patch = {"data": {"key": value}}
    await world.workload.merge_patch(resource, world.namespace, patch, "kube-system", manager=manager)


async def remove(world: World) -> None:
    await world.workload.delete(await world.workload.resource("", "ConfigMap"), world.namespace, "kube-system")


async def restored(world: World) -> None:
    await world.shows(world.namespace, {"key": "ours"})


async def annotate(world: World, **annotations: str) -> None:
    cluster = await world.get(CLUSTER_KIND, "one")
    await world.patch(cluster, {"metadata": {"annotations": annotations}})


async def reported(world: World, holds: Callable[[Manifest], object]) -> Manifest:
    return await world.until(Kind.CLUSTER_ADDON, ADDON, holds)


def in_sync(addon: Manifest) -> bool:
    return condition_of(addon, "InSync").get("status") == "True"


def corrected(addon: Manifest) -> bool:
    return any(one.get("correctedAt") for one in mappings(addon, "status", "drift"))


def drifted(operator: Operator, result: str) -> float:
    """Count the drifted objects by their metric."""
    found = operator._metrics.registry.get_sample_value("clusterstacks_drifted_objects_total", {"result": result})
    return found or 0


async def sweeps(operator: Operator) -> None:
    """Wait for some sweeps."""
    before = attempts(operator, "clusteraddonhealth")

    async def more() -> bool:
        return attempts(operator, "clusteraddonhealth") >= before + SWEEPS

    await eventually(more, about="sweeps")


@pytest.mark.regression("USER-2", "D58")
async def test_changed_and_deleted_objects_are_restored_and_settled_clusters_cost_no_write(
    world: World,
) -> None:
    async with world.operator(drift_interval=OFTEN) as operator:
        await deliver(world)
        await reported(world, in_sync)

        await edit(world)
        await restored(world)
        addon = await reported(world, lambda one: corrected(one) and in_sync(one))
        (entry,) = addon["status"]["drift"]
        assert {key: entry[key] for key in ("kind", "name", "addon", "change", "fields", "managers")} == {
            "kind": "ConfigMap",
            "name": world.namespace,
            "addon": "app",
            "change": "was changed",
            "fields": [".data.key"],
            "managers": ["kubectl-edit"],
        }

        await remove(world)
        await restored(world)
        addon = await reported(world, lambda one: len(mappings(one, "status", "drift")) == 2)
        assert addon["status"]["drift"][0]["change"] == "was deleted"

        async def announced() -> bool:
            messages = [one["message"] for one in await world.events(addon) if one["reason"] == "DriftCorrected"]
            first = f'corrected: ConfigMap kube-system/{world.namespace} was changed: .data.key (set by "kubectl-edit")'
            return first in messages and len(messages) == 2

        await eventually(announced, about="two events")
        assert drifted(operator, "corrected") == 2
        assert drifted(operator, "failed") == 0
        await sweeps(operator)
        before = [await writes(client) for client in (world.client, world.workload)]
        await sweeps(operator)
        assert [await writes(client) for client in (world.client, world.workload)] == before


async def test_the_objects_of_a_rolled_back_addon_are_restored_also_by_the_next_operator(world: World) -> None:
    word, name = world.namespace, world.stack.release("v2")
    # Nothing runs in the cluster, so that the Deployment never becomes healthy.
    objects = config_map(word, key="theirs"), deployment(f"{word}-unhealthy", "kube-system")
    last = stage("app", waitFor="Healthy", timeout="1s", rollback="OnFailure")
    hooks = {"AfterControlPlaneInitialized": [last]}
    world.publish(name, world.stack.files("v2", {"app": templates(*objects)}, hooks=hooks))

    async with world.operator(drift_interval=OFTEN) as operator:
        await deliver(world, versions=("v1", "v2"))
        await world.release_ready(name)
        await world.set_class("one", name.class_name)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RolledBack")
        await restored(world)
        await remove(world)
        await restored(world)
        await reported(world, lambda one: corrected(one) and in_sync(one))
        await sweeps(operator)
        before = [await writes(client) for client in (world.client, world.workload)]
        await sweeps(operator)
        assert [await writes(client) for client in (world.client, world.workload)] == before
    async with world.operator(drift_interval=OFTEN):
        await edit(world)
        await restored(world)
        await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", "RolledBack")


async def test_an_object_whose_manifest_does_not_fit_into_the_record_is_restored_also_by_the_next_operator(
    world: World,
) -> None:
    dice = random.Random(1)  # what cannot be compressed
    large = [config_map(f"{world.namespace}-{part}", text=dice.randbytes(400_000).hex()) for part in "abc"]
    ours = config_map(world.namespace, key="ours")
    async with world.operator(drift_interval=OFTEN):
        await deliver(world, wanted=[ours, *large])
        addon = await reported(world, in_sync)
        assert condition_of(addon, "HelmChartApplied")["reason"] == "RecordTruncated"

        await edit(world)
        await restored(world)
    async with world.operator(drift_interval=OFTEN):
        await remove(world)
        await restored(world)
        await reported(world, lambda one: corrected(one) and in_sync(one))


async def test_mode_warn_reports_and_changes_nothing(world: World) -> None:
    async with world.operator(drift_interval=OFTEN) as operator:
        await deliver(world, mode="Warn")
        await edit(world)

        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "InSync", "ObjectsChanged")

        assert found["message"] == (
            f"1 objects differ from what was delivered: ConfigMap kube-system/{world.namespace} was changed: .data.key "
            '(set by "kubectl-edit"); spec.drift.mode of the ClusterStack is Warn, so they are not corrected'
        )
        mirrored = await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsInSync", "ObjectsChanged")
        assert mirrored["message"] == found["message"]
        await sweeps(operator)
        before = await writes(world.client)
        await sweeps(operator)
        assert await writes(world.client) == before
        await world.shows(world.namespace, {"key": "theirs"})
        await edit(world, "ours")
        addon = await reported(world, in_sync)
        assert not addon["status"].get("drift")
        await world.until(CLUSTER_KIND, "one", lambda one: not condition_of(one, "ClusterStackAddonsInSync"))


async def test_a_writer_that_reverts_corrections_is_named_and_corrected_at_growing_intervals(world: World) -> None:
    async with world.operator(drift_interval=OFTEN):
        await deliver(world)
        for number in range(3):
            await edit(world, f"theirs {number}", "rival")
            await restored(world)

        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "InSync", "CorrectionsReverted")

        assert '.data.key (set by "rival")' in found["message"]
        assert "spec.drift.ignoreDifferences of the ClusterStack" in found["message"]
        entries = mappings(await world.addon("one"), "status", "drift")
        _, second, third = sorted(datetime.fromisoformat(one["correctedAt"]) for one in entries if "correctedAt" in one)
        assert third - second >= timedelta(seconds=9), "the third correction comes after a pause of 10 s"


async def test_a_request_sweeps_at_once_and_a_wrong_interval_is_reported(world: World) -> None:
    async with world.operator(drift_interval=None):
        await deliver(world)
        await edit(world)
        await annotate(world, **{RECONCILE_ANNOTATION: "now"})
        await restored(world)
        await reported(world, lambda one: (one.get("status") or {}).get("lastHandledReconcileAt") == "now")

        await annotate(world, **{DRIFT_INTERVAL_ANNOTATION: "5 minutes", RECONCILE_ANNOTATION: "again"})
        addon = await reported(world, lambda one: condition_of(one, "InSync").get("reason") == "InvalidInterval")
        assert (
            "'5 minutes' is not a valid interval (expected for example 5m" in condition_of(addon, "InSync")["message"]
        )


async def test_csctl_drift_shows_the_differences_and_changes_nothing(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("drift", f"{world.namespace}/one", "--kubeconfig", world.management_kubeconfig)
    async with world.operator(drift_interval=None):
        await deliver(world, ignoreDifferences=[{"kind": "Service", "jsonPointers": ["/spec/ports"]}])
        capsys.readouterr()
        assert await asyncio.to_thread(call_csctl, *command, "--exit-code") == 0
        assert capsys.readouterr().out == "The only object is as it was delivered.\n"

        await edit(world)
        assert await asyncio.to_thread(call_csctl, *command) == 0
        assert capsys.readouterr().out == (
            f'ConfigMap kube-system/{world.namespace} was changed: .data.key (set by "kubectl-edit")\n'
            "1 of 1 objects differ from what was delivered.\n"
        )
        await remove(world)
        assert await asyncio.to_thread(call_csctl, *command, "--exit-code", "-o", "json") == 1
        document = json.loads(capsys.readouterr().out)
        assert (document["objects"], [one["change"] for one in document["drift"]]) == (1, ["was deleted"])
        assert await world.delivered(world.namespace) is None

        other = ("drift", f"{world.namespace}/two", "--kubeconfig", world.management_kubeconfig)
        assert await asyncio.to_thread(call_csctl, *other) != 0
        assert "does not exist, or has neither a class of a cluster stack nor a sync" in capsys.readouterr().err


async def test_the_page_about_ignored_differences_lets_another_writer_own_fields(world: World, tmp_path: Path) -> None:
    word = world.namespace
    own_values = {
        "ranges-1-35": world.stack.word,
        "-n default ": f"-n {word} ",
        " ranged ": " one ",
        "default/ranged": f"{word}/one",
        "name: metrics-server ": f"name: {word} ",
    }
    page = Page.read("how-to/ignore-a-difference.md", own_values)
    (settings,) = page.others["yaml"]
    (tmp_path / "drift.yaml").write_text(settings)
    *settings_blocks, compare = page.blocks
    environ = environ_of_reader(world.management_kubeconfig)
    wanted = deployment(word, "default")
    wanted["metadata"]["annotations"] = {"example.org/owner": "addon"}
    container(wanted)["resources"] = {"requests": {"cpu": "1"}}
    resource = await world.workload.resource("apps", "Deployment")

    async def image_is_restored() -> bool:
        live = await world.workload.get(resource, word, "default")
        return bool(container(live)["image"] == container(wanted)["image"])

    async with world.operator(drift_interval=None):
        await deliver(world, wanted=[wanted])
        await asyncio.to_thread(page.part(settings_blocks).run, tmp_path, environ)
        first = "/spec/template/spec/containers/0"
        changes = {
            "/metadata/annotations/example.org~1owner": "user",
            f"{first}/image": "example.org/other:1",
            f"{first}/resources/requests/cpu": "2",
        }
        operations = [{"op": "replace", "path": path, "value": value} for path, value in changes.items()]
        await world.workload.json_patch(resource, word, operations, "default")

        await asyncio.to_thread(page.part([compare]).run, tmp_path, environ)

        await eventually(image_is_restored, about="the correction of the image")
        await reported(world, lambda one: (one.get("status") or {}).get("lastHandledReconcileAt") and in_sync(one))
        live = await world.workload.get(resource, word, "default")
        assert live["metadata"]["annotations"]["example.org/owner"] == "user"
        assert container(live)["resources"] == {"requests": {"cpu": "2"}}


@pytest.mark.regression("CASE-07")
async def test_an_upgrade_leaves_ignored_fields_to_their_writers(world: World) -> None:
    word, second = world.namespace, world.stack.release("v2")
    upgraded = config_map(word, key="v2", free="v2")
    world.publish(second, world.stack.files("v2", {"app": templates(upgraded)}))
    ignored = [{"kind": "ConfigMap", "name": word, "jsonPointers": ["/data/free"]}]
    async with world.operator(drift_interval=None):
        await deliver(world, ("v1", "v2"), [config_map(word, key="v1", free="v1")], ignoreDifferences=ignored)
        resource = await world.workload.resource("", "ConfigMap")
        patch = {"data": {"free": "user", "key": "user"}}
        await world.workload.merge_patch(resource, word, patch, "kube-system", manager="kubectl-edit")
        await world.release_ready(second)

        await world.set_class("one", second.class_name)
        await world.addons_ready("one", second.class_name)

        await world.shows(word, {"key": "v2", "free": "user"})


def container(workload: Manifest) -> Manifest:
    found: Manifest = workload["spec"]["template"]["spec"]["containers"][0]
    return found


async def test_a_paused_cluster_is_not_swept_and_the_interval_of_the_annotation_counts(world: World) -> None:
    async with world.operator(drift_interval=None) as operator:
        await deliver(world)
        cluster = await world.get(CLUSTER_KIND, "one")
        await world.patch(cluster, {"spec": {"paused": True}})
        await reported(world, lambda one: condition_of(one, "Paused").get("status") == "True")
        await edit(world)
        await annotate(world, **{DRIFT_INTERVAL_ANNOTATION: "10s"})
        await world.look_again(operator, "clusteraddon", await world.addon("one"))
        await world.shows(world.namespace, {"key": "theirs"})

        await world.patch(cluster, {"spec": {"paused": False}})
        await restored(world)
