"""The demo of node images: a release waits until the OpenStack Resource Controller (ORC) has its images in Glance.

One is downloaded from a web server. The stack builds the other one, which the operator serves to ORC.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import subprocess
import sys
import tempfile
import textwrap
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.dev.demo.scenario import examples, release_ready
from clusterstacks.dev.installation import apply_in_order, read_manifests
from clusterstacks.dev.loopback import LOOPBACK
from clusterstacks.model.documents import at, text
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.cluster_conditions import condition_view
from clusterstacks.model.kinds.names import ReleaseCondition
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import ObjectKey
from clusterstacks.model.yaml import dump
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from clusterstacks.dev.demo.await_state import Scene
    from clusterstacks.net.kube.client import Client
    from clusterstacks.plan.clusters.cluster_tree import Snapshot

CLUSTER = ObjectKey("default", "imaged")
"""The Cluster of examples/openstack/cluster.yaml."""
IMAGE = b"A node image of the demo.".ljust(4 << 20)
IMAGE_NAME, BUILT_NAME = "node-image-v1.35.4", "worker-image-v1.35.4"
"""The image at a URL, and the one that the stack builds."""
BUILT = "node-images/worker.raw"
RELEASE = parse_release("openstack-demo-1-35-v1")
STARTED = "Starting image upload"
"""What ORC says while it downloads from a web server to Glance."""
PARTS = 16
PART_SECONDS = 0.25
"""The image is sent in parts with pauses, so that the release can be seen waiting."""


@dataclass(frozen=True, slots=True)
class OpenStackStory:
    """Result of the demo of node images."""

    built: str
    """The id in Glance of the image that the stack has built."""
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
            built = await asyncio.to_thread(self._create, url)
            scene.say("A provider offers the stack: kubectl apply -f examples/openstack/clusterstacks.yaml")
            await apply_in_order(client, read_manifests(examples() / "openstack/clusterstacks.yaml"))
            await scene.until(client, "release waits", lambda seen: STARTED in _awaited(seen))
            scene.say(f"The release waits, since no machine could start without it: Image {IMAGE_NAME}: {STARTED}")
            await scene.until(client, "release ready", lambda seen: release_ready(seen, RELEASE))
            await _uploaded(client, IMAGE_NAME, IMAGE)
            identity = await _uploaded(client, BUILT_NAME, built)
            scene.say("Both are in Glance. A user creates a Cluster: kubectl apply -f examples/openstack/cluster.yaml")
            await apply_in_order(client, read_manifests(examples() / "openstack/cluster.yaml"))
            await scene.until(client, "cluster with addons", _delivered)
        return OpenStackStory(identity, scene.seconds)

    def _create(self, url: str) -> bytes:
        """Build an image and the release as the author of the stack does; return the content of the image."""
        with tempfile.TemporaryDirectory() as scratch:
            stack = Path(scratch, "stack")
            shutil.copytree(examples() / "stacks/openstack", stack)
            values = {"image": {"name": IMAGE_NAME, "url": url, "sha256": hashlib.sha256(IMAGE).hexdigest()}}
            (stack / "cluster-class/values.yaml").write_text(dump(values))
            self._run(stack, "The author of a stack builds a node image", "build-images")
            self._run(stack, "and creates a release with it", "create", "--remote=none", f"--output={self.releases}")
            return (stack / BUILT).read_bytes()

    def _run(self, stack: Path, what: str, verb: str, *options: str) -> None:
        command = [str(Path(sys.executable).with_name("csctl")), verb, stack.name, *options]
        done = subprocess.run(
            command, cwd=stack.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        shown = textwrap.indent(done.stdout.rstrip(), "  ")
        if done.returncode:
            raise DependencyError("ReleaseNotCreated", f"csctl {verb} failed:\n{shown}")
        self.scene.say(f"{what}: csctl {verb}\n{shown}")


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


async def _uploaded(client: Client, name: str, content: bytes) -> str:
    """Return the id of an image; a DependencyError if Glance has computed another hash than that of its content."""
    image = await client.get(await client.resource(*IMAGE_KIND), name, CLUSTER.namespace)
    if text(image, "status", "resource", "hash", "value") != hashlib.sha512(content).hexdigest():
        raise DependencyError("HashWrong", f"Image {name} has another hash in Glance")
    return text(image, "status", "id")


def _awaited(seen: Snapshot) -> str:
    found = next((one for one in seen.releases if text(one, "metadata", "name") == RELEASE.release), {})
    return condition_view(found, ReleaseCondition.NODE_IMAGES_AVAILABLE).message


def _delivered(seen: Snapshot) -> bool:
    return any(at(addon, "status", "ready") is True for addon in seen.addons)
