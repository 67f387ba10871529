"""D77: one operator had one source; two ClusterStacks may have two independent ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from tests.support.builders.remote_repositories import repository
from tests.support.builders.stacks import TinyStack
from tests.support.fakes.github import OWNER, REPOSITORY, GitHubDouble
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from typing import Any

    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

pytestmark = pytest.mark.regression("D77")


@pytest.mark.regression("D77")
async def test_two_cluster_stacks_follow_two_sources(world: World, registry: RegistryServer) -> None:
    one, other = TinyStack(f"{world.namespace}one"), TinyStack(f"{world.namespace}other")

    def following(stack: TinyStack, source: dict[str, Any]) -> dict[str, Any]:
        return stack.manifest(world.namespace, autoSubscribe=True, channel="stable", source=source)

    async with GitHubDouble.started() as github, repository(world, registry) as remote:
        allowed = AllowedHosts.parse(f"{remote.place},{github.url.split('/')[2]}/{OWNER}")
        async with world.operator(allowed_sources=allowed):
            place = {"owner": OWNER, "repository": REPOSITORY, "url": github.url}
            await world.create(following(one, remote.source()))
            await world.create(following(other, {"github": place, "interval": "1s"}))
            await remote.publish(one.release("v1"), one.files("v1", {}))
            github.add(other.release("v1").release, other.files("v1", {}))

            for name in (one.release("v1"), other.release("v1")):
                await world.release_ready(name)

            github.remaining = 0
            await remote.publish(one.release("v2"), one.files("v2", {}))
            await world.says(Kind.CLUSTER_STACK, other.word, "ReleasesSynced", words=["too many requests"])
            await world.release_ready(one.release("v2"))
            assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, other.release("v1").release))
