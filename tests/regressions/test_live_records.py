"""The message about an unreadable delivery record has every command of the repair."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.apply.record_store import SECRETS
from clusterstacks.model.kinds.names import Kind
from tests.support.builders.stacks import config_map, templates

if TYPE_CHECKING:
    from tests.support.running.world import World

ADDON = "cluster-addon-one"


@pytest.mark.regression("LIVE-L1")
async def test_unreadable_record_is_reported_with_the_command_for_immediate_delivery(world: World) -> None:
    word = world.namespace
    for version in ("v1", "v2"):
        chart = templates(config_map(word, number=version))
        world.publish(world.stack.release(version), world.stack.files(version, {word: chart}))
    first, second = (world.stack.release(version).class_name for version in ("v1", "v2"))
    secret = f"cluster-stack-addon-{word}"
    async with world.operator():
        await world.create(world.stack.manifest(word, "v1", "v2"))
        for version in ("v1", "v2"):
            await world.release_ready(world.stack.release(version))
        await world.cluster("one", first)
        await world.addons_ready("one", first)
        await world.workload.merge_patch(SECRETS, secret, {"data": {"record": "AAAA"}}, "kube-system")
        await world.set_class("one", second)
        told = await world.says(Kind.CLUSTER_ADDON, ADDON, "HelmChartApplied", words=[secret, "unreadable"])

        command = r"kubectl annotate --overwrite clusteraddon --namespace (\S+) (\S+) look-again=\"\$\(date\)\""
        found = re.search(command, told["message"])
        assert found is not None, told["message"]
        assert found.groups() == (word, ADDON)
        await world.workload.delete(SECRETS, secret, "kube-system")
        await world.patch(await world.addon("one"), {"metadata": {"annotations": {"look-again": "now"}}})
        await world.addons_ready("one", second)
