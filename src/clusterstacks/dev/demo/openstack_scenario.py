"""The demo of node images: a release waits until the OpenStack Resource Controller (ORC) has its image in Glance."""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.dev.demo.scenario import examples, release_ready
from clusterstacks.dev.installation import apply_in_order, read_manifests
from clusterstacks.dev.loopback import LOOPBACK
from clusterstacks.model.documents import at, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import ReleaseCondition
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.yaml import dump
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.cluster_tree import Snapshot

CLUSTER = ObjectKey("default", "imaged")
"""The Cluster of examples/openstack/cluster.yaml."""
IMAGE = b"A node image of the demo.".ljust(4 << 20)
IMAGE_NAME = "node-image-v1.35.4"
STARTED = "Starting image upload"
"""What ORC says while it downloads from a web server to Glance."""
PARTS = 16
PART_SECONDS = 0.25
"""The image is sent in parts with pauses, so that the release can be seen waiting."""


@dataclass(frozen=True, slots=True)
class OpenStackStory:
    """Result of the demo of node images."""

    glance_id: str
    """The image in Glance, whose hash is that of the served file."""
    seconds: Mapping[str, float]
    """Duration of each step by its name."""


@dataclass(frozen=True, slots=True)
class OpenStackScenario:
    """Runs the demo in a running environment; ``releases`` is the directory of the operator's releases."""

    scene: Scene
    releases: Path

    async def play(self) -> OpenStackStory:
        """Play all steps; an error names the step that was not done in time, and the reason."""
        scene = self.scene
        async with Pool() as pool, serve(IMAGE) as url:
            client = scene.management(pool)
            release = build_imaged(self.releases, url, hashlib.sha256(IMAGE).hexdigest())
            scene.say(
                "A provider offers a stack with a node image: kubectl apply -f examples/openstack/clusterstacks.yaml"
            )
            await apply_in_order(client, read_manifests(examples() / "openstack/clusterstacks.yaml"))
            await scene.until(client, "release waits", lambda seen: STARTED in _awaited(seen, release))
            scene.say(f"The release waits, since no machine could start without it: Image {IMAGE_NAME}: {STARTED}")
            await scene.until(client, "release ready", lambda seen: release_ready(seen, release))
            image = await _verified_image(client)
            scene.say(
                "The image is in Glance. A user creates a Cluster: kubectl apply -f examples/openstack/cluster.yaml"
            )
            await apply_in_order(client, read_manifests(examples() / "openstack/cluster.yaml"))
            await scene.until(client, "cluster with addons", _delivered)
        return OpenStackStory(text(image, "status", "id"), scene.seconds)


def build_imaged(releases: Path, url: str, sha256: str) -> ReleaseName:
    """Build the release of the example stack with the image at a URL."""
    with tempfile.TemporaryDirectory() as overlay:
        values = Path(overlay) / "cluster-class" / "values.yaml"
        values.parent.mkdir()
        values.write_text(dump({"image": {"name": IMAGE_NAME, "url": url, "sha256": sha256}}))
        versions = {"cluster_stack": "v1", "cluster_addon": "v1", "node_image": "v1"}
        return build_release(examples() / "stacks" / "openstack", releases, **versions, changes=Path(overlay))


@asynccontextmanager
async def serve(content: bytes) -> AsyncIterator[str]:
    """Serve a file slowly on the loopback address; yield its URL."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(len(content))})
        await response.prepare(request)
        step = len(content) // PARTS
        for start in range(0, len(content), step):
            await response.write(content[start : start + step])
            await asyncio.sleep(PART_SECONDS)
        return response

    application = web.Application()
    application.router.add_get("/image.raw", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    try:
        await web.TCPSite(runner, LOOPBACK, 0).start()
        yield f"http://{LOOPBACK}:{runner.addresses[0][1]}/image.raw"
    finally:
        await runner.cleanup()


async def _verified_image(client: Client) -> Manifest:
    """Return the Image of the release; a DependencyError if Glance has computed another hash than that of the file."""
    (image,) = (await client.list(await client.resource(*IMAGE_KIND), CLUSTER.namespace)).items
    if text(image, "status", "resource", "hash", "value") != hashlib.sha512(IMAGE).hexdigest():
        raise DependencyError("HashWrong", f"Image {text(image, 'metadata', 'name')} has another hash in Glance")
    return image


def _awaited(seen: Snapshot, release: ReleaseName) -> str:
    for found in seen.releases:
        if text(found, "metadata", "name") == release.release:
            return condition_view(found, ReleaseCondition.NODE_IMAGES_AVAILABLE).message
    return ""


def _delivered(seen: Snapshot) -> bool:
    return any(at(addon, "status", "ready") is True for addon in seen.addons)
