"""SEC-9 to SEC-11: no chart past a signature, no place past a bound, no Secret that is not meant for a source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.api.names import Kind
from clusterstacks.releases.contents import survey
from tests.integration.controllers.test_chart_dependencies import ALLOWED, depending, resolved
from tests.integration.controllers.test_signatures import below_the_operators_directory, trusting
from tests.integration.controllers.test_sources import following
from tests.support.chart_repository import chart_repository
from tests.support.operating import condition_of, is_unready
from tests.support.signing import ecdsa_key, signed

if TYPE_CHECKING:
    from clusterstacks.domain.names import ReleaseName
    from tests.support.operating import World

OURS = ecdsa_key("ours")


def publish_signed(world: World, name: ReleaseName, files: dict[str, bytes]) -> None:
    directory = world.publish(name, files)
    envelope = signed(OURS, name=name, files=survey(name, directory).files)
    directory.with_name(f"{name}.dsse.json").write_bytes(envelope)


async def test_sec_9_a_signed_release_that_lacks_charts_is_refused_before_they_are_fetched(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts, world.operator(chart_repositories=ALLOWED):
        charts.add("part", "1.0.0")
        publish_signed(world, name, depending(world, charts.url))
        source = below_the_operators_directory(verification=trusting(OURS))
        await world.create(world.stack.manifest(world.namespace, "v1", source=source))

        words = ["no signature covers", "cluster-addon/cni needs part", charts.url, "csctl create"]
        await world.says(
            Kind.CLUSTER_STACK_RELEASE, name.release, "SignatureVerified", "SignatureRequired", words=words
        )
        assert charts.asked == []
        assert await world.find("ClusterClass", name.class_name) is None


async def test_sec_9_with_a_warning_such_a_release_is_used_and_it_is_said(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts, world.operator(chart_repositories=ALLOWED):
        charts.add("part", "1.0.0")
        publish_signed(world, name, depending(world, charts.url))
        source = below_the_operators_directory(verification=trusting(OURS, policy="Warn"))
        await world.create(following(world, source))

        release = await world.release_ready(name)
        assert resolved(release)
        assert condition_of(release, "SignatureVerified")["reason"] == "NotSigned"
        assert "no signature covers" in condition_of(release, "SignatureVerified")["message"]


async def test_sec_9_signatures_that_are_asked_for_later_do_not_cover_charts_of_before(world: World) -> None:
    name = world.stack.release("v1")
    async with chart_repository() as charts, world.operator(chart_repositories=ALLOWED):
        charts.add("part", "1.0.0")
        publish_signed(world, name, depending(world, charts.url))
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)

        source = below_the_operators_directory(verification=trusting(OURS))
        await world.patch(stack, {"spec": {"source": source}})

        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_unready)
        await world.shows(world.namespace, {"text": "hello"})
