"""Releases from the source of each ClusterStack: registry, GitHub, web server and directory."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.operator.settings import parse_settings
from tests.support.builders.remote_repositories import repository
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.fakes.github import OWNER, REPOSITORY, TOKEN, GitHubDouble
from tests.support.running.sources import following, secret
from tests.support.running.world import condition_of, is_ready

if TYPE_CHECKING:
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer


async def test_new_tag_in_a_registry_becomes_a_ready_release_delivered_to_a_cluster(
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
            Kind.CLUSTER_STACK,
            world.namespace,
            lambda one: second.class_name in one.get("status", {}).get("latestRelease", ""),
        )
        assert is_ready(await world.get(Kind.CLUSTER_STACK_RELEASE, first.release))
        assert not [event for event in await world.events(stack) if event["type"] == "Warning"]


async def test_private_registry_is_read_with_ca_and_credentials_from_secrets(
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


async def test_github_is_read_with_a_token_from_a_secret(world: World) -> None:
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


async def test_directory_below_the_one_of_the_operator_is_a_source(world: World) -> None:
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


async def test_disallowed_source_is_rejected_by_name(world: World, registry: RegistryServer) -> None:
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


async def test_registry_can_be_the_source_of_the_operator(world: World, secure_registry: RegistryServer) -> None:
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
