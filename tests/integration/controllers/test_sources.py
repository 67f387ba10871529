"""Releases from where each ClusterStack says: registries, GitHub, web servers and directories, side by side."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from clusterstacks.api.names import SOURCE_CREDENTIALS_LABEL, Kind
from clusterstacks.http.allowlist import AllowedHosts
from clusterstacks.operator.settings import parse_settings
from tests.support.builders.remote_repositories import repository
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.fakes.github import OWNER, REPOSITORY, TOKEN, GitHubDouble
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer


async def secret(
    world: World, name: str, values: Mapping[str, str], kind: str = "Opaque", *, labelled: bool = True
) -> None:
    """Write a Secret beside the ClusterStacks; ``labelled`` as credentials of a source."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    labels = {SOURCE_CREDENTIALS_LABEL: "true"} if labelled else {}
    metadata = {"name": name, "namespace": world.namespace, "labels": labels}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}
    secrets = await world.client.resource("", "Secret")
    await world.client.apply(secrets, manifest, manager="tests", force=True)


def following(world: World, source: Mapping[str, Any]) -> dict[str, Any]:
    """A ClusterStack that follows the stable releases of a source."""
    return world.stack.manifest(world.namespace, autoSubscribe=True, channel="stable", source=source)


async def test_a_new_tag_in_a_registry_becomes_a_ready_release_and_reaches_a_cluster(
    world: World, registry: RegistryServer
) -> None:
    first, second = (world.stack.release(version) for version in ("v1", "v2"))
    addons = {"cni": templates(config_map(world.namespace, text="hello"))}
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed):
        await remote.publish(first, world.stack.files("v1", addons))
        stack = await world.create(following(world, remote.source()))
        await world.release_ready(first)
        await world.cluster("one", first.class_name)
        await world.shows(world.namespace, {"text": "hello"})

        await remote.publish(second, world.stack.files("v2", addons))
        release = await world.release_ready(second)

        assert condition_of(release, "SourceUnchanged")["status"] == "True"
        await world.until(
            Kind.CLUSTER_STACK, world.namespace, lambda one: second.class_name in one["status"].get("latestRelease", "")
        )
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, first.release))
        assert not [event for event in await world.events(stack) if event["type"] == "Warning"]


async def test_a_private_registry_is_asked_with_ca_and_credentials_out_of_secrets(
    world: World, secure_registry: RegistryServer
) -> None:
    (name, second) = (world.stack.release(version) for version in ("v1", "v2"))
    login = {"username": secure_registry.username, "password": secure_registry.password}
    async with repository(world, secure_registry) as remote, world.operator(allowed_sources=remote.allowed):
        await remote.publish(name, world.stack.files("v1", {}))
        await secret(world, "ca", {"ca.crt": secure_registry.ca})
        named = {"credentials": {"secretName": "login"}, "ca": {"secretName": "ca"}}
        await world.create(following(world, remote.source(**named)))

        await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=["login", "does not exist"])
        await secret(world, "login", {**login, "password": "wrong"})
        await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=["401"])
        await secret(world, "login", login)
        await world.release_ready(name)

        # The same in the form kubectl create secret docker-registry has; a change is noticed without an edit of ours.
        auth = base64.b64encode(f"{login['username']}:{login['password']}".encode()).decode()
        config = json.dumps({"auths": {secure_registry.host: {"auth": auth}}})
        secrets = await world.client.resource("", "Secret")
        await world.client.delete(secrets, "login", world.namespace)
        await secret(world, "login", {".dockerconfigjson": config}, "kubernetes.io/dockerconfigjson")
        await remote.publish(second, world.stack.files("v2", {}))
        await world.release_ready(second)


async def test_github_with_a_token_out_of_a_secret(world: World) -> None:
    name = world.stack.release("v1")
    async with GitHubDouble.started(private=True) as github:
        allowed = AllowedHosts.parse(f"{github.url.split('/')[2]}/{OWNER}")
        github.add(name.release, world.stack.files("v1", {}))
        github.add("v0.1.0", {"notes.txt": b"a foreign tag"})
        async with world.operator(allowed_sources=allowed, plain_http_credentials=allowed):
            await secret(world, "login", {"token": TOKEN})
            place = {"owner": OWNER, "repository": REPOSITORY, "url": github.url}
            source = {"github": place, "interval": "1s", "credentials": {"secretName": "login"}}
            await world.create(following(world, source))

            await world.release_ready(name)


async def test_a_directory_below_the_operators_own(world: World) -> None:
    name = world.stack.release("v1")
    world.releases.joinpath("team").mkdir()
    outside = world.releases.with_name("outside")
    outside.mkdir()
    world.releases.joinpath("link").symlink_to(outside)
    async with world.operator():
        for path, word in (("link", "is outside"), ("none", "the directory does not exist")):
            stack = TinyStack(f"{world.namespace}{path}")
            manifest = stack.manifest(world.namespace, autoSubscribe=True, source={"directory": {"path": path}})
            await world.create(manifest)
            await world.says(Kind.CLUSTER_STACK, stack.word, "ReleasesSynced", words=[word])
        await world.create(following(world, {"directory": {"path": "team"}, "interval": "1s"}))
        hidden = world.publish(name, world.stack.files("v1", {}))
        hidden.rename(world.releases / "team" / name.release)

        await world.release_ready(name)


async def test_a_source_that_is_not_allowed_is_refused_by_name(world: World, registry: RegistryServer) -> None:
    name = world.stack.release("v1")
    async with repository(world, registry) as remote, world.operator():
        await remote.publish(name, world.stack.files("v1", {}))
        manifest = following(world, remote.source())
        manifest["spec"]["versions"] = ["v1"]
        await world.create(manifest)

        words = [f"{world.namespace}/{world.stack.word}", f"oci://{remote.place}", "--allowed-sources"]
        for kind, item in ((Kind.CLUSTER_STACK, world.stack.word), (Kind.CLUSTER_STACK_RELEASE, name.release)):
            found = await world.says(kind, item, "Ready", "SourceNotAllowed", words=words)
            assert found["severity"] == "Error"
        await world.another_is_ready()


async def test_the_operators_own_source_may_be_a_registry_too(world: World, secure_registry: RegistryServer) -> None:
    """With flags and variables as the Go operator has them; existing ClusterStacks name no source."""
    name = world.stack.release("v1")
    ca = world.releases.with_name("ca.crt")
    ca.write_text(secure_registry.ca)
    async with repository(world, secure_registry) as remote:
        await remote.publish(name, world.stack.files("v1", {}))
        reference = remote.registry.reference
        environ = {
            "OCI_REGISTRY": reference.registry,
            "OCI_REPOSITORY": reference.repository,
            "OCI_USERNAME": secure_registry.username,
            "OCI_PASSWORD": secure_registry.password,
        }
        settings = parse_settings(["--source=oci", f"--source-ca={ca}"], environ)
        async with world.operator(environ, source=settings.source, source_ca=settings.source_ca):
            await world.create(world.stack.manifest(world.namespace, autoSubscribe=True, channel="stable"))

            await world.release_ready(name)
