"""Node images from the author's registry over a mirror to ORC, which the test plays, with the operator in between."""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.dev.loopback import free_port
from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.release_source import image_file
from clusterstacks.release.sources.oci_copy import copy
from tests.support.builders.remote_repositories import repository
from tests.support.builders.signatures import ecdsa_key
from tests.support.running.sources import following, trusting
from tests.support.servers.registries import running_registry
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

CONTENT = os.urandom(32 * 1024 * 1024)
"""More than sockets buffer, so that a broken source is noticed in the middle."""

DIGEST = f"sha256:{sha256(CONTENT).hexdigest()}"
GROUP, KIND = IMAGE_KIND


def offer(world: World, releases: Path) -> tuple[ReleaseName, dict[str, bytes]]:
    """Return a release with one image, whose file is put beside the releases."""
    file = image_file(releases, DIGEST)
    file.parent.mkdir(parents=True)
    file.write_bytes(CONTENT)
    world.stack = replace(world.stack, provider="openstack")
    options = {"name": "node", "disk_format": "qcow2", "container_format": "bare"}
    image = {"url": "artifact:node.qcow2", "checksum": DIGEST, "createOpts": options}
    api = "openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1"
    listed = json.dumps({"apiVersion": api, "openStackNodeImages": [image]}).encode()
    return world.stack.release("v1"), world.stack.files("v1", {}) | {"node-images.yaml": listed}


def serving(world: World) -> dict[str, Any]:
    """Return the settings of an operator that serves images."""
    port = free_port()
    return {
        "node_image_address": ("127.0.0.1", port),
        "node_image_url": f"http://127.0.0.1:{port}",
        "operator_namespace": world.namespace,
    }


async def read(url: str, wanted: str = "") -> tuple[int, bytes]:
    headers = {"Range": wanted} if wanted else {}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        return response.status, await response.read()


async def answers(url: str, status: int) -> None:
    """Wait until the server answers a request for one byte with a status."""

    async def look() -> bool:
        with suppress(aiohttp.ClientConnectorError):  # it starts
            return (await read(url, "bytes=0-0"))[0] == status
        return False

    await eventually(look, about=f"status {status}")


async def the_image(world: World) -> Manifest:
    async def look() -> Manifest | None:
        return await world.find(KIND, "node", group=GROUP)

    return await eventually(look, about="the Image")


async def url_of_the_image(world: World) -> str:
    return text(await the_image(world), "spec", "resource", "content", "download", "url")


async def test_image_is_served_to_its_image_only_while_its_release_is_verified(
    world: World, registry: RegistryServer, tmp_path: Path
) -> None:
    with running_registry(tmp_path) as mirror:
        async with repository(world, registry) as remote, HTTPClient(plain_http=True, environ={}) as web:
            name, files = offer(world, remote.root)
            await remote.publish(name, files)
            target = Registry(web, Reference(mirror.host, "mirror"), plain_http=True)
            await copy(remote.registry, name.release, target, name.release)
        stack = await world.create(following(world, {"oci": {"repository": f"{mirror.host}/mirror"}, "interval": "1s"}))
        settings = {"allowed_sources": AllowedHosts.parse(mirror.host), **serving(world)}
        async with aiohttp.ClientSession() as session, AsyncExitStack() as running:
            await running.enter_async_context(world.operator(**settings))
            url = await url_of_the_image(world)
            assert await read(url) == (200, CONTENT)
            assert await read(url, "bytes=1000-2000000") == (206, CONTENT[1000:2000001])
            token = url.split("/")[4]
            assert await read(url.replace(token, "0" * len(token))) == (404, b"")

            await loses_its_registry(url, mirror)
            assert await read(url, "bytes=-1000") == (206, CONTENT[-1000:])

            await world.patch(stack, {"spec": {"source": {"verification": trusting(ecdsa_key("other"))}}})
            await answers(url, 404)
            await world.patch(stack, {"spec": {"source": {"verification": None}}})
            await answers(url, 206)

            async with session.get(url) as unfinished:
                await unfinished.content.readexactly(1000)
                async with asyncio.timeout(60):
                    await running.aclose()
                    with pytest.raises(aiohttp.ClientPayloadError):
                        await unfinished.read()


async def loses_its_registry(url: str, mirror: RegistryServer) -> None:
    """Stop the registry while an image is read, and then before one is."""
    async with asyncio.timeout(60), aiohttp.ClientSession() as session, session.get(url) as response:
        await response.content.readexactly(1024 * 1024)
        await asyncio.to_thread(mirror.stop)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()
    async with asyncio.timeout(60):
        with pytest.raises(aiohttp.ServerDisconnectedError):  # no answer that ORC could take for an image
            await read(url)
    await asyncio.to_thread(mirror.launch)


async def test_url_of_an_image_stays_when_the_server_is_restarted_or_gets_another_one(world: World) -> None:
    name, files = offer(world, world.releases)
    world.publish(name, files)
    await world.create(world.stack.manifest(world.namespace, "v1"))
    async with world.operator():
        found = await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "HelmChartApplied", words=["--node-image-bind-address"]
        )
        assert "nodeImages.enabled=true" in found["message"]

    settings = serving(world)
    async with world.operator(**settings):
        url = await url_of_the_image(world)
        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "NodeImagesAvailable", "NodeImagesPending")
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert release["status"]["nodeImageFiles"] == [DIGEST]

    async with world.operator(**settings | {"node_image_url": "http://elsewhere.example.org"}):
        await answers(url, 206)
        await world.patch(await the_image(world), {"spec": {"cloudCredentialsRef": {"cloudName": "another"}}})

        async def is_restored() -> bool:
            return any(event["reason"] == "ClassObjectsRestored" for event in await world.events(release))

        await eventually(is_restored, about="the edited Image")
        assert (await the_image(world))["spec"]["cloudCredentialsRef"]["cloudName"] == "openstack"
        assert await url_of_the_image(world) == url  # ORC refuses another one
