"""A release is ready when its node images are; the test writes what ORC writes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.deliver.apply.orc_images import orc_images
from clusterstacks.model.files.node_images import read_node_images
from clusterstacks.model.kinds.names import Kind
from tests.support.observing.write_counter import writes
from tests.support.running.world import condition_of, is_ready, is_unready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

GROUP, KIND = IMAGE_KIND


def image(name: str) -> Manifest:
    download = {"url": "https://images.example.org/node.qcow2", "hash": {"algorithm": "sha256", "value": "0" * 64}}
    content = {"diskFormat": "qcow2", "containerFormat": "bare", "download": download}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {
            "cloudCredentialsRef": {"secretName": "openstack", "cloudName": "openstack"},
            "managementPolicy": "managed",
            "resource": {"content": content},
        },
    }


def offer(world: World, version: str, *images: str) -> ReleaseName:
    name = world.stack.release(version)
    objects = [*world.stack.class_objects(version), *map(image, images)]
    world.publish(name, world.stack.files(version, {}, class_objects=objects))
    return name


async def report(world: World, name: str, status: str, reason: str, message: str = "") -> Manifest:
    """Write the condition Available of an Image."""

    async def look() -> Manifest:
        found = await world.find(KIND, name, group=GROUP)
        assert found is not None
        assert "deletionTimestamp" not in found["metadata"]
        return found

    found = await eventually(look, about=f"Image {name}")
    condition = {
        "type": "Available",
        "status": status,
        "reason": reason,
        "message": message,
        "observedGeneration": found["metadata"]["generation"],
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return await world.patch(found, {"status": {"conditions": [condition]}}, "status")


async def test_release_is_ready_when_its_images_are_and_says_what_each_waits_for(world: World) -> None:
    name = offer(world, "v1", "control-plane", "worker")
    await world.create(world.stack.manifest(world.namespace, "v1"))
    async with world.operator():
        await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "NodeImagesAvailable", "NodeImagesPending",
            words=["Image control-plane has no state yet", "Image worker", "check that"],
        )  # fmt: skip
        await report(world, "control-plane", "True", "Success")
        await report(world, "worker", "False", "InvalidConfiguration", "hash verification failed")
        found = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "Ready", "NodeImagesFailed")
        assert "Image worker: hash verification failed: ORC does not try again" in found["message"]
        await report(world, "worker", "True", "Success")
        release = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)
        assert release["status"]["nodeImages"] == "2/2"
        await world.at_rest()
        before = await writes(world.client)
        worker = await report(world, "worker", "False", "UnrecoverableError", "deleted from OpenStack")
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_unready)
        await world.at_rest()
        counted = await writes(world.client) - before
        assert counted["PATCH clusterstackreleases/status"] == 1
        assert not counted["APPLY images/"]

        # The remedy that the message names.
        await world.delete(worker)
        again = await report(world, "worker", "True", "Success")
        assert again["metadata"]["uid"] != worker["metadata"]["uid"]
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)


LISTED = {
    "apiVersion": "openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1",
    "openStackNodeImages": [
        {
            "url": "https://images.example.org/node.qcow2",
            "checksum": f"sha256:{'a' * 64}",
            "createOpts": {
                "name": "Node One",
                "disk_format": "qcow2",
                "container_format": "bare",
                "visibility": "private",
                "min_disk": 20,
                "min_ram": 2048,
                "tags": ["kube"],
                "properties": {"hw_disk_bus": "scsi", "os_distro": "ubuntu", "hw_qemu_guest_agent": "true"},
            },
        },
        {
            "url": "https://images.example.org/plain.raw",
            "createOpts": {"name": "plain", "disk_format": "raw", "container_format": "bare", "protected": True},
        },
        {
            "url": "https://images.example.org/in-chart.raw",
            "createOpts": {"name": "in-chart", "disk_format": "raw", "container_format": "bare"},
        },
        {
            "url": "https://images.example.org/present.raw",
            "createOpts": {
                "name": "present",
                "disk_format": "raw",
                "container_format": "bare",
                "id": "6d4c8b2e-0000-4000-8000-000000000000",
            },
        },
    ],
}


async def test_images_of_node_images_yaml_are_delivered_and_deleted_like_those_of_the_class_chart(world: World) -> None:
    world.stack = replace(world.stack, provider="openstack")
    name = world.stack.release("v1")
    objects = [*world.stack.class_objects("v1"), image("in-chart")]
    files = world.stack.files("v1", {}, class_objects=objects)
    world.publish(name, {**files, "node-images.yaml": json.dumps(LISTED).encode()})
    stack = await world.create(world.stack.manifest(world.namespace, "v1"))
    async with world.operator():
        for one in ("in-chart", "node-one", "present"):
            await report(world, one, "True", "Success")
        await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "NodeImagesAvailable", "NodeImagesPending", words=["Image plain"]
        )
        await report(world, "plain", "True", "Success")
        release = await world.release_ready(name)
        assert release["status"]["nodeImages"] == "4/4"
        assert condition_of(release, "NodeImagesAsStated")["reason"] == "ImageNotVerified"
        assert (
            "Image plain: publish a release with another image name and a hash"
            in condition_of(release, "NodeImagesAsStated")["message"]
        )
        live = await world.find(KIND, "node-one", group=GROUP)
        assert live is not None
        (expected,) = (
            one
            for one in orc_images(read_node_images(LISTED, "openstack"), [])
            if one["metadata"]["name"] == "node-one"
        )
        assert live["spec"] == expected["spec"], "the definition of ORC has every field"
        assert (await world.find(KIND, "in-chart", group=GROUP) or {})["spec"] == image("in-chart")["spec"]

        await world.delete(stack)
        await world.delete(release)  # as the garbage collector does
        await world.gone(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert [await world.find(KIND, one, group=GROUP) for one in ("node-one", "plain", "in-chart")] == [None] * 3


async def test_image_that_two_releases_share_survives_the_deletion_of_one_and_keeps_its_content(world: World) -> None:
    first, second = offer(world, "v1", "shared"), offer(world, "v2", "shared")
    stack = await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
    async with world.operator():
        uid = (await report(world, "shared", "True", "Success"))["metadata"]["uid"]
        for name in (first, second):
            await world.release_ready(name)
        await world.patch(stack, {"spec": {"versions": ["v2"]}})
        await world.gone(Kind.CLUSTER_STACK_RELEASE, first.release)
        release = await world.release_ready(second)
        found = await world.find(KIND, "shared", group=GROUP)
        assert found is not None
        assert found["metadata"]["uid"] == uid
        assert condition_of(release, "NodeImagesAvailable")["status"] == "True"

        third = world.stack.release("v3")
        changed = image("shared")
        changed["spec"]["resource"]["content"]["download"]["hash"]["value"] = "1" * 64
        objects = [*world.stack.class_objects("v3"), changed]
        world.publish(third, world.stack.files("v3", {}, class_objects=objects))
        await world.patch(stack, {"spec": {"versions": ["v2", "v3"]}})
        await world.says(
            Kind.CLUSTER_STACK_RELEASE, third.release, "HelmChartApplied",
            words=["spec.resource.content: ", "publish a release with another image name"],
        )  # fmt: skip

        # The hash tells that another URL has the same content, and ORC keeps the one it has.
        fourth = world.stack.release("v4")
        moved = image("shared")
        moved["spec"]["resource"]["content"]["download"]["url"] += ".new"
        world.publish(fourth, world.stack.files("v4", {}, class_objects=[*world.stack.class_objects("v4"), moved]))
        await world.patch(stack, {"spec": {"versions": ["v2", "v4"]}})
        await world.release_ready(fourth)
        assert (await world.find(KIND, "shared", group=GROUP) or {})["spec"] == found["spec"]
