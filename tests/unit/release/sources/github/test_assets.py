"""Releases of GitHub, against a double of its API."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.digests import content_digest
from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import (
    AnswerRefused,
    CredentialsRefused,
    RateLimited,
    ServerUnavailable,
    SourceUnavailable,
)
from clusterstacks.release import release_source
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.release.sources.github.assets import GitHubSource
from clusterstacks.release.store import ReleaseStore
from tests.support.builders.releases import SINGLE, STAGED, read_release, single_release, staged_release
from tests.support.fakes.github import LIMIT, OWNER, REPOSITORY, TOKEN, Fault, GitHubDouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

FILES = {"metadata.yaml": b"a: 1\n", "b.tgz": b"b" * 100_000}
DIGEST = content_digest((name, sha256(content).hexdigest()) for name, content in FILES.items())
SIGNATURE = f"{STAGED}.dsse.json"


@pytest.fixture
async def github() -> AsyncIterator[GitHubDouble]:
    async with GitHubDouble.started() as double:
        yield double


def source_of(web: HTTPClient, github: GitHubDouble, token: str = TOKEN) -> GitHubSource:
    return GitHubSource(web, OWNER, REPOSITORY, token=token, api=github.url)


async def test_release_is_downloaded_with_all_its_assets(web: HTTPClient, github: GitHubDouble, tmp_path: Path) -> None:
    github.add(STAGED.release, {**FILES, SIGNATURE: b"{}"})
    source = source_of(web, github)
    await source.fetch(STAGED, tmp_path)
    assert read_release(tmp_path) == FILES
    assert await source.digest(STAGED) == DIGEST
    assert (await source.evidence(STAGED)).envelopes == (b"{}",)


async def test_release_of_github_is_stored(web: HTTPClient, github: GitHubDouble, tmp_path: Path) -> None:
    github.add(STAGED.release, staged_release())
    github.add(SINGLE.release, single_release())
    source = source_of(web, github)
    store = ReleaseStore(tmp_path)
    assert (await store.ensure(STAGED, source)).digest == await source.digest(STAGED)
    assert (await store.ensure(SINGLE, source)).digest == await source.digest(SINGLE)


async def test_token_is_sent_to_the_api_and_not_to_the_asset_host(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path
) -> None:
    github.add(STAGED.release, FILES)
    await source_of(web, github).fetch(STAGED, tmp_path)
    assert {request.headers["Authorization"] for request in github.requests} == {f"Bearer {TOKEN}"}
    assert len(github.asset_requests) == len(FILES)
    assert not any("Authorization" in request.headers for request in github.asset_requests)


async def test_without_a_token_no_authorization_is_sent(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, FILES)
    assert await source_of(web, github, token="").list() == (STAGED.release,)
    assert not any("Authorization" in request.headers for request in github.requests)


async def test_releases_are_listed_by_tag_without_drafts_and_with_pre_releases(
    web: HTTPClient, github: GitHubDouble
) -> None:
    github.add("local-tiny-1-35-v1", {}, title="The first one")
    github.add("local-tiny-1-35-v2", {}, prerelease=True)
    github.add("local-tiny-1-35-v3", {}, draft=True)
    assert await source_of(web, github).list() == ("local-tiny-1-35-v1", "local-tiny-1-35-v2")


async def test_draft_is_not_a_release(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, FILES, draft=True)
    with pytest.raises(ReleaseNotFound, match=f"{STAGED} is not in github://{OWNER}/{REPOSITORY} of {github.url}"):
        await source_of(web, github).digest(STAGED)


async def test_unchanged_list_is_not_transferred_and_does_not_count_against_the_limit(
    web: HTTPClient, github: GitHubDouble
) -> None:
    github.add(STAGED.release, FILES)
    source = source_of(web, github)
    assert (await source.list(), await source.digest(STAGED)) == ((STAGED.release,), DIGEST)
    before = github.remaining
    assert (await source.list(), await source.digest(STAGED)) == ((STAGED.release,), DIGEST)
    assert github.remaining == before == LIMIT - 2
    assert ["If-None-Match" in request.headers for request in github.requests] == [False, False, True, True]


async def test_changed_list_is_read_despite_the_cache(web: HTTPClient, github: GitHubDouble) -> None:
    release = github.add(STAGED.release, FILES)
    source = source_of(web, github)
    assert await source.digest(STAGED) == DIGEST
    release.assets[0].content = b"moved"
    assert await source.digest(STAGED) != DIGEST
    github.releases.clear()
    assert await source.list() == ()
    with pytest.raises(ReleaseNotFound):
        await source.digest(STAGED)


async def test_without_asset_digests_the_digest_is_unknown_before_the_download(web: HTTPClient, tmp_path: Path) -> None:
    async with GitHubDouble.started(digests=False) as github:
        github.add(STAGED.release, FILES)
        source = source_of(web, github)
        assert await source.digest(STAGED) == ""
        await source.fetch(STAGED, tmp_path)
        assert read_release(tmp_path) == FILES


async def test_private_repository_needs_the_token(web: HTTPClient) -> None:
    async with GitHubDouble.started(private=True) as github:
        github.add(STAGED.release, FILES)
        assert await source_of(web, github).list() == (STAGED.release,)
        with pytest.raises(SourceUnavailable, match="is private and the token has no access"):
            await source_of(web, github, token="").list()


async def test_wrong_token_is_reported_without_quoting_it(web: HTTPClient, github: GitHubDouble) -> None:
    with pytest.raises(CredentialsRefused, match="status 401") as caught:
        await source_of(web, github, token="wrong-token").list()
    assert "wrong-token" not in f"{caught.value!r} {source_of(web, github, token='wrong-token').__dict__}"


async def test_forbidden_without_rate_limit_is_a_credentials_error(web: HTTPClient, github: GitHubDouble) -> None:
    github.faults.append(Fault("GET", "/releases", 403, message="Resource not accessible by personal access token"))
    with pytest.raises(CredentialsRefused, match="status 403"):
        await source_of(web, github).list()


async def test_exhausted_rate_limit_suspends_requests_until_its_reset(web: HTTPClient, github: GitHubDouble) -> None:
    github.remaining = 0
    source = source_of(web, github)
    with pytest.raises(RateLimited, match="too many requests") as caught:
        await source.list()
    assert timedelta(minutes=29) < caught.value.wait <= timedelta(minutes=31)
    with pytest.raises(RateLimited) as caught:
        await source.digest(STAGED)
    assert timedelta(minutes=29) < caught.value.wait <= timedelta(minutes=31)
    assert len(github.requests) == 1


async def test_secondary_limit_with_a_time_is_respected(web: HTTPClient, github: GitHubDouble) -> None:
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    github.faults.append(Fault("GET", "/releases", 403, {"Retry-After": "90"}, message))
    with pytest.raises(RateLimited) as caught:
        await source_of(web, github).list()
    assert caught.value.wait == timedelta(seconds=90)


@pytest.mark.parametrize("status", [403, 429])
async def test_secondary_limit_without_a_time_lasts_a_minute(
    web: HTTPClient, github: GitHubDouble, status: int
) -> None:
    github.faults.extend([Fault("GET", "/releases", status, {}, "You have exceeded a secondary rate limit.")] * 5)
    source = source_of(web, github)
    with pytest.raises(RateLimited) as caught:
        await source.list()
    assert caught.value.wait == timedelta(minutes=1)


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_transient_server_error_is_retried(web: HTTPClient, github: GitHubDouble, status: int) -> None:
    github.add(STAGED.release, FILES)
    github.faults.append(Fault("GET", "/releases", status))
    assert await source_of(web, github).list() == (STAGED.release,)


async def test_persistent_server_error_makes_the_source_unavailable(web: HTTPClient, github: GitHubDouble) -> None:
    github.faults.extend([Fault("GET", "/releases", 503)] * 9)
    with pytest.raises(ServerUnavailable) as caught:
        await source_of(web, github).list()
    place = f"github://{OWNER}/{REPOSITORY} of {github.url}"
    assert str(caught.value) == f"{place} is not available: it responds with status 503"


@pytest.mark.parametrize(
    ("served", "problem"),
    [
        (b"b" * 99_999, "has 99999 bytes, but the source states 100000"),
        (b"x" * 100_000, "its digest is sha256:.*, but the source states sha256:"),
    ],
)
async def test_asset_with_a_wrong_digest_is_rejected(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path, served: bytes, problem: str
) -> None:
    github.add(STAGED.release, FILES).assets[1].served = served
    with pytest.raises(SourceUnavailable, match=problem) as caught:
        await source_of(web, github).fetch(STAGED, tmp_path)
    assert "secret-of-the-url" not in str(caught.value)


async def test_signature_with_a_wrong_digest_is_rejected(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, {SIGNATURE: b"{}"}).assets[0].served = b"[]"
    with pytest.raises(SourceUnavailable, match="digest"):
        await source_of(web, github).evidence(STAGED)


async def test_endless_asset_is_stopped(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.release.sources.downloads.MAX_FILE_BYTES", 1000)
    github.add(STAGED.release, {"a": b"a"}).assets[0].served = b"a" * 100_000
    with pytest.raises(ReleaseBroken, match="a is larger than 1000 bytes"):
        await source_of(web, github).fetch(STAGED, tmp_path)


async def test_release_with_an_asset_being_uploaded_is_not_ready(web: HTTPClient, github: GitHubDouble) -> None:
    release = github.add(STAGED.release, FILES)
    release.assets[1].state = "starter"
    with pytest.raises(SourceUnavailable, match=r"b\.tgz of release .* is not completely uploaded"):
        await source_of(web, github).digest(STAGED)
    release.assets.clear()
    with pytest.raises(SourceUnavailable, match="has no assets yet"):
        await source_of(web, github).digest(STAGED)


@pytest.mark.parametrize("name", ["../escape", "a/b", "a\\b", "..", "", "invisible\u202e", "x" * 256])
async def test_asset_with_an_invalid_name_is_rejected(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path, name: str
) -> None:
    github.add(STAGED.release, {name: b"x"})
    with pytest.raises(ReleaseBroken, match="not a valid file name"):
        await source_of(web, github).fetch(STAGED, tmp_path)
    assert not github.asset_requests
    assert read_release(tmp_path) == {}


async def test_too_many_assets_are_not_downloaded(web: HTTPClient, github: GitHubDouble, tmp_path: Path) -> None:
    github.add(STAGED.release, {f"{number}": b"" for number in range(release_source.MAX_FILES + 1)})
    with pytest.raises(ReleaseBroken, match="exceeds the limit of 100 files"):
        await source_of(web, github).fetch(STAGED, tmp_path)
    assert not github.asset_requests


async def test_release_without_a_signature_has_no_evidence(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, FILES)
    assert (await source_of(web, github).evidence(STAGED)).envelopes == ()


async def test_response_that_is_not_from_github_is_reported(web: HTTPClient, github: GitHubDouble) -> None:
    github.faults.append(Fault("GET", "/releases", 200, message="Welcome"))
    with pytest.raises(AnswerRefused, match="sends an invalid list of releases; check the address"):
        await source_of(web, github).list()


@pytest.mark.parametrize(("owner", "name"), [("a/b", "c"), ("a", ".."), ("a", "b?c"), ("", "c"), ("a", "b" * 101)])
def test_invalid_repository_name_is_rejected(owner: str, name: str) -> None:
    with pytest.raises(SpecError, match="github://owner/name"):
        GitHubSource(HTTPClient(environ={}), owner, name)


@pytest.mark.parametrize(
    "api", ["", "api.github.com", "ftp://h", "https://", "https://u:p@h", "https://h?x=1", "http://["]
)
def test_invalid_api_url_is_rejected(api: str) -> None:
    with pytest.raises(SpecError, match="the URL of the GitHub API is not valid"):
        GitHubSource(HTTPClient(environ={}), OWNER, REPOSITORY, api=api)
