"""SEC-27, SEC-33: the store of releases is shared by all namespaces, but decides nothing for them."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import API_VERSION, CHARTS_ANNOTATION, DIGEST_ANNOTATION, Kind
from clusterstacks.release.contents import read_contents
from tests.integration.controllers.test_chart_dependencies import ALLOWED, depending, resolved
from tests.support.builders.stacks import publish
from tests.support.running.sources import below_the_operators_directory
from tests.support.running.world import condition_of
from tests.support.servers.chart_repository import chart_repository

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

RELEASE = Kind.CLUSTER_STACK_RELEASE


@pytest.mark.parametrize("public", [None, {"text": "public"}], ids=["not there", "other content"])
@pytest.mark.regression("SEC-33")
async def test_digest_alone_opens_no_release_of_another_source(world: World, public: dict[str, str] | None) -> None:
    name, reader = world.stack.release("v1"), await world.other_namespace()
    private = publish(world.releases / "private", name, world.stack.files("v1", {}))
    if public is not None:
        world.publish(name, depending(world, "http://127.0.0.1:1"))
    digest = read_contents(name, private).digest
    async with world.operator(namespace=""):
        source = below_the_operators_directory(directory={"path": "private"})
        await world.create(world.stack.manifest(world.namespace, "v1", source=source))
        await world.release_ready(name)

        await world.create(_pinned(name.release, reader, digest))
        words = ["is not in" if public is None else digest]
        await world.says(RELEASE, name.release, "ClusterStackReleaseDownloaded", words=words, namespace=reader)
        assert await world.find("ClusterClass", name.class_name, reader) is None


@pytest.mark.regression("SEC-33")
async def test_digest_is_used_if_the_source_of_the_namespace_has_it(world: World) -> None:
    name, reader = world.stack.release("v1"), await world.other_namespace()
    digest = read_contents(name, world.publish(name, world.stack.files("v1", {}))).digest
    async with world.operator(namespace=""):
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)

        await world.create(_pinned(name.release, reader, digest))
        await world.until(RELEASE, name.release, partial(_downloaded, digest), namespace=reader)


@pytest.mark.regression("SEC-27")
async def test_chart_versions_of_another_namespace_decide_nothing(world: World) -> None:
    name, other = world.stack.release("v1"), await world.other_namespace()
    async with chart_repository() as charts, world.operator(namespace="", chart_repositories=ALLOWED):
        charts.add("part", "1.0.0")
        world.publish(name, depending(world, charts.url))
        await world.create(world.stack.manifest(other, "v1"))
        await world.until(RELEASE, name.release, resolved, namespace=other)
        charts.add("part", "1.2.0")

        await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.until(RELEASE, name.release, resolved)
        (pin,) = json.loads(release["metadata"]["annotations"][CHARTS_ANNOTATION])
        assert pin["version"] == "1.2.0"


def _downloaded(digest: str, release: Manifest) -> bool:
    downloaded = condition_of(release, "ClusterStackReleaseDownloaded").get("status") == "True"
    return downloaded and release["status"].get("digest") == digest


def _pinned(name: str, namespace: str, digest: str) -> Manifest:
    metadata = {"name": name, "namespace": namespace, "annotations": {DIGEST_ANNOTATION: digest}}
    return {"apiVersion": API_VERSION, "kind": RELEASE, "metadata": metadata, "spec": {}}
