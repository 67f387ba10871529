"""Publishing to GitHub, against a double of its API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import InvalidName, parse_release
from clusterstacks.net.http.errors import AnswerRefused, CredentialsRefused, RateLimited, ServerUnavailable
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken, ReleaseTaken
from clusterstacks.release.release_source import EnvelopeKind
from clusterstacks.release.sources.github.assets import GitHubSource
from clusterstacks.release.sources.github.publish import publish
from tests.support.builders.releases import STAGED, read_release, staged_release, write_release
from tests.support.fakes.github import OWNER, REPOSITORY, TOKEN, Fault, GitHubDouble

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.net.http.client import HTTPClient

FILES = staged_release()
SIGNATURE, STAGES = f"{STAGED}.dsse.json", f"{STAGED}.intoto.jsonl"


def silent(_: str) -> None:
    """Report nothing."""


@pytest.fixture(params=[True, False], ids=["digests stated", "no digests"])
async def github(request: pytest.FixtureRequest) -> AsyncIterator[GitHubDouble]:
    async with GitHubDouble.started(digests=request.param) as double:
        yield double


@pytest.fixture
def source(web: HTTPClient, github: GitHubDouble) -> GitHubSource:
    return GitHubSource(web, OWNER, REPOSITORY, token=TOKEN, api=github.url)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_release(tmp_path / STAGED.release, FILES)


def published(github: GitHubDouble) -> dict[str, bytes]:
    (release,) = github.releases
    assert not release.draft
    return {asset.name: asset.content for asset in release.assets}


async def test_published_release_and_signature_can_be_fetched(
    source: GitHubSource, github: GitHubDouble, directory: Path, tmp_path: Path
) -> None:
    (tmp_path / SIGNATURE).write_bytes(b"{}")
    told: list[str] = []
    assert await publish(directory, source, told.append)
    assert published(github) == {**FILES, SIGNATURE: b"{}"}
    assert f"uploading {SIGNATURE} (2 bytes)" in told
    (tmp_path / "there").mkdir()
    await source.fetch(STAGED, tmp_path / "there")
    assert read_release(tmp_path / "there") == FILES


async def test_release_is_a_draft_until_all_assets_are_uploaded(
    source: GitHubSource, github: GitHubDouble, directory: Path
) -> None:
    seen: list[set[str]] = []

    def look() -> None:
        (draft,) = github.releases
        assert draft.draft
        seen.append({asset.name for asset in draft.assets})

    github.before_publishing = look
    assert await publish(directory, source, silent)
    assert seen == [set(FILES)]


async def test_only_a_stable_version_may_become_the_latest(
    source: GitHubSource, github: GitHubDouble, tmp_path: Path
) -> None:
    beta = parse_release("local-tiny-1-35-v0-beta-1")
    await publish(write_release(tmp_path / beta.release, staged_release(beta)), source, silent)
    await publish(write_release(tmp_path / STAGED.release, FILES), source, silent)
    assert {release.tag: release.prerelease for release in github.releases} == {
        beta.release: True,
        STAGED.release: False,
    }


async def test_publishing_the_same_content_again_changes_nothing(
    source: GitHubSource, github: GitHubDouble, directory: Path
) -> None:
    github.add(STAGED.release, FILES)
    assert not await publish(directory, source, silent)
    assert {request.method for request in github.requests} == {"GET"}


async def test_different_content_under_a_published_name_is_rejected(
    source: GitHubSource, github: GitHubDouble, directory: Path
) -> None:
    github.add(STAGED.release, {**FILES, "hashes.json": b"{}"})
    with pytest.raises(ReleaseTaken, match="with a higher version"):
        await publish(directory, source, silent)
    assert {request.method for request in github.requests} == {"GET"}


@pytest.mark.parametrize("file", [SIGNATURE, STAGES])
@pytest.mark.parametrize("before", [None, b"old"])
async def test_signature_and_statements_are_added_to_a_published_release(
    source: GitHubSource, github: GitHubDouble, directory: Path, tmp_path: Path, file: str, before: bytes | None
) -> None:
    github.add(STAGED.release, {**FILES, **({file: before} if before else {})})
    (tmp_path / file).write_bytes(b"new")
    assert await publish(directory, source, silent)
    assert published(github) == {**FILES, file: b"new"}


async def test_statements_of_stages_are_no_files_of_the_release(
    source: GitHubSource, directory: Path, tmp_path: Path
) -> None:
    digest = read_contents(STAGED, directory).digest
    (tmp_path / STAGES).write_bytes(b"{}\n{}\n")
    assert await publish(directory, source, silent)
    assert await source.digest(STAGED) in ("", digest)
    assert (await source.evidence(STAGED, EnvelopeKind.STAGES)).envelopes == (b"{}", b"{}")
    assert (await source.evidence(STAGED)).envelopes == ()


async def test_leftover_draft_is_completed(source: GitHubSource, github: GitHubDouble, directory: Path) -> None:
    github.add(
        STAGED.release, {"metadata.yaml": FILES["metadata.yaml"], "hashes.json": b"half", "other": b""}, draft=True
    )
    assert await publish(directory, source, silent)
    assert published(github) == FILES
    uploads = sum(request.method == "POST" for request in github.requests)
    # What GitHub does not state the digest of is sent again.
    assert uploads == (len(FILES) - 1 if github.digests else len(FILES))


async def test_failed_upload_is_repeated(source: GitHubSource, github: GitHubDouble, directory: Path) -> None:
    github.faults.extend([Fault("POST", "/assets", 502), Fault("POST", "/assets", 502)])
    assert await publish(directory, source, silent)
    assert published(github) == FILES


async def test_upload_with_a_lost_response_is_not_repeated(
    source: GitHubSource, github: GitHubDouble, directory: Path
) -> None:
    github.faults.append(Fault("POST", "/assets", 0))
    assert await publish(directory, source, silent)
    assert published(github) == FILES
    uploads = sum(request.method == "POST" for request in github.requests) - 1
    assert uploads == len(FILES) + (0 if github.digests else 1)


async def test_assets_uploaded_by_an_interrupted_run_are_kept(
    source: GitHubSource, github: GitHubDouble, directory: Path
) -> None:
    github.faults.extend([Fault("POST", "/assets", 502)] * 3)
    with pytest.raises(ServerUnavailable, match="status 502"):
        await publish(directory, source, silent)
    (draft,) = github.releases
    assert draft.draft
    assert await publish(directory, source, silent)
    assert published(github) == FILES


async def test_upload_is_not_retried_during_a_rate_limit(
    source: GitHubSource, github: GitHubDouble, directory: Path
) -> None:
    github.faults.append(Fault("POST", "/assets", 403, {"Retry-After": "60"}))
    with pytest.raises(RateLimited):
        await publish(directory, source, silent)
    assert github.asked()[-1].startswith("POST ")


@pytest.mark.parametrize(("theirs", "refused"), [(FILES, False), ({"metadata.yaml": b"else"}, True)])
async def test_concurrently_published_release_is_not_overwritten(
    source: GitHubSource, github: GitHubDouble, directory: Path, theirs: dict[str, bytes], *, refused: bool
) -> None:
    def publish_first() -> None:
        github.add(STAGED.release, theirs)

    github.before_publishing = publish_first
    if refused:
        with pytest.raises(ReleaseTaken):
            await publish(directory, source, silent)
    else:
        assert not await publish(directory, source, silent)
    assert published(github) == theirs


async def test_asset_renamed_by_github_is_detected_before_publication(
    source: GitHubSource, github: GitHubDouble, tmp_path: Path
) -> None:
    directory = write_release(tmp_path / STAGED.release, {**FILES, "a b.yaml": b"x"})
    with pytest.raises(AnswerRefused, match=r"a\.b\.yaml with another name"):
        await publish(directory, source, silent)
    assert [release.draft for release in github.releases] == [True]


async def test_token_is_not_sent_to_hosts_other_than_the_api(
    source: GitHubSource, github: GitHubDouble, directory: Path
) -> None:
    github.uploads_at = "http://localhost:1/api/uploads"
    with pytest.raises(AnswerRefused, match="wants assets sent to http://localhost:1/"):
        await publish(directory, source, silent)


async def test_publishing_needs_a_token_with_write_permission(
    web: HTTPClient, github: GitHubDouble, directory: Path
) -> None:
    with pytest.raises(SpecError, match="set GIT_ACCESS_TOKEN"):
        await publish(directory, GitHubSource(web, OWNER, REPOSITORY, api=github.url), silent)
    assert not github.requests
    github.faults.append(Fault("POST", "/releases", 404, message="Not Found"))
    source = GitHubSource(web, OWNER, REPOSITORY, token=TOKEN, api=github.url)
    with pytest.raises(CredentialsRefused, match="status 404"):
        await publish(directory, source, silent)


async def test_invalid_release_is_not_published(source: GitHubSource, github: GitHubDouble, tmp_path: Path) -> None:
    without = {name: content for name, content in FILES.items() if name != "metadata.yaml"}
    with pytest.raises(ReleaseBroken, match=r"metadata\.yaml"):
        await publish(write_release(tmp_path / STAGED.release, without), source, silent)
    assert not github.requests


async def test_directory_without_a_release_name_is_not_published(source: GitHubSource, tmp_path: Path) -> None:
    with pytest.raises(InvalidName):
        await publish(tmp_path, source, silent)


async def test_release_with_files_of_node_images_is_refused(
    source: GitHubSource, github: GitHubDouble, tmp_path: Path
) -> None:
    name = parse_release("openstack-tiny-1-35-v1")
    options = "{name: node, disk_format: qcow2, container_format: bare}"
    listed = (
        "apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1\nopenStackNodeImages:\n"
        f"- {{url: 'artifact:node', checksum: 'sha256:{'0' * 64}', createOpts: {options}}}\n"
    )
    files = staged_release(name) | {"node-images.yaml": listed.encode()}

    with pytest.raises(SpecError, match="GitHub cannot hold the files of node images"):
        await publish(write_release(tmp_path / name.release, files), source, silent)
    assert not github.releases
