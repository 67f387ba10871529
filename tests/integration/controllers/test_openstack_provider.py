"""The operator as the OpenStack provider: manifests for the provider written in Go; the test writes what ORC writes.

docs/how-to/replace-the-go-operator.md has the tests of the Go provider, with what shows the same here.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.model.kinds.names import Kind, OpenStackKind
from clusterstacks.operator.controllers.openstack.rules import NOT_FOUND
from tests.support.observing.write_counter import writes
from tests.support.running.world import condition_of, install
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

DEFINITIONS = Path(__file__).parents[3] / "charts" / "cluster-stack-operator" / "files" / "crds-openstack"
IMAGE = IMAGE_KIND[1]
RELEASE, NODE_IMAGE = OpenStackKind.RELEASE, OpenStackKind.NODE_IMAGE

TEMPLATE = """
apiVersion: infrastructure.clusterstack.x-k8s.io/v1alpha1
kind: OpenStackClusterStackReleaseTemplate
metadata: {name: cspotemplate}
spec:
  template:
    spec: {}
"""
PROVIDER_REF = {
    "apiVersion": "infrastructure.clusterstack.x-k8s.io/v1alpha1",
    "kind": "OpenStackClusterStackReleaseTemplate",
    "name": "cspotemplate",
}
IMAGES = """
apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1
openStackNodeImages:
  - url: https://images.example.org/ubuntu-2204-kube-v1.27.8.qcow2
    createOpts:
      name: ubuntu-capi-image-v1.27.8
      disk_format: qcow2
      container_format: bare
      visibility: shared
  - url: https://images.example.org/worker.qcow2
    createOpts: {name: Worker Image, tags: [kube], disk_format: qcow2, container_format: bare, os_hidden: true}
"""


def offer(world: World, version: str, images: str = IMAGES) -> ReleaseName:
    name = world.stack.release(version)
    files = {"node-images.yaml": json.dumps(yaml.safe_load(images)).encode()} if images else {}
    world.publish(name, {**world.stack.files(version, {}), **files})
    return name


async def sample(world: World, *versions: str) -> Manifest:
    """Create the manifests that the documentation of the Go provider has."""
    await install(world.client, [yaml.safe_load(path.read_text()) for path in sorted(DEFINITIONS.iterdir())])
    template = yaml.safe_load(TEMPLATE)
    template["metadata"]["namespace"] = world.namespace
    await world.create(template)
    stack = world.stack.manifest(world.namespace, *versions, providerRef=PROVIDER_REF)
    del stack["spec"]["noProvider"]
    return await world.create(stack)


async def image(world: World, name: str, holds: Callable[[Manifest], object]) -> Manifest:
    async def look() -> Manifest:
        found = await world.find(IMAGE, name)
        assert found is not None
        assert holds(found), found
        return found

    return await eventually(look, about=f"Image {name}")


async def orc_says(world: World, found: Manifest, reason: str, message: str = "", **status: Any) -> None:
    """Write the status of an Image."""
    condition = {
        "type": "Available",
        "status": "True" if reason == "Success" else "False",
        "reason": reason,
        "message": message,
        "observedGeneration": found["metadata"]["generation"],
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await world.patch(found, {"status": {"conditions": [condition], **status}}, "status")


def policy(wanted: str) -> Callable[[Manifest], bool]:
    return lambda found: found["spec"]["managementPolicy"] == wanted


@pytest.mark.regression("D40")
async def test_manifests_for_the_go_provider_upload_one_image_and_use_the_other(world: World) -> None:
    world.stack = replace(world.stack, provider="openstack")
    name = offer(world, "v1")
    uploaded, used = (f"{name.series}-{image}-v1" for image in ("ubuntu-capi-image-v1.27.8", "worker-image"))
    stack = await sample(world, "v1")
    async with world.operator(providers=("openstack",)):
        look_up = await image(world, uploaded, policy("unmanaged"))
        assert look_up["spec"]["import"] == {"filter": {"name": "ubuntu-capi-image-v1.27.8"}}
        assert look_up["spec"]["cloudCredentialsRef"] == {"secretName": "openstack", "cloudName": "openstack"}
        (owner,) = look_up["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["controller"]) == (NODE_IMAGE, uploaded, True)
        await orc_says(world, look_up, "Progressing", "Waiting for Secret/openstack to be created")
        await world.says(NODE_IMAGE, uploaded, "CloudAvailable", "SecretNotFound")

        await orc_says(world, look_up, "Progressing", NOT_FOUND)
        upload = await image(world, uploaded, policy("managed"))
        assert upload["spec"]["managedOptions"] == {"onDelete": "detach"}
        await orc_says(world, upload, "Progressing", "Downloaded 1MB", id="4711")
        await world.says(NODE_IMAGE, uploaded, "OpenStackImageActive", "OpenStackImageNotImportedYet")
        await orc_says(world, upload, "Success", id="4711")

        present = await image(world, used, policy("unmanaged"))
        assert present["spec"]["import"] == {"filter": {"name": "Worker Image", "tags": ["kube"]}}
        await world.says(RELEASE, name.release, "OpenStackNodeImageReleasesReady", "ProcessOngoing", words=[used])
        await orc_says(world, present, "Success", id="4712")
        provider = await world.until(RELEASE, name.release, lambda one: one.get("status", {}).get("ready"))
        assert condition_of(provider, "ClusterStackReleaseAssetsReady")["status"] == "True"
        release = await world.release_ready(name)
        assert [one for one in release["status"]["resources"] if one["kind"] == IMAGE] == []
        adopted = await world.get(NODE_IMAGE, used)
        assert adopted["status"]["ready"] is True
        assert condition_of(adopted, "NodeImagesAsStated")["reason"] == "ImageNotVerified"
        assert (await image(world, used, policy("unmanaged")))["metadata"]["uid"] == present["metadata"]["uid"]

        # Releases with one version of node images share them, and each transition is one event (D40).
        second = offer(world, "v2", IMAGES.replace("worker.qcow2", "other.qcow2"))
        await world.patch(stack, {"spec": {"versions": ["v1", "v2"]}})
        await world.says(RELEASE, second.release, "NodeImagesAsStated", "ImageDiffers", words=[used])
        await world.release_ready(second)
        shared = await world.get(NODE_IMAGE, used)
        assert {one["name"] for one in shared["metadata"]["ownerReferences"]} == {name.release, second.release}
        assert [one["reason"] for one in await world.events(provider)].count("OpenStackNodeImageReleasesReady") == 1
        assert [one["reason"] for one in await world.events(adopted)].count("OpenStackImageActive") == 1
        before = await writes(world.client)
        await world.nudge(shared)
        await world.at_rest()
        assert (await writes(world.client) - before)["APPLY images/"] == 0


@pytest.mark.regression("D39")
async def test_release_without_node_images_is_one_condition(world: World) -> None:
    world.stack = replace(world.stack, provider="openstack")
    name = offer(world, "v1", "")
    await sample(world, "v1")
    async with world.operator(providers=("openstack",)):
        words = ["has no node images", "spec.noProvider"]
        await world.says(RELEASE, name.release, "ClusterStackReleaseAssetsReady", "IssueWithReleaseAssets", words=words)


async def test_without_the_flag_the_kinds_are_left_to_the_go_provider(world: World) -> None:
    world.stack = replace(world.stack, provider="openstack")
    name = offer(world, "v1")
    await sample(world, "v1")
    async with world.operator():
        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "ProviderClusterStackReleaseReady", "ProcessOngoing")
        provider = await world.get(RELEASE, name.release)
        assert "conditions" not in provider.get("status", {})
