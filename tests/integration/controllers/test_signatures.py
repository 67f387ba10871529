"""Releases whose ClusterStack requires signatures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import DIGEST_ANNOTATION, Kind
from clusterstacks.model.kinds.source import SourceSpec
from clusterstacks.release.contents import read_contents
from tests.support.builders.remote_repositories import repository
from tests.support.builders.signatures import ecdsa_key, ed25519_key, public_pem, signed
from tests.support.builders.stacks import config_map, templates
from tests.support.running.sources import below_the_operators_directory, following, secret, trusting
from tests.support.running.world import condition_of, is_ready, is_unready

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer


def is_signed(manifest: Manifest) -> bool:
    return condition_of(manifest, "SignatureVerified").get("status") == "True"


async def test_unsigned_release_is_not_used_until_it_is_signed(world: World, registry: RegistryServer) -> None:
    name, key = world.stack.release("v1"), ecdsa_key()
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed):
        await remote.publish(name, world.stack.files("v1", {}))
        await remote.sign(name, ed25519_key())  # somebody else's
        await world.create(following(world, remote.source(verification=trusting(key))))

        found = await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "SignatureVerified", "SignatureRequired")
        assert found["severity"] == "Error"
        assert "not by a trusted key" in found["message"]
        release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
        assert is_unready(release)
        assert DIGEST_ANNOTATION not in release["metadata"].get("annotations", {})
        assert await world.find("ClusterClass", name.class_name) is None

        await remote.sign(name, key)
        release = await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_ready, nudging=True)
        assert is_signed(release)


@pytest.mark.usefixtures("watchful")
async def test_with_policy_warn_an_unsigned_release_is_used(world: World) -> None:
    name, key = world.stack.release("v1"), ecdsa_key()
    directory = world.publish(name, world.stack.files("v1", {}))
    async with world.operator():
        source = below_the_operators_directory(verification=trusting(key, policy="Warn"))
        await world.create(following(world, source))

        release = await world.release_ready(name)
        found = condition_of(release, "SignatureVerified")
        assert (found["status"], found["reason"], found["severity"]) == ("False", "NotSigned", "Warning")
        assert [one["reason"] for one in await world.events(release) if one["type"] == "Warning"] == ["NotSigned"]

        envelope = signed(key, name=name, files=read_contents(name, directory).files)
        directory.with_name(f"{name}.dsse.json").write_bytes(envelope)
        await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_signed)


@pytest.mark.usefixtures("watchful")
async def test_keys_are_rotated_one_by_one(world: World) -> None:
    """Both are valid at once, one in the object and one in a Secret, whose content may change later."""
    first, second = (world.stack.release(version) for version in ("v1", "v2"))
    old, new = ecdsa_key(), ed25519_key()
    for name, key in ((first, old), (second, new)):
        directory = world.publish(name, world.stack.files(name.version.dot, {}))
        directory.with_name(f"{name}.dsse.json").write_bytes(
            signed(key, name=name, files=read_contents(name, directory).files)
        )
    await secret(world, "keys", {"cosign.pub": public_pem(new).decode()})
    keys = [{"publicKey": public_pem(old).decode()}, {"secretName": "keys"}]
    async with world.operator():
        source = below_the_operators_directory(verification={"keys": keys})
        stack = await world.create(world.stack.manifest(world.namespace, "v1", "v2", source=source))
        for name in (first, second):
            assert is_signed(await world.release_ready(name))

        # The old key is record_before_removal: what it alone signed is not for new clusters any more.
        source = below_the_operators_directory(verification={"keys": keys[1:]})
        await world.patch(stack, {"spec": {"source": source}})
        await world.until(Kind.CLUSTER_STACK_RELEASE, first.release, is_unready)
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, second.release))

        await secret(world, "keys", {"cosign.pub": public_pem(old).decode()})
        await world.until(Kind.CLUSTER_STACK_RELEASE, second.release, is_unready)
        await world.until(Kind.CLUSTER_STACK_RELEASE, first.release, is_ready)


@pytest.mark.usefixtures("watchful")
async def test_signature_required_later_does_not_affect_running_clusters(world: World) -> None:
    first, second = (world.stack.release(version) for version in ("v1", "v2"))
    for name in (first, second):
        addon = templates(config_map(world.namespace, text=name.version.dot))
        world.publish(name, world.stack.files(name.version.dot, {"cni": addon}))
    async with world.operator():
        stack = await world.create(world.stack.manifest(world.namespace, "v1", "v2"))
        for name in (first, second):
            assert not condition_of(await world.release_ready(name), "SignatureVerified")
        await world.cluster("one", first.class_name)
        await world.addons_ready("one", first.class_name)
        source = below_the_operators_directory(verification=trusting(ecdsa_key()))
        await world.patch(stack, {"spec": {"source": source}})
        for name in (first, second):
            await world.until(Kind.CLUSTER_STACK_RELEASE, name.release, is_unready)

        await world.shows(world.namespace, {"text": "v1"})
        await world.set_class("one", second.class_name)
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartFound", words=["not signed"])
        await world.shows(world.namespace, {"text": "v1"})

        await world.patch(stack, {"spec": {"source": None}})
        await world.addons_ready("one", second.class_name)
        await world.shows(world.namespace, {"text": "v2"})
        release = await world.until(Kind.CLUSTER_STACK_RELEASE, second.release, is_ready)
        assert not condition_of(release, "SignatureVerified")


@pytest.mark.regression("D61")
async def test_operator_can_require_signatures_of_all_sources(world: World) -> None:
    name, key = world.stack.release("v1"), ecdsa_key()
    world.publish(name, world.stack.files("v1", {}))
    asked = SourceSpec.model_validate(below_the_operators_directory(verification=trusting(key)))
    async with world.operator(source=asked):
        await world.create(world.stack.manifest(world.namespace, "v1"))

        await world.says(Kind.CLUSTER_STACK_RELEASE, name.release, "SignatureVerified", "SignatureRequired")
