"""Faults of sources are reported, heal, and do not affect clusters or other stacks."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import DIGEST_ANNOTATION, Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.release.sources import periodic_listing
from tests.support.builders.remote_repositories import repository
from tests.support.builders.stacks import config_map, templates
from tests.support.fakes.github import OWNER, REPOSITORY, GitHubDouble
from tests.support.observing.write_counter import writes
from tests.support.running.sources import following, secret
from tests.support.running.world import LOOKING_OFTEN, attempts, condition_of, is_ready
from tests.support.servers.cutting_proxy import CuttingProxy
from tests.support.servers.registries import running_registry
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer


@asynccontextmanager
async def hanging() -> AsyncIterator[str]:
    """Run a server that takes every connection and never says a word."""
    ends: list[asyncio.StreamWriter] = []

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
        for writer in ends:
            writer.transport.abort()


def says_of_source(manifest: Manifest) -> Manifest:
    return condition_of(manifest, "SourceUnchanged")


async def test_unavailable_registry_is_reported_and_does_not_affect_clusters(world: World, tmp_path: Path) -> None:
    first, second = (world.stack.release(version) for version in ("v1", "v2"))
    addons = {"cni": templates(config_map(world.namespace, text="hello"))}
    with running_registry(tmp_path) as server:
        async with repository(world, server) as remote, world.operator(allowed_sources=remote.allowed):
            await remote.publish(first, world.stack.files("v1", addons))
            await world.create(following(world, remote.source()))
            await world.release_ready(first)
            server.stop()

            found = await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", "FailedToSync")
            assert server.host in found["message"]
            await world.cluster("one", first.class_name)
            await world.shows(world.namespace, {"text": "hello"})
            assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, first.release))

            server.launch()
            await remote.publish(second, world.stack.files("v2", addons))
            await world.until(Kind.CLUSTER_STACK_RELEASE, second.release, is_ready)


async def test_hanging_source_does_not_delay_other_stacks(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic_listing, "DEADLINE", timedelta(seconds=1))
    async with hanging() as host, world.operator(allowed_sources=AllowedHosts.parse(host)):
        versions = [f"v{number}" for number in range(1, 13)]  # more than reconciles run at a time
        place = {"oci": {"repository": f"{host}/stacks", "plainHTTP": True}, "interval": "1s"}
        await world.create({**world.stack.manifest(world.namespace, *versions, autoSubscribe=True, source=place)})
        await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=["within"])
        name = world.stack.release("v1").release
        await world.says(Kind.CLUSTER_STACK_RELEASE, name, "ClusterStackReleaseDownloaded", words=[host])

        await world.another_is_ready()


async def test_repeatedly_interrupted_download_completes(world: World, registry: RegistryServer) -> None:
    name = world.stack.release("v1")
    large = config_map(world.namespace, text="hello", ballast=random.Random(1).randbytes(100_000).hex())
    async with repository(world, registry) as remote, CuttingProxy.started(registry.host) as proxy:
        await remote.publish(name, world.stack.files("v1", {"cni": templates(large)}))
        proxy.cuts = [40_000] * 9
        place = {"oci": {"repository": remote.place.replace(registry.host, proxy.host)}, "interval": "1s"}
        async with world.operator(allowed_sources=AllowedHosts.parse(proxy.host)):
            await world.create(following(world, place))
            await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready)

            assert proxy.broken > 0
            assert [path for path in world.cache.iterdir() if path.name.startswith(".staging")] == []


async def test_rate_limited_source_is_not_asked_until_the_given_time(world: World) -> None:
    name = world.stack.release("v1")
    async with GitHubDouble.started() as github:
        github.add(name.release, world.stack.files("v1", {}))
        github.remaining, github.reset = 0, int(time.time()) + 8
        async with world.operator(allowed_sources=AllowedHosts.parse("*:*")):
            place = {"owner": OWNER, "repository": REPOSITORY, "url": github.url}
            await world.create(following(world, {"github": place, "interval": "1s"}))
            await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=["too many requests"])
            asked = len(github.requests)
            github.remaining = 100
            await world.release_ready(name)

            assert github.times[asked] >= github.reset - 1  # the interval is shorter than the rest of the limit


async def test_revoked_credentials_are_reported_and_existing_releases_stay_usable(
    world: World, secure_registry: RegistryServer
) -> None:
    name = world.stack.release("v1")
    addons = {"cni": templates(config_map(world.namespace, text="hello"))}
    login = {"username": secure_registry.username, "password": secure_registry.password}
    async with repository(world, secure_registry) as remote, world.operator(allowed_sources=remote.allowed):
        await remote.publish(name, world.stack.files("v1", addons))
        await secret(world, "ca", {"ca.crt": secure_registry.ca})
        await secret(world, "login", login)
        named = {"credentials": {"secretName": "login"}, "ca": {"secretName": "ca"}}
        await world.create(following(world, remote.source(**named)))
        await world.release_ready(name)
        await secret(world, "login", {**login, "password": "revoked"})

        found = await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=["401", "credentials"])
        assert "revoked" not in found["message"]
        await world.cluster("one", name.class_name)
        await world.shows(world.namespace, {"text": "hello"})
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))


async def test_lost_release_store_is_restored_from_the_source_of_each_release(world: World, tmp_path: Path) -> None:
    name = world.stack.release("v1")
    addons = {"cni": templates(config_map(world.namespace, text="hello"))}
    with running_registry(tmp_path) as server:
        async with repository(world, server) as remote:
            await remote.publish(name, world.stack.files("v1", addons))
            async with world.operator(allowed_sources=remote.allowed):
                await world.create(following(world, remote.source()))
                await world.release_ready(name)
            shutil.rmtree(world.cache)
            server.stop()

            async with world.operator(allowed_sources=remote.allowed):
                await world.cluster("one", name.class_name)
                addon = "cluster-addon-one"
                found = await world.says(Kind.CLUSTER_ADDON, addon, "HelmChartFound", words=[server.host])
                assert found["reason"] == "HelmChartMissing"
                assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))
                server.launch()
                await world.until(Kind.CLUSTER_ADDON, addon, is_ready, nudging=True)
                await world.shows(world.namespace, {"text": "hello"})


@pytest.mark.usefixtures("watchful")
async def test_restart_lists_the_source_and_writes_nothing(world: World, registry: RegistryServer) -> None:
    name = world.stack.release("v1")
    async with repository(world, registry) as remote:
        await remote.publish(name, world.stack.files("v1", {}))
        async with world.operator(allowed_sources=remote.allowed):
            await world.create(following(world, remote.source()))
            await world.release_ready(name)
            await world.until(
                Kind.CLUSTER_STACK, world.namespace, lambda one: condition_of(one, "Ready").get("status") == "True"
            )
        before = await writes(world.client)
        async with world.operator(allowed_sources=remote.allowed) as operator:

            async def looked() -> bool:
                return attempts(operator, "clusterstackrelease") > 3

            await eventually(looked, about="several looks at the source")
            assert await writes(world.client) == before


@pytest.mark.usefixtures("watchful")
async def test_moved_tag_is_reported_once_and_changes_nothing(world: World, registry: RegistryServer) -> None:
    name = world.stack.release("v1")
    addons = {"cni": templates(config_map(world.namespace, text="hello"))}
    other = {"cni": templates(config_map(world.namespace, text="hacked"))}
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed) as operator:
        await remote.publish(name, world.stack.files("v1", addons))
        await world.create(following(world, remote.source()))
        pinned = (await world.release_ready(name))["metadata"]["annotations"][DIGEST_ANNOTATION]
        await remote.replace(name, world.stack.files("v1", other))

        found = await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "SourceUnchanged", "TagMoved", words=[pinned]
        )
        assert found["severity"] == "Warning"
        before = attempts(operator, "clusterstackrelease")

        async def looked() -> bool:
            return attempts(operator, "clusterstackrelease") > before + 3

        await eventually(looked, about="several more looks")
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert is_ready(release)
        assert release["metadata"]["annotations"][DIGEST_ANNOTATION] == release["status"]["digest"] == pinned
        events = [one for one in await world.events(release) if one["reason"] == "TagMoved"]
        assert [one["type"] for one in events] == ["Warning"]
        await world.cluster("one", name.class_name)
        await world.shows(world.namespace, {"text": "hello"})

        await remote.replace(name, world.stack.files("v1", addons))
        await world.until(
            Kind.CLUSTER_STACK_RELEASE, name.release, lambda one: says_of_source(one).get("status") == "True"
        )


@pytest.mark.usefixtures("watchful")
async def test_release_missing_in_its_source_is_reported_and_kept(world: World) -> None:
    name = world.stack.release("v1")
    directory = world.publish(name, world.stack.files("v1", {}))
    async with world.operator(source=LOOKING_OFTEN):
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        shutil.rmtree(directory)

        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "SourceUnchanged", "ReleaseGone", words=["publish"])
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))


@pytest.mark.usefixtures("watchful")
async def test_changed_source_does_not_change_a_pinned_release(world: World, registry: RegistryServer) -> None:
    name = world.stack.release("v1")
    addons = {"cni": templates(config_map(world.namespace, text="hello"))}
    other = {"cni": templates(config_map(world.namespace, text="other"))}
    world.publish(name, world.stack.files("v1", addons))
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed):
        await remote.publish(name, world.stack.files("v1", other))
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.patch(stack, {"spec": {"source": remote.source()}})

        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "SourceUnchanged", "TagMoved", words=[remote.place])
        await world.cluster("one", name.class_name)
        await world.shows(world.namespace, {"text": "hello"})
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))
