"""A release is ready when the node images of its class chart are; the test writes what ORC writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
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
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": KIND,
        "metadata": {"name": name},
        "spec": {"resource": {"content": {"diskFormat": "qcow2", "download": download}}},
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


async def test_image_that_two_releases_share_survives_the_deletion_of_one(world: World) -> None:
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
