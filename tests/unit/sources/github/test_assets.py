"""Releases of GitHub, against a double of its API."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from clusterstacks.domain.digests import content_digest
from clusterstacks.domain.errors import SpecError
from clusterstacks.http.client import HTTPClient, RetryPolicy
from clusterstacks.http.errors import (
    AnswerRefused,
    CredentialsRefused,
    RateLimited,
    ServerUnavailable,
    SourceUnavailable,
)
from clusterstacks.releases import release_source
from clusterstacks.releases.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.releases.store import ReleaseStore
from clusterstacks.sources.github.assets import GitHubSource
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


@pytest.fixture
async def web() -> AsyncIterator[HTTPClient]:
    async with HTTPClient(retries=RetryPolicy(pause=timedelta(milliseconds=1)), environ={}) as client:
        yield client


def source_of(web: HTTPClient, github: GitHubDouble, token: str = TOKEN) -> GitHubSource:
    return GitHubSource(web, OWNER, REPOSITORY, token=token, api=github.url)


async def test_a_release_is_downloaded_with_all_its_assets(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path
) -> None:
    github.add(STAGED.release, {**FILES, SIGNATURE: b"{}"})
    source = source_of(web, github)
    await source.fetch(STAGED, tmp_path)
    assert read_release(tmp_path) == FILES
    assert await source.digest(STAGED) == DIGEST
    assert (await source.evidence(STAGED)).envelopes == (b"{}",)


async def test_the_store_takes_releases_from_github(web: HTTPClient, github: GitHubDouble, tmp_path: Path) -> None:
    github.add(STAGED.release, staged_release())
    github.add(SINGLE.release, single_release())
    source = source_of(web, github)
    store = ReleaseStore(tmp_path)
    assert (await store.ensure(STAGED, source)).digest == await source.digest(STAGED)
    assert (await store.ensure(SINGLE, source)).digest == await source.digest(SINGLE)


async def test_the_token_goes_to_the_api_and_never_to_the_host_of_the_assets(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path
) -> None:
    github.add(STAGED.release, FILES)
    await source_of(web, github).fetch(STAGED, tmp_path)
    assert {request.headers["Authorization"] for request in github.requests} == {f"Bearer {TOKEN}"}
    assert len(github.asset_requests) == len(FILES)
    assert not any("Authorization" in request.headers for request in github.asset_requests)


async def test_without_a_token_none_is_sent(web: HTTPClient, github: GitHubDouble) -> None:
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


async def test_a_draft_is_no_release(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, FILES, draft=True)
    with pytest.raises(ReleaseNotFound, match=f"{STAGED} is not in {github.url}/repos/{OWNER}/{REPOSITORY}"):
        await source_of(web, github).digest(STAGED)


async def test_what_did_not_change_is_not_sent_again_and_does_not_count(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, FILES)
    source = source_of(web, github)
    assert (await source.list(), await source.digest(STAGED)) == ((STAGED.release,), DIGEST)
    before = github.remaining
    assert (await source.list(), await source.digest(STAGED)) == ((STAGED.release,), DIGEST)
    assert github.remaining == before == LIMIT - 2
    assert all("If-None-Match" in request.headers for request in github.requests[2:])


async def test_what_changed_is_seen_although_it_was_remembered(web: HTTPClient, github: GitHubDouble) -> None:
    release = github.add(STAGED.release, FILES)
    source = source_of(web, github)
    assert await source.digest(STAGED) == DIGEST
    release.assets[0].content = b"moved"
    assert await source.digest(STAGED) != DIGEST
    github.releases.clear()
    assert await source.list() == ()
    with pytest.raises(ReleaseNotFound):
        await source.digest(STAGED)


async def test_without_stated_digests_only_a_download_tells(web: HTTPClient, tmp_path: Path) -> None:
    async with GitHubDouble.started(digests=False) as github:
        github.add(STAGED.release, FILES)
        source = source_of(web, github)
        assert await source.digest(STAGED) == ""
        await source.fetch(STAGED, tmp_path)
        assert read_release(tmp_path) == FILES


async def test_a_private_repository_is_there_for_the_token_only(web: HTTPClient) -> None:
    async with GitHubDouble.started(private=True) as github:
        github.add(STAGED.release, FILES)
        assert await source_of(web, github).list() == (STAGED.release,)
        with pytest.raises(SourceUnavailable, match="is private and the token has no access"):
            await source_of(web, github, token="").list()


async def test_a_wrong_token_is_said_and_not_shown(web: HTTPClient, github: GitHubDouble) -> None:
    with pytest.raises(CredentialsRefused, match="status 401") as caught:
        await source_of(web, github, token="wrong-token").list()
    assert "wrong-token" not in f"{caught.value!r} {source_of(web, github, token='wrong-token').__dict__}"


async def test_a_refusal_without_a_limit_is_about_the_token(web: HTTPClient, github: GitHubDouble) -> None:
    github.faults.append(Fault("GET", "/releases", 403, message="Resource not accessible by personal access token"))
    with pytest.raises(CredentialsRefused, match="status 403"):
        await source_of(web, github).list()


async def test_an_exhausted_limit_is_waited_for_and_nothing_is_asked_meanwhile(
    web: HTTPClient, github: GitHubDouble
) -> None:
    github.remaining = 0
    source = source_of(web, github)
    with pytest.raises(RateLimited, match="too many requests") as caught:
        await source.list()
    assert timedelta(minutes=29) < caught.value.wait <= timedelta(minutes=31)
    with pytest.raises(RateLimited) as caught:
        await source.digest(STAGED)
    assert timedelta(minutes=29) < caught.value.wait <= timedelta(minutes=31)
    assert len(github.requests) == 1


async def test_a_secondary_limit_that_names_a_time_is_kept(web: HTTPClient, github: GitHubDouble) -> None:
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    github.faults.append(Fault("GET", "/releases", 403, {"Retry-After": "90"}, message))
    with pytest.raises(RateLimited) as caught:
        await source_of(web, github).list()
    assert caught.value.wait == timedelta(seconds=90)


@pytest.mark.parametrize("status", [403, 429])
async def test_a_secondary_limit_without_a_time_is_a_minute(web: HTTPClient, github: GitHubDouble, status: int) -> None:
    github.faults.extend([Fault("GET", "/releases", status, {}, "You have exceeded a secondary rate limit.")] * 4)
    source = source_of(web, github)
    with pytest.raises(RateLimited) as caught:
        await source.list()
    assert caught.value.wait == timedelta(minutes=1)


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_server_that_fails_for_a_moment_is_asked_again(
    web: HTTPClient, github: GitHubDouble, status: int
) -> None:
    github.add(STAGED.release, FILES)
    github.faults.append(Fault("GET", "/releases", status))
    assert await source_of(web, github).list() == (STAGED.release,)


async def test_a_server_that_goes_on_failing_is_unavailable(web: HTTPClient, github: GitHubDouble) -> None:
    github.faults.extend([Fault("GET", "/releases", 503)] * 9)
    with pytest.raises(ServerUnavailable, match="status 503"):
        await source_of(web, github).list()


@pytest.mark.parametrize(
    ("served", "problem"),
    [
        (b"b" * 99_999, "has 99999 bytes, but the source states 100000"),
        (b"x" * 100_000, "its digest is sha256:.*, but the source states sha256:"),
    ],
)
async def test_an_asset_that_is_not_what_is_stated_is_refused(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path, served: bytes, problem: str
) -> None:
    github.add(STAGED.release, FILES).assets[1].served = served
    with pytest.raises(SourceUnavailable, match=problem) as caught:
        await source_of(web, github).fetch(STAGED, tmp_path)
    assert "secret-of-the-url" not in str(caught.value)


async def test_a_signature_that_is_not_what_is_stated_is_refused(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, {SIGNATURE: b"{}"}).assets[0].served = b"[]"
    with pytest.raises(SourceUnavailable, match="digest"):
        await source_of(web, github).evidence(STAGED)


async def test_an_asset_that_goes_on_and_on_is_cut_off(
    web: HTTPClient, github: GitHubDouble, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.sources.downloads.MAX_FILE_BYTES", 1000)
    github.add(STAGED.release, {"a": b"a"}).assets[0].served = b"a" * 100_000
    with pytest.raises(ReleaseBroken, match="a is larger than 1000 bytes"):
        await source_of(web, github).fetch(STAGED, tmp_path)


async def test_an_asset_that_is_still_being_uploaded_makes_no_release(web: HTTPClient, github: GitHubDouble) -> None:
    release = github.add(STAGED.release, FILES)
    release.assets[1].state = "starter"
    with pytest.raises(SourceUnavailable, match=r"b\.tgz of release .* is not completely uploaded"):
        await source_of(web, github).digest(STAGED)
    release.assets.clear()
    with pytest.raises(SourceUnavailable, match="has no assets yet"):
        await source_of(web, github).digest(STAGED)


@pytest.mark.parametrize("name", ["../escape", "a/b", "a\\b", "..", "", "invisible\u202e", "x" * 256])
async def test_an_asset_with_a_name_that_is_none_is_refused(
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


async def test_a_release_without_a_signature_has_no_evidence(web: HTTPClient, github: GitHubDouble) -> None:
    github.add(STAGED.release, FILES)
    assert (await source_of(web, github).evidence(STAGED)).envelopes == ()


async def test_an_answer_that_is_none_of_github_is_said_to_be_so(web: HTTPClient, github: GitHubDouble) -> None:
    github.faults.append(Fault("GET", "/releases", 200, message="Welcome"))
    with pytest.raises(AnswerRefused, match="sends an invalid list of releases; is the address right"):
        await source_of(web, github).list()


@pytest.mark.parametrize(("owner", "name"), [("a/b", "c"), ("a", ".."), ("a", "b?c"), ("", "c"), ("a", "b" * 101)])
def test_a_repository_that_github_cannot_have_is_refused(owner: str, name: str) -> None:
    with pytest.raises(SpecError, match="github://owner/name"):
        GitHubSource(HTTPClient(environ={}), owner, name)


@pytest.mark.parametrize(
    "api", ["", "api.github.com", "ftp://h", "https://", "https://u:p@h", "https://h?x=1", "http://["]
)
def test_an_api_that_is_no_url_is_refused(api: str) -> None:
    with pytest.raises(SpecError, match="the URL of the GitHub API is not valid"):
        GitHubSource(HTTPClient(environ={}), OWNER, REPOSITORY, api=api)
