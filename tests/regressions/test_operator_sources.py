"""D78: plain web servers, private CAs and proxies could not be used as sources."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.kube.pki import Authority
from clusterstacks.release.sources.http_index import write_index
from tests.support.builders.remote_repositories import repository
from tests.support.servers.static_server import StaticServer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

pytestmark = pytest.mark.regression("D78")

LOOPBACK = AllowedHosts.parse("127.0.0.1:*")


@pytest.fixture
def root(world: World) -> Path:
    """A directory with one release and its index."""
    name = world.stack.release("v1")
    world.publish(name, world.stack.files("v1", {}))
    write_index(world.releases)
    return world.releases


def following(world: World, **source: Any) -> dict[str, Any]:
    return world.stack.manifest(world.namespace, autoSubscribe=True, channel="stable", source=source)


@pytest.mark.regression("D78")
async def test_static_web_server_is_a_source(world: World, root: Path) -> None:
    async with StaticServer.started(root) as server, world.operator(allowed_sources=LOOPBACK):
        await world.create(following(world, http={"url": server.url}))
        await world.release_ready(world.stack.release("v1"))


@pytest.mark.regression("D78")
async def test_private_ca_is_read_from_a_secret(world: World, root: Path, tmp_path: Path) -> None:
    authority = Authority.create("own-ca")
    keys = authority.issue("stacks", addresses=("127.0.0.1",))
    (tmp_path / "server.pem").write_bytes(keys.certificate + keys.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    async with StaticServer.started(root, context) as server, world.operator(allowed_sources=LOOPBACK):
        stack = await world.create(following(world, http={"url": server.url}, interval="1s"))
        await world.says(Kind.CLUSTER_STACK, world.namespace, "ReleasesSynced", words=["certificate is not trusted"])
        metadata = {"name": "ca", "namespace": world.namespace}
        text = {"authority.pem": authority.certificate.decode()}
        await world.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": text})
        ca = {"secretName": "ca", "key": "authority.pem"}
        await world.patch(stack, {"spec": {"source": {"ca": ca}}})

        await world.release_ready(world.stack.release("v1"))


@pytest.mark.regression("D78")
async def test_proxy_is_read_from_the_environment(world: World, root: Path) -> None:
    async with StaticServer.started(root) as proxy:
        environ = {"HTTP_PROXY": proxy.url}
        async with world.operator(environ, allowed_sources=AllowedHosts.parse("stacks.invalid")):
            await world.create(following(world, http={"url": "http://stacks.invalid"}))
            await world.release_ready(world.stack.release("v1"))


@pytest.mark.regression("D78")
async def test_registry_without_tls_is_used_if_the_stack_allows_it(world: World, registry: RegistryServer) -> None:
    name = world.stack.release("v1")
    async with repository(world, registry) as remote, world.operator(allowed_sources=remote.allowed):
        await remote.publish(name, world.stack.files("v1", {}))
        await world.create(following(world, oci={"repository": remote.place, "plainHTTP": True}))
        await world.release_ready(name)
