"""D57: every foreign tag caused a Warning event, and every ClusterStack listed the source itself."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.allowlist import AllowedHosts
from tests.support.builders.stacks import TinyStack
from tests.support.fakes.github import OWNER, REPOSITORY, GitHubDouble
from tests.support.running.world import attempts
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("D57")


@pytest.mark.regression("D57")
async def test_foreign_tags_are_skipped_and_all_stacks_share_one_listing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    stacks = [TinyStack(f"{world.namespace}{letter}") for letter in "abcd"]
    async with GitHubDouble.started() as github:
        for number in range(250):
            github.add(f"v0.{number}.0", {})
        for stack in stacks:
            github.add(stack.release("v1").release, stack.files("v1", {}))
        place = {"owner": OWNER, "repository": REPOSITORY, "url": github.url}
        source = {"github": place, "interval": "24h"}  # one listing, however long the test takes
        async with world.operator(allowed_sources=AllowedHosts.parse("*:*")) as operator:
            made = [
                await world.create(stack.manifest(world.namespace, autoSubscribe=True, channel="stable", source=source))
                for stack in stacks
            ]
            for stack in stacks:
                await world.release_ready(stack.release("v1"))
            passes = attempts(operator, "clusterstack")
            for manifest in made:
                await world.nudge(manifest)

            async def passed_again() -> bool:
                return attempts(operator, "clusterstack") >= passes + len(stacks)

            await eventually(passed_again, about="another pass of every ClusterStack")

        pages = [request for request in github.requests if request.path.endswith("/releases")]
        assert len(pages) == 3
        for manifest in made:
            events = await world.events(manifest)
            assert [event for event in events if event["type"] == "Warning"] == []
        assert "v0.1.0" not in caplog.text
        assert [record for record in caplog.records if record.levelno > logging.INFO] == []
