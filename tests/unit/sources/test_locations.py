"""Where releases are, as a person writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.client import Web
from clusterstacks.oci.reference import Reference
from clusterstacks.sources.directory import DirectorySource
from clusterstacks.sources.github.assets import GitHubSource
from clusterstacks.sources.http_index import HttpSource
from clusterstacks.sources.locations import (
    DirectoryLocation,
    GitHubLocation,
    Location,
    RegistryLocation,
    WebLocation,
    open_source,
    parse_location,
)
from clusterstacks.sources.oci_repository import OCISource
from tests.support.releases import STAGED

REPOSITORY = Reference("r.example:5000", "kaas/stacks")


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("r.example:5000/kaas/stacks", RegistryLocation(REPOSITORY)),
        (f"oci://r.example:5000/kaas/stacks:{STAGED}", RegistryLocation(REPOSITORY.at(STAGED.release), STAGED)),
        ("github://owner/repository", GitHubLocation("owner", "repository")),
        (f"github://owner/repository:{STAGED}", GitHubLocation("owner", "repository", STAGED)),
        ("https://stacks.example:8443", WebLocation("https://stacks.example:8443")),
        (f"https://stacks.example:8443/a/:{STAGED}", WebLocation("https://stacks.example:8443/a", STAGED)),
        (f"http://stacks.example:{STAGED}", WebLocation("http://stacks.example", STAGED)),
        ("releases", DirectoryLocation(Path("releases"))),
        ("./releases.d", DirectoryLocation(Path("releases.d"))),
        ("../a.b/c", DirectoryLocation(Path("../a.b/c"))),
        (f"/srv/releases:{STAGED}", DirectoryLocation(Path("/srv/releases"), STAGED)),
        (f"/:{STAGED}", DirectoryLocation(Path("/"), STAGED)),
    ],
)
def test_a_location_is_read(text: str, location: Location) -> None:
    assert parse_location(text) == location


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
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_location(text)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("r.example/a", OCISource),
        ("github://owner/repository", GitHubSource),
        ("https://stacks.example", HttpSource),
        ("releases", DirectorySource),
    ],
)
async def test_every_location_is_a_source(text: str, kind: type) -> None:
    async with Web() as web:
        assert isinstance(await open_source(parse_location(text), web, {}), kind)
