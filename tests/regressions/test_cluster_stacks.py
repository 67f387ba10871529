"""Releases of a ClusterStack and its status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import PROVIDER_GROUP, Kind
from tests.support.running.world import LOOKING_OFTEN, condition_of, is_ready, is_unready
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

READINESS = {True: is_ready, False: is_unready}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def published(world: World, *versions: str) -> list[ReleaseName]:
    names = [world.stack.release(version) for version in versions]
    for name in names:
        world.publish(name, world.stack.files(name.version.dot, {}))
    return names


async def stack_says(world: World, wanted: dict[str, object]) -> Manifest:
    def agrees(stack: Manifest) -> bool:
        status = stack.get("status") or {}
        return all(status.get(key) == value for key, value in wanted.items())

    return await world.until(Kind.CLUSTER_STACK, world.namespace, agrees)


@pytest.mark.regression("D9")
async def test_release_in_use_and_last_ready_release_are_kept_on_every_channel(world: World) -> None:
    used, last, spare = published(world, "v0-sha.abc1234", "v0-sha.bbbbbbb", "v0-sha.aaaaaaa")
    async with world.operator():
        stack = await world.create(
            world.stack.manifest(world.namespace, *(name.version.dot for name in (used, last, spare)))
        )
        for name in (used, last, spare):
            await world.release_ready(name)
        await world.cluster("one", used.class_name)
        await world.addons_ready("one", used.class_name)
        await world.until(
            Kind.CLUSTER_STACK, world.namespace, lambda one: (one.get("status") or {}).get("latestRelease")
        )
        await world.patch(stack, {"spec": {"versions": []}})

        await world.gone(Kind.CLUSTER_STACK_RELEASE, spare.release)
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, used.release))
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, last.release))


@pytest.mark.regression("D19")
async def test_release_is_ready_only_with_its_provider_object(world: World) -> None:
    (name,) = published(world, "v1")
    await world.create(provider_template(world, "TinyClusterStackReleaseTemplate"))
    async with world.operator():
        await world.create(
            world.stack.manifest(world.namespace, "v1", **provider(world, "TinyClusterStackReleaseTemplate"))
        )
        found = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "ProviderClusterStackReleaseReady")
        assert found["reason"] == "ProcessOngoing"
        assert f"TinyClusterStackRelease {world.namespace}/{name.release}" in found["message"]

        made = await provided(world, "TinyClusterStackRelease", name)
        for ready in (True, False, True):
            await world.patch(made, {"status": {"ready": ready}}, "status")
            await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, READINESS[ready])


@pytest.mark.regression("D20")
async def test_failed_listing_is_reported_and_deletes_nothing(world: World) -> None:
    (name,) = published(world, "v1")
    hidden = world.releases.with_name("away")
    async with world.operator(source=LOOKING_OFTEN):
        await world.create(world.stack.manifest(world.namespace, autoSubscribe=True, channel="stable"))
        await world.release_ready(name)
        await stack_says(world, {"latestRelease": f"{name.class_name} | v1.35.4"})
        world.releases.rename(hidden)
        found = await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", "FailedToSync")
        assert str(world.releases) in found["message"]
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, name.release))

        hidden.rename(world.releases)
        await world.until(
            Kind.CLUSTER_STACK,
            world.namespace,
            lambda one: condition_of(one, "ReleasesSynced").get("status") == "True",
            nudging=True,
        )


@pytest.mark.regression("D20")
async def test_without_a_matching_release_none_is_latest(world: World) -> None:
    published(world, "v0-git.1")
    other = world.stack.manifest(world.namespace, autoSubscribe=True, channel="stable")
    stack = await world.create(other)
    await world.patch(stack, {"status": {"latestRelease": "left by somebody | v1.35.4"}}, "status")
    async with world.operator():
        await world.says(Kind.CLUSTER_STACK, world.namespace, "ClusterStackReleaseAvailable")

        stack = await world.get(Kind.CLUSTER_STACK, world.namespace)
        assert not stack["status"].get("latestRelease")


@pytest.mark.regression("D22")
async def test_release_deleted_by_force_is_restored_while_its_class_is_used(world: World) -> None:
    (name,) = published(world, "v1")
    async with world.operator():
        stack = await world.create(world.stack.manifest(world.namespace, "v1"))
        release = await world.release_ready(name)
        await world.cluster("one", name.class_name)
        await world.addons_ready("one", name.class_name)
        await world.patch(stack, {"spec": {"versions": []}})
        await world.delete(release)
        await world.patch(release, {"metadata": {"finalizers": None}})

        async def again() -> bool:
            found = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
            return found["metadata"]["uid"] != release["metadata"]["uid"] and is_ready(found)

        await eventually(again, about="the release of the used class is back")


@pytest.mark.regression("D29")
async def test_provider_object_has_no_kubectl_annotations_of_the_stack(world: World) -> None:
    (name,) = published(world, "v1")
    await world.create(provider_template(world, "TinyClusterStackReleaseTemplate"))
    stack = world.stack.manifest(world.namespace, "v1", **provider(world, "TinyClusterStackReleaseTemplate"))
    stack["metadata"] |= {"annotations": {LAST_APPLIED: "{}", "example.org/kept": "yes"}, "labels": {"team": "one"}}
    async with world.operator():
        await world.create(stack)
        made = await provided(world, "TinyClusterStackRelease", name)

        assert LAST_APPLIED not in made["metadata"]["annotations"]
        assert made["metadata"]["annotations"]["example.org/kept"] == "yes"
        assert made["metadata"]["labels"] == {"team": "one"}


@pytest.mark.regression("D30")
async def test_release_refers_to_the_provider_object_of_the_new_kind(world: World) -> None:
    (name,) = published(world, "v1")
    for kind in ("TinyClusterStackReleaseTemplate", "OtherClusterStackReleaseTemplate"):
        await world.create(provider_template(world, kind))
    async with world.operator():
        stack = await world.create(
            world.stack.manifest(world.namespace, "v1", **provider(world, "TinyClusterStackReleaseTemplate"))
        )
        await provided(world, "TinyClusterStackRelease", name)
        await world.patch(stack, {"spec": provider(world, "OtherClusterStackReleaseTemplate")})
        made = await provided(world, "OtherClusterStackRelease", name)
        await world.patch(made, {"status": {"ready": True}}, "status")
        release = await world.release_ready(name)

        assert release["spec"]["providerRef"]["kind"] == "OtherClusterStackRelease"


@pytest.mark.regression("D31")
async def test_versions_in_status_are_in_the_users_spelling(world: World) -> None:
    (name,) = published(world, "v0-git.12")
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v0-git.12"))
        await world.release_ready(name)
        stack = await stack_says(
            world,
            {
                "latestRelease": f"{world.stack.release('v0-git.12').class_name} | v1.35.4",
                "usableVersions": "v0-git.12",
                "summary": [{"name": "v0-git.12", "ready": True, "phase": "done"}],
            },
        )
        assert "v0-git-12" not in str(stack["status"])


def provider_template(world: World, kind: str) -> Manifest:
    return {
        "apiVersion": f"{PROVIDER_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": world.namespace, "namespace": world.namespace},
        "spec": {"template": {"spec": {"image": "here"}}},
    }


def provider(world: World, kind: str) -> dict[str, object]:
    reference = {"apiVersion": f"{PROVIDER_GROUP}/v1", "kind": kind, "name": world.namespace}
    return {"noProvider": False, "providerRef": reference}


async def provided(world: World, kind: str, name: ReleaseName) -> Manifest:
    async def look() -> Manifest | None:
        return await world.find(kind, name.release, group=PROVIDER_GROUP)

    return await eventually(look, about=f"{kind} {name}")
