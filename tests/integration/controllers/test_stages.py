"""Stages of clusteraddon.yaml: order, rendering in advance, and progress in the status."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from clusterstacks.operator.controllers.clusteraddon.addon_installer import AddonInstaller
from clusterstacks.operator.controllers.status_reconciler import StatusReconciler
from tests.support.builders.stacks import TinyStack, config_map, stage, templates

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

    import pytest

    from clusterstacks.model.outcomes import Outcome
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch
    from tests.support.running.world import World


DEADLINE = 250


def addons(*names: str) -> dict[str, Mapping[str, str]]:
    return {name: templates(config_map(name, word="one")) for name in names}


async def test_stages_without_conditions_write_the_status_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    written = progress_writes(monkeypatch)
    await deliver(world, world.stack, addons("one", "two", "three"))

    assert written == []


async def test_progress_is_written_after_a_stage_that_cannot_run_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = progress_writes(monkeypatch)
    watched = {"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "namespace": "kube-system"}
    condition = {"objects": [{"key": "one", **watched}], "conditions": 'one.data.word == "one"'}
    stages = [
        stage("one", waitForPostCondition=condition),
        stage("two", waitFor="Healthy"),
        stage("three"),
        stage("one", "delete"),
    ]

    await deliver(world, world.stack, addons("one", "two", "three"), stages)

    assert [message.partition(",")[0] for message in written] == [
        "2 of 4 stages done",
        "3 of 4 stages done",
        "4 of 4 stages done",
    ]
    assert await world.delivered("one") is None


async def test_an_addon_that_was_deleted_is_not_applied_again_after_kills(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator is killed before it notes the applied stage, and the next one before it notes the deleted stage."""
    name = world.stack.release("v1")
    stages = {"AfterControlPlaneInitialized": [stage("one"), stage("one", "delete"), stage("two")]}
    world.publish(name, world.stack.files("v1", addons("one", "two"), hooks=stages))
    write, remove, revise = StatusReconciler.write_status, AddonInstaller.remove_addon, AddonInstaller.install_revision
    applied: list[str] = []
    reached = asyncio.Event()

    async def hang() -> NoReturn:
        reached.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def killed_before_write(self: StatusReconciler, patch: StatusPatch, outcome: Outcome) -> None:
        if "stages done" in getattr(outcome, "message", ""):
            await hang()
        await write(self, patch, outcome)

    async def killed_after_removal(self: AddonInstaller, addon: str) -> Outcome | None:
        assert await remove(self, addon) is None
        return await hang()

    async def noted(self: AddonInstaller, addon: str, *revision: Any) -> Outcome | None:
        applied.append(addon)
        return await revise(self, addon, *revision)

    monkeypatch.setattr("clusterstacks.runtime.controller.STOP_DEADLINE", timedelta())
    async with asyncio.timeout(DEADLINE):
        with monkeypatch.context() as patched:
            patched.setattr(StatusReconciler, "write_status", killed_before_write)
            async with world.operator():
                await world.create(world.stack.manifest(world.namespace, "v1"))
                await world.release_ready(name)
                await world.cluster("c", name.class_name)
                await reached.wait()
        reached.clear()
        with monkeypatch.context() as patched:
            patched.setattr(AddonInstaller, "remove_addon", killed_after_removal)
            async with world.operator():
                await reached.wait()
        monkeypatch.setattr(AddonInstaller, "install_revision", noted)
        async with world.operator():
            await world.addons_ready("c", name.class_name)

    assert applied == ["two"]
    assert await world.delivered("one") is None


async def test_a_chart_that_cannot_be_rendered_does_not_stop_the_stage_before_it(world: World) -> None:
    name = world.stack.release("v1")
    charts = {**addons("one"), "two": {"templates/all.yaml": '{{ fail "not today" }}'}}
    world.publish(name, world.stack.files("v1", charts))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("c", name.class_name)
        await world.says("ClusterAddon", "cluster-addon-c", "HelmChartTemplated", words=["addon two", "not today"])

    assert await world.delivered("one") is not None


async def deliver(
    world: World,
    stack: TinyStack,
    charts: Mapping[str, Mapping[str, str]],
    stages: list[dict[str, object]] | None = None,
) -> None:
    name = stack.release("v1")
    hooks = None if stages is None else {"AfterControlPlaneInitialized": stages}
    world.publish(name, stack.files("v1", charts, hooks=hooks))
    async with world.operator():
        await world.create(stack.manifest(world.namespace, "v1"))
        await world.release_ready(name)
        await world.cluster("c", name.class_name)
        await world.addons_ready("c", name.class_name)


def progress_writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the messages of the status writes in the middle of a rollout, without those for readers after a while."""
    monkeypatch.setattr(
        "clusterstacks.operator.controllers.clusteraddon.rollout_executor.SAVE_INTERVAL", timedelta(hours=1)
    )
    written: list[str] = []
    write = StatusReconciler.write_status

    async def noted(self: StatusReconciler, patch: StatusPatch, outcome: Outcome) -> None:
        message = getattr(outcome, "message", "")
        if "stages done" in message:
            written.append(message)
        await write(self, patch, outcome)

    monkeypatch.setattr(StatusReconciler, "write_status", noted)
    return written
