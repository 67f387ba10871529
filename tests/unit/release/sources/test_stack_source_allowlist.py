"""Requests of allowed sources stay within ``--allowed-sources`` (SEC-10)."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.credentials import ANONYMOUS
from clusterstacks.net.oci.transfers import silent
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.spec import SourceAddress, SourceSettings
from clusterstacks.release.sources.stack_source import SourcePolicy

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

HOST, TEAM = "shared.example.org", "team-a"
"""The one place that is allowed in all tests: ``shared.example.org/team-a``."""

OWN = SourceSettings(address=SourceAddress(source_kinds.DIRECTORY, ""), own=True)

HOSTS = st.sampled_from(
    [
        HOST,
        "SHARED.example.org",
        f"{HOST}.",
        f"{HOST}:443",
        f"{HOST}:80",
        f"{HOST}:0443",
        f"{HOST}:8443",
        f"{HOST}:",
        f"{HOST}.evil.example",
        f"evil.{HOST}",
        f"evil.example\\.{HOST}",
        f"{HOST}%2f.evil.example",
        f"me:password@{HOST}",
        f"[{HOST}",
        "evil.example",
    ]
)
PARTS = st.sampled_from(
    [
        TEAM,
        "Team-A",
        f"{TEAM}x",
        f"{TEAM};x",
        "team-evil",
        "api",
        "v3",
        "repos",
        "",
        ".",
        "..",
        "..;",
        "..;x=1",
        "%2e%2e",
        "%252e%252e",
        "%2525252e%2525252e",
        "team%2da",
        f"{TEAM}%2f..",
        f"{TEAM}%252f..",
        f"{TEAM}\\..",
        f"{TEAM}%5c..",
        f"{TEAM}?x",
        f"{TEAM}#x",
        "team\u2010a",
        f" {TEAM}",
        f"{TEAM}\n",
    ]
)
PATHS = st.lists(PARTS, max_size=5).map("/".join)
SCHEMES = st.sampled_from(["https", "http", "HTTPS", "oci", "ftp"])
URLS = st.builds("{}://{}/{}".format, SCHEMES, HOSTS, PATHS) | st.builds("{}://{}".format, SCHEMES, HOSTS)

SOURCES = (
    st.builds(
        lambda host, path, plain: {"oci": {"repository": f"{host}/{path}", "plainHTTP": plain}},
        HOSTS,
        PATHS,
        st.booleans(),
    )
    | st.builds(lambda url: {"http": {"url": url}}, URLS)
    | st.builds(
        lambda url, owner, repository: {"github": {"url": url, "owner": owner, "repository": repository}},
        URLS | st.builds("https://{}/api/v3".format, HOSTS),
        PARTS,
        PARTS | st.just("stacks"),
    )
)


class Recorder(HTTPClient):
    """Records requested URLs, and responds to none."""

    def __init__(self) -> None:
        super().__init__(plain_http=True, environ={})
        self.asked: list[str] = []

    @asynccontextmanager
    async def open(self, method: str, url: str, **_: Any) -> AsyncIterator[Any]:
        self.asked.append(str(self._checked(url)))
        raise SpecError("Recorded", method)
        yield


def stack(source: Mapping[str, Any]) -> ClusterStack:
    spec = {"provider": "openstack", "name": "scs", "kubernetesVersion": "1.35", "source": source}
    metadata = {"name": "scs", "namespace": "team"}
    return ClusterStack.parse({"kind": "ClusterStack", "metadata": metadata, "spec": spec})


def allowing(patterns: str) -> SourcePolicy:
    return SourcePolicy(default=OWN, allowed=AllowedHosts.parse(patterns))


async def asked(source: Mapping[str, Any], patterns: str) -> list[str]:
    """Return the URLs requested for a source of a ClusterStack; none if it is rejected."""
    web = Recorder()
    try:
        address = allowing(patterns).settings(stack(source)).address
        await address.kind.open(address, web, ANONYMOUS, silent).list()
    except ClusterStacksError:
        pass
    return web.asked


def lies_within(url: str, kind: str) -> bool:
    """Whether a URL as it goes over the wire lies in the allowed place of its kind, by rules of this test alone."""
    target = URL(url, encoded=True)
    prefix = {"oci": f"/v2/{TEAM}/", "http": f"/{TEAM}/", "github": f"/api/v3/repos/{TEAM}/"}[kind]
    path, decoded = target.raw_path, unquote(unquote(unquote(unquote(target.raw_path))))
    straight = not {"..", "."} & {part.partition(";")[0] for part in decoded.replace("\\", "/").split("/")}
    return (
        (target.host or "").rstrip(".").lower() == HOST
        and target.port == {"https": 443, "http": 80}[target.scheme]
        and target.user is None
        and unquote(path).startswith(prefix)
        and path.count("/") == decoded.count("/")
        and straight
    )


@pytest.mark.regression("SEC-10")
@given(SOURCES)
@example({"github": {"url": f"https://{HOST}/team-evil/public", "owner": TEAM, "repository": "stacks"}})
@example({"github": {"url": f"https://{HOST}", "owner": TEAM, "repository": "stacks"}})
@example({"http": {"url": f"https://{HOST}//{TEAM}/x"}})
@example({"http": {"url": f"https://{HOST}/{TEAM}/%252e%252e/team-evil"}})
@example({"http": {"url": f"https://{HOST}/{TEAM}/..;/team-evil"}})
async def test_requested_urls_are_within_the_allowlist(source: dict[str, Any]) -> None:
    (kind,) = source
    for url in await asked(source, f"{HOST}/{TEAM}"):
        assert lies_within(url, kind), url


@pytest.mark.regression("SEC-10")
@pytest.mark.parametrize(
    ("source", "url"),
    [
        ({"oci": {"repository": f"{HOST}/{TEAM}/stacks"}}, f"https://{HOST}/v2/{TEAM}/stacks/tags/list?n=1000"),
        ({"http": {"url": f"https://{HOST}/{TEAM}/"}}, f"https://{HOST}/{TEAM}/index.json"),
        ({"http": {"url": f"https://{HOST}/team%2da/x"}}, f"https://{HOST}/team%2da/x/index.json"),
        *(
            (
                {"github": {"url": url, "owner": TEAM, "repository": "stacks"}},
                f"https://{HOST}/api/v3/repos/{TEAM}/stacks/releases?per_page=100&page=1",
            )
            for url in (f"https://{HOST}", f"https://{HOST}/", f"https://{HOST}/api/v3", f"https://{HOST}/api/v3/")
        ),
    ],
)
async def test_allowed_sources_are_requested(source: dict[str, Any], url: str) -> None:
    assert await asked(source, f"{HOST}/{TEAM}") == [url]


@pytest.mark.regression("SEC-10")
@pytest.mark.parametrize(
    ("api", "asks"),
    [
        ("https://api.github.com", "https://api.github.com/repos/"),
        ("https://api.octocorp.ghe.com/", "https://api.octocorp.ghe.com/repos/"),
        ("https://api.example.org", "https://api.example.org/api/v3/repos/"),
    ],
)
async def test_api_of_github_cloud_is_at_the_root_path(api: str, asks: str) -> None:
    (url,) = await asked({"github": {"url": api, "owner": TEAM, "repository": "stacks"}}, "*")

    assert url.startswith(asks)


@pytest.mark.regression("SEC-10")
@pytest.mark.parametrize("path", ["/team-evil/public", "/api", "/api/v3/x", "//api/v3", "/x/../api/v3", "/API/V3"])
def test_wrong_api_path_is_rejected_with_the_right_one(path: str) -> None:
    named = stack({"github": {"url": f"https://{HOST}{path}", "owner": TEAM, "repository": "stacks"}})

    with pytest.raises(SpecError, match=rf"is only at /api/v3; write https://{HOST}/api/v3") as refused:
        allowing("*").settings(named)

    assert f"spec.source.github.url is https://{HOST}{path}" in refused.value.message
    assert "ClusterStack team/scs" in refused.value.message


@pytest.mark.regression("SEC-10")
def test_api_url_of_the_operator_is_accepted_unchanged() -> None:
    odd = SourceAddress(source_kinds.GITHUB, f"{TEAM}/stacks", api=f"https://{HOST}/behind/a/proxy")
    choice = SourcePolicy(default=SourceSettings(address=odd, own=True))

    named = stack({"github": {"url": f"https://{HOST}/behind/a/proxy/", "owner": TEAM, "repository": "stacks"}})

    assert choice.settings(named).address == odd
