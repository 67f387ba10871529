"""Applying the class chart of a release."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import AsyncMock

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.node_images import read_node_images
from clusterstacks.model.kinds.names import API_VERSION
from clusterstacks.model.names import parse_release
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.controllers.clusterstackrelease.class_objects import apply_class_chart
from clusterstacks.operator.controllers.status_reconciler import StatusPatch
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.model.files.node_images import NodeImages
    from clusterstacks.model.objects import Manifest

NAME = "openstack-scs-1-35-v0-beta-2"


class ChartOf:
    """Renders these objects for any chart."""

    def __init__(self, *manifests: Manifest) -> None:
        self.manifests = list(manifests)

    async def chart(self, _: object) -> list[Manifest]:
        return self.manifests


def cluster_class(name: str) -> Manifest:
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": name}}


def release_with(images: NodeImages | None) -> SimpleNamespace:
    return SimpleNamespace(
        name=parse_release(NAME),
        class_chart=lambda: b"",
        metadata=SimpleNamespace(kubernetes=SimpleNamespace(text="v1.35.4")),
        node_images=lambda: images,
    )


@pytest.mark.parametrize("classes", [(), (NAME,)])
async def test_class_chart_without_its_class_is_rejected_before_anything_is_applied(
    classes: tuple[str, ...],
) -> None:
    api, release = FakeApi(), release_with(None)
    patch = StatusPatch({"metadata": {"name": NAME, "namespace": "stacks"}})
    renderer = ChartOf(*map(cluster_class, classes))

    with pytest.raises(SpecError, match=r"renders no ClusterClass openstack-scs-1-35-v0-beta\.2"):
        await apply_class_chart(patch, cast("Any", release), cast("Any", renderer), api, (), AsyncMock())

    assert {verb for verb, _ in api.calls} <= {"resource"}
    assert "resources" not in patch.status


CLASSES = Resource("cluster.x-k8s.io", "v1beta2", "ClusterClass", "clusterclasses", namespaced=True)
IMAGES = Resource("openstack.k-orc.cloud", "v1alpha1", "Image", "images", namespaced=True)
SERVED = "http://operator.example.org/images/token"
PROVIDER = {"apiVersion": "x/v1", "kind": "OpenStackClusterStackRelease", "name": NAME}


class ApplyingApi(FakeApi):
    gone: Resource | None = None
    """A resource whose definition was deleted after discovery."""

    async def apply(self, resource: Resource, manifest: Manifest, **_: Any) -> Manifest:
        if resource == self.gone:
            raise KindNotServed("404 NotFound: the server could not find the requested resource")
        return await self.create(resource, manifest, manifest["metadata"]["namespace"])


async def applied(
    options: Manifest, *kinds: Resource, gone: Resource | None = None, **spec: Any
) -> tuple[StatusPatch, FakeApi]:
    api = ApplyingApi(CLASSES, *kinds)
    api.gone = gone
    entry = {
        "url": "https://images.example.org/node.qcow2",
        "createOpts": {"name": "Node", "disk_format": "qcow2", "container_format": "bare"},
        **options,
    }
    listed = {"apiVersion": "openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1", "openStackNodeImages": [entry]}
    release = release_with(read_node_images(listed, "openstack"))
    renderer = ChartOf(cluster_class("openstack-scs-1-35-v0-beta.2"))
    manifest = {"apiVersion": API_VERSION, "kind": "ClusterStackRelease", "spec": spec}
    patch = StatusPatch({**manifest, "metadata": {"name": NAME, "namespace": "stacks"}})
    await apply_class_chart(patch, cast("Any", release), cast("Any", renderer), api, (), AsyncMock(return_value=SERVED))
    return patch, api


async def test_images_of_the_release_are_objects_of_the_class() -> None:
    patch, api = await applied({"checksum": f"sha256:{'a' * 64}"}, IMAGES)

    assert {key.name for key in api.objects(IMAGES)} == {"node"}
    assert [one["name"] for one in patch.status["resources"]] == ["openstack-scs-1-35-v0-beta.2", "node"]
    assert patch.holds("HelmChartApplied")
    assert patch.holds("NodeImagesAsStated")


async def test_file_of_the_release_has_the_url_of_the_operator_and_is_listed() -> None:
    digest = f"sha256:{'a' * 64}"
    patch, api = await applied({"url": "artifact:node.qcow2", "checksum": digest}, IMAGES)

    (image,) = api.objects(IMAGES).values()
    assert image["spec"]["resource"]["content"]["download"]["url"] == SERVED
    assert patch.status["nodeImageFiles"] == [digest]
    assert patch.holds("NodeImagesAsStated")


async def test_provider_object_makes_the_images_itself() -> None:
    patch, api = await applied({}, IMAGES, providerRef=PROVIDER)

    assert not api.objects(IMAGES)
    assert patch.holds("HelmChartApplied")
    assert patch.condition("NodeImagesAsStated") is None


@pytest.mark.parametrize(("kinds", "gone"), [((), None), ((IMAGES,), IMAGES)])
async def test_missing_controller_of_images_is_named(kinds: tuple[Resource, ...], gone: Resource | None) -> None:
    patch, _ = await applied({}, *kinds, gone=gone)

    condition = patch.condition("HelmChartApplied")
    assert condition is not None
    assert "Image.openstack.k-orc.cloud stacks/node" in condition.message
    assert condition.message.endswith("; install the OpenStack Resource Controller (ORC), which makes node images")


@pytest.mark.parametrize(
    ("options", "reason", "words"),
    [
        ({}, "ImageNotVerified", "no hash verifies the download of Image node: publish a release with another"),
        (
            {
                "checksum": f"sha256:{'a' * 64}",
                "createOpts": {"name": "n", "disk_format": "raw", "container_format": "bare", "os_hidden": True},
            },
            "PropertyNotSupported",
            "openStackNodeImages[0].createOpts.os_hidden: ORC has no field for this",
        ),
    ],
)
async def test_release_says_what_is_uncertain_about_its_images(options: Manifest, reason: str, words: str) -> None:
    patch, _ = await applied(options, IMAGES)

    condition = patch.condition("NodeImagesAsStated")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", reason)
    assert words in condition.message
