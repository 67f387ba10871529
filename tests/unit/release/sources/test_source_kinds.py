"""Kinds of sources: locations for csctl, environment variables, and the allowlist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.source import SourceSpec
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.credentials import ANONYMOUS
from clusterstacks.net.oci.transfers import silent
from clusterstacks.release.release_source import ImageSource
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.github.assets import GitHubSource
from clusterstacks.release.sources.http_index import HttpSource
from clusterstacks.release.sources.oci_repository import OCISource
from clusterstacks.release.sources.source_kinds import (
    DIRECTORY,
    GITHUB,
    HTTP,
    KINDS,
    OCI,
    open_location,
    parse_location,
)
from clusterstacks.release.sources.spec import Location, SourceAddress, SourceKind
from tests.support.builders.releases import STAGED

if TYPE_CHECKING:
    from collections.abc import Mapping

GO_VARIABLES = {"GIT_PROVIDER": "github", "GIT_ORG_NAME": "acme", "GIT_REPOSITORY_NAME": "stacks"}

REPOSITORY = SourceAddress(OCI, "r.example:5000/kaas/stacks")


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("r.example:5000/kaas/stacks", Location(REPOSITORY)),
        (f"oci://r.example:5000/kaas/stacks:{STAGED}", Location(REPOSITORY, STAGED)),
        ("github://owner/repository", Location(SourceAddress(GITHUB, "owner/repository"))),
        (f"github://owner/repository:{STAGED}", Location(SourceAddress(GITHUB, "owner/repository"), STAGED)),
        ("https://stacks.example:8443", Location(SourceAddress(HTTP, "https://stacks.example:8443"))),
        (
            f"https://stacks.example/a/:{STAGED}",
            Location(SourceAddress(HTTP, "https://stacks.example/a"), STAGED),
        ),
        (f"http://stacks.example:{STAGED}", Location(SourceAddress(HTTP, "http://stacks.example"), STAGED)),
        ("releases", Location(SourceAddress(DIRECTORY, "releases"))),
        ("./releases.d", Location(SourceAddress(DIRECTORY, "releases.d"))),
        ("../a.b/c", Location(SourceAddress(DIRECTORY, "../a.b/c"))),
        (f"/srv/releases:{STAGED}", Location(SourceAddress(DIRECTORY, "/srv/releases"), STAGED)),
        (f"/:{STAGED}", Location(SourceAddress(DIRECTORY, "/"), STAGED)),
    ],
)
def test_location_is_parsed(text: str, location: Location) -> None:
    assert parse_location(text, {}) == location


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ftp://a/b",
        "github://owner",
        "github://owner/a/b",
        "r.example/a:latest",
        "https://stacks.example/a:latest",
        f"r.example/a@sha256:{'a' * 64}",
        "releases:latest",
    ],
)
def test_invalid_location_is_rejected(text: str) -> None:
    with pytest.raises(SpecError):
        parse_location(text, {})


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("r.example/a", OCISource),
        ("github://owner/repository", GitHubSource),
        ("https://stacks.example", HttpSource),
        ("releases", DirectorySource),
    ],
)
async def test_every_location_opens_its_kind_of_source(text: str, kind: type) -> None:
    async with HTTPClient() as web:
        assert isinstance(await open_location(parse_location(text, {}).address, web, {}), kind)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_kind_that_holds_images_has_sources_that_serve_them(kind: SourceKind[Any]) -> None:
    place = "r.example/kaas/stacks" if kind is OCI else "owner/repository"
    source = kind.open(SourceAddress(kind, place), HTTPClient(environ={}), ANONYMOUS, silent)

    assert isinstance(source, ImageSource) is kind.holds_images


def test_every_kind_is_a_field_of_spec_source() -> None:
    assert set(KINDS) < set(SourceSpec.model_fields)


async def test_location_at_github_uses_the_api_and_token_of_the_environment() -> None:
    environ = {"GIT_API_URL": "https://git.example.org/api/v3", "GIT_ACCESS_TOKEN": "not-a-token\n"}
    address = parse_location("github://owner/repository", environ).address

    assert address.api == "https://git.example.org/api/v3"
    assert (await GITHUB.credentials(address, environ)).token == "not-a-token"


@pytest.mark.parametrize("api", ["", "https://git.example.org/api/v3"])
def test_variables_of_the_go_tools_name_the_remote(api: str) -> None:
    environ = GO_VARIABLES | {"GIT_API_URL": api}

    assert GITHUB.publish_address(environ) == SourceAddress(GITHUB, "acme/stacks", api=api)


@pytest.mark.parametrize(
    ("environ", "problem"),
    [
        ({}, "GIT_PROVIDER"),
        ({"GIT_PROVIDER": "gitlab"}, "GIT_PROVIDER is 'gitlab'"),
        ({"GIT_PROVIDER": "github", "GIT_ORG_NAME": "acme"}, "set GIT_REPOSITORY_NAME"),
        ({"GIT_PROVIDER": "github"}, "set GIT_ORG_NAME and GIT_REPOSITORY_NAME"),
    ],
)
def test_missing_variables_of_a_remote_are_named(environ: Mapping[str, str], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        GITHUB.publish_address(environ)
