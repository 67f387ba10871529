"""USER-10: one reason for one cause on both objects, with object, cause and remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import CLUSTER_KIND, Kind
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.world import LOOKING_OFTEN

if TYPE_CHECKING:
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("USER-10")

ADDON = "cluster-addon-one"


@pytest.mark.regression("USER-10")
async def test_misspelt_key_in_a_stage_condition_is_reported_on_both_objects(
    world: World,
) -> None:
    word, name = world.namespace, world.stack.release("v1")
    watched = {"apiVersion": "v1", "kind": "ConfigMap", "name": word, "namespace": "kube-system", "key": "info"}
    check = {"objects": [watched], "conditions": 'info.data.clusterNam == "one"'}
    hooks = {"AfterControlPlaneInitialized": [stage(word, waitForPostCondition=check)]}
    chart = templates(config_map(word, clusterName="one"))
    world.publish(name, world.stack.files("v1", {word: chart}, hooks=hooks))
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1"))
        await world.release_ready(name)
        await world.cluster("one", name.class_name)
        reason = "FailedToEvaluatePostCondition"
        found = await world.says(Kind.CLUSTER_ADDON, ADDON, "Ready", reason)
        mirrored = await world.says(CLUSTER_KIND, "one", "ClusterStackAddonsReady", reason)

    assert mirrored["message"] == found["message"]
    assert found["message"] == (
        f"stage {word} of {name} (info is ConfigMap kube-system/{word}), condition "
        "'info.data.clusterNam == \"one\"': info.data has no key 'clusterNam', only 'clusterName': write 'clusterName'"
        ", or wait until the objects change"
    )


@pytest.mark.regression("USER-10")
async def test_misspelt_stack_is_reported_with_similar_names_of_the_source(world: World) -> None:
    world.publish(world.stack.release("v1"), world.stack.files("v1", {}))
    misspelt = f"{world.stack.word}x"
    async with world.operator(source=LOOKING_OFTEN):
        manifest = world.stack.manifest(world.namespace, name=misspelt, autoSubscribe=True)
        stack = await world.create(manifest)
        found = await world.says(Kind.CLUSTER_STACK, world.stack.word, "Ready", "NoReleaseReady", words=["similar"])
        told = await world.events(stack)

    assert f"has no release local-{misspelt}-1-35-* on channel custom" in found["message"]
    assert f"similar: local-{world.stack.word}-1-35; publish one, or correct provider, name," in found["message"]
    assert found["severity"] == "Warning"
    assert found["message"] in [event["message"] for event in told if event["type"] == "Warning"]
