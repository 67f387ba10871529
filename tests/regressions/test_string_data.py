"""A key that a release removes from ``stringData`` of a Secret is removed from the Secret."""

from __future__ import annotations

from base64 import b64encode
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply import object_applier, targets
from clusterstacks.model.kinds.names import CLUSTER_KIND, RECONCILE_ANNOTATION, Kind
from tests.support.builders.manifests import named
from tests.support.builders.stacks import config_map, templates
from tests.support.running.world import attempts, condition_of
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.operator.app import Operator
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("CASE-04")

V1 = {"user": "admin", "password": "first", "oldtoken": "leaked"}
V2 = {"user": "admin", "password": "second"}


@contextmanager
def earlier_version() -> Iterator[None]:
    """Have Secrets delivered as by versions of the operator that sent ``stringData``."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(targets, "with_data", lambda manifest: manifest)
        patched.setattr(object_applier, "holds_string_data", lambda _: False)
        yield


async def begin(world: World) -> None:
    """Publish two releases, of which the second one has no old token, and deliver the first one."""
    word = world.namespace
    for version, texts in (("v1", V1), ("v2", V2)):
        secret = named("v1", "Secret", word, "default", stringData=texts)
        files = {word: templates(secret, config_map(word, version=version))}
        world.publish(world.stack.release(version), world.stack.files(version, files))
    await world.create(world.stack.manifest(word, "v1", "v2"))
    for version in ("v1", "v2"):
        await world.release_ready(world.stack.release(version))
    await world.cluster("one", world.stack.release("v1").class_name)
    await world.addons_ready("one", world.stack.release("v1").class_name)


async def upgrade(world: World) -> None:
    await world.set_class("one", world.stack.release("v2").class_name)
    await world.addons_ready("one", world.stack.release("v2").class_name)


async def secret(world: World) -> dict[str, Any]:
    return await world.workload.get(await world.workload.resource("", "Secret"), world.namespace, "default")


async def edit(world: World, **values: str | None) -> None:
    resource = await world.workload.resource("", "Secret")
    await world.workload.merge_patch(resource, world.namespace, {"data": values}, "default", manager="kubectl-edit")


async def compare_everything(world: World, operator: Operator) -> None:
    """Have all objects compared with their manifests, and wait until this and another sweep have ended."""
    before = attempts(operator, "clusteraddonhealth")
    cluster = await world.get(CLUSTER_KIND, "one")
    await world.patch(cluster, {"metadata": {"annotations": {RECONCILE_ANNOTATION: "now"}}})
    await world.until(
        Kind.CLUSTER_ADDON, "cluster-addon-one", lambda one: one["status"].get("lastHandledReconcileAt") == "now"
    )

    async def more() -> bool:
        return attempts(operator, "clusteraddonhealth") > before + 2

    await eventually(more, about="sweeps")


async def versions(world: World) -> dict[str, str]:
    """Return the resource versions of everything that the operator wrote into the workload cluster."""
    found: dict[str, str] = {}
    for kind in ("Secret", "ConfigMap"):
        listing = await world.workload.list(await world.workload.resource("", kind))
        found |= {
            f"{kind} {one['metadata']['name']}": one["metadata"]["resourceVersion"]
            for one in listing.items
            if world.namespace in one["metadata"]["name"]
        }
    return found


def encoded(texts: dict[str, str]) -> dict[str, str]:
    return {key: b64encode(text.encode()).decode() for key, text in texts.items()}


@pytest.mark.regression("CASE-04")
async def test_key_removed_from_string_data_is_removed_from_the_secret(world: World) -> None:
    async with world.operator():
        await begin(world)
        assert (await secret(world))["data"] == encoded(V1)

        await upgrade(world)

        assert (await secret(world))["data"] == encoded(V2)


@pytest.mark.regression("CASE-04")
async def test_secret_of_an_earlier_version_changes_with_the_next_release_only(world: World) -> None:
    with earlier_version():
        async with world.operator():
            await begin(world)
    assert "f:stringData" in str((await secret(world))["metadata"]["managedFields"])
    before = await versions(world)

    async with world.operator(drift_interval=timedelta(seconds=0.3)) as operator:
        await compare_everything(world, operator)
        assert condition_of(await world.addon("one"), "InSync")["status"] == "True"
        assert await versions(world) == before
        await edit(world, theirs="eA==")

        await upgrade(world)

        assert (await secret(world))["data"] == {**encoded(V2), "theirs": "eA=="}


@pytest.mark.regression("CASE-04")
async def test_key_that_an_earlier_version_left_behind_is_removed_with_the_next_release(world: World) -> None:
    word = world.namespace
    with earlier_version():
        async with world.operator():
            await begin(world)
            await upgrade(world)
            assert "oldtoken" in (await secret(world))["data"]
    objects = named("v1", "Secret", word, "default", stringData=V2), config_map(word, version="v3")
    third = world.stack.release("v3")
    world.publish(third, world.stack.files("v3", {word: templates(*objects)}))

    async with world.operator():
        stack = await world.get(Kind.CLUSTER_STACK, world.stack.manifest(word)["metadata"]["name"])
        await world.patch(stack, {"spec": {"versions": ["v1", "v2", "v3"]}})
        await world.release_ready(third)
        await world.set_class("one", third.class_name)
        await world.addons_ready("one", third.class_name)

        assert (await secret(world))["data"] == encoded(V2)
