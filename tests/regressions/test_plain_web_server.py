"""D78: a web server with a private CA, behind a proxy, or without TLS if allowed, is a source."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import SourceUnavailable
from clusterstacks.net.kube.pki import Authority
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.sources.http_index import HttpSource, write_index
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.servers.static_server import StaticServer

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.regression("D78")

ONCE = RetryPolicy(attempts=1)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_release(tmp_path / "root" / STAGED.release, staged_release())
    write_index(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def store(tmp_path: Path) -> ReleaseStore:
    return ReleaseStore(tmp_path / "store")


@pytest.mark.regression("D78")
async def test_server_with_a_private_ca_is_a_source_if_the_ca_is_configured(
    root: Path, store: ReleaseStore, tmp_path: Path
) -> None:
    authority = Authority.create("own-ca")
    keys = authority.issue("stacks", addresses=("127.0.0.1",))
    (tmp_path / "server.pem").write_bytes(keys.certificate + keys.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")
    async with StaticServer.started(root, context) as server:
        async with HTTPClient(ca=authority.certificate.decode(), environ={}) as web:
            assert (await store.ensure(STAGED, HttpSource(web, server.url))).name == STAGED
        async with HTTPClient(environ={}, retries=ONCE) as web:
            with pytest.raises(SourceUnavailable, match="certificate is not trusted"):
                await HttpSource(web, server.url).list()


@pytest.mark.regression("D78")
async def test_plain_http_through_a_proxy_is_a_source_if_allowed(root: Path, store: ReleaseStore) -> None:
    async with StaticServer.started(root) as proxy:
        environ = {"HTTP_PROXY": proxy.url}
        async with HTTPClient(plain_http=True, environ=environ) as web:
            assert (await store.ensure(STAGED, HttpSource(web, "http://stacks.invalid"))).name == STAGED
        assert {request.host for request in proxy.requests} == {"stacks.invalid"}
        async with HTTPClient(environ=environ) as web:
            with pytest.raises(SpecError, match="plain HTTP"):
                await HttpSource(web, "http://stacks.invalid").list()
