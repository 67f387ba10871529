"""LIVE-L7: the wait after a rollback ends with the addons of the old class."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, CLUSTER_KIND
from tests.support.builders.stacks import config_map, stage, templates
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("LIVE-L7")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.regression("LIVE-L7")
async def test_wait_after_a_rollback_ends_with_the_addons_of_the_old_class(world: World) -> None:
    word, first, second = world.namespace, world.stack.release("v1"), world.stack.release("v2")
    hooks = {"AfterControlPlaneInitialized": [stage("cni"), stage("csi")]}
    for name, broken in ((first, ""), (second, '{{ fail "not today" }}')):
        charts = {
            "cni": templates(config_map(word, release=name.release)),
            "csi": {"templates/all.yaml": broken},
        }
        world.publish(name, world.stack.files(str(name.version), charts, hooks=hooks))
    kubectl = Kubectl(world.management_kubeconfig, word)
    wait = ["wait", "cluster", "one", f"--for=condition={ADDONS_READY_CONDITION}"]
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", "v2"))
        await world.release_ready(first)
        await world.release_ready(second)
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        await world.set_class("one", second.class_name)
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=["not today"])
    await world.shows(word, {"release": second.release})
    await world.set_class("one", first.class_name)
    recorded = (await world.addon("one"))["spec"]["clusterStack"]
    early = await asyncio.to_thread(kubectl.tried, *wait, "--timeout=1s")
    async with world.operator():
        late = await asyncio.to_thread(kubectl.tried, *wait, "--timeout=120s")
        content = await world.delivered(word)

    assert recorded == first.class_name  # what the wait of the finding looked at: the failed roll had not moved it
    assert early.returncode
    assert "condition met" in late.stdout
    assert content is not None
    assert content["data"] == {"release": first.release}


@pytest.mark.regression("LIVE-L7")
def test_no_documentation_page_waits_for_a_class_after_a_failed_rollout() -> None:
    pages = {str(page): page.read_text() for page in DOCS.rglob("*.md")}

    assert not [page for page, text in pages.items() if "jsonpath={.spec.clusterStack}" in text]
