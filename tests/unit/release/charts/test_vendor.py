from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.semver import Constraint
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import NotThere, ServerUnavailable
from clusterstacks.net.oci.credentials import RegistryCredentials
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.charts.chart import read_chart
from clusterstacks.release.charts.dependencies import ChartRequirement
from clusterstacks.release.charts.errors import (
    ChartBroken,
    ChartDigestMismatch,
    ChartNotFound,
    ChartRepositoryRefused,
    UnsafeArchive,
)
from clusterstacks.release.charts.repository import ChartDownloader, ChartVersion, IndexRepository
from clusterstacks.release.charts.vendor import ChartDependencies
from tests.support.servers.chart_repository import ChartRepository, chart_files, chart_repository, digest_of, packaged

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from clusterstacks.net.oci.reference import Reference

LABEL = "cluster-addon/web"


@pytest.fixture
async def repository() -> AsyncIterator[ChartRepository]:
    async with chart_repository() as repository:
        yield repository


@pytest.fixture
async def web() -> AsyncIterator[HTTPClient]:
    async with HTTPClient(retries=RetryPolicy(attempts=1, pause=timedelta(0)), environ={}) as web:
        yield web


@pytest.fixture
def charts(web: HTTPClient, tmp_path: Path) -> ChartDependencies:
    return ChartDependencies(web, tmp_path / "cache")


def needing(*dependencies: tuple[str, str, str], extra: str = "", lock: str = "") -> dict[str, bytes]:
    """A chart with dependencies: name, version and repository of each; ``lock`` is the locked version."""
    fields = ("name", "version", "repository", "alias")
    documents = [dict(zip(fields, (*one, f"a{at}"), strict=True)) for at, one in enumerate(dependencies)]
    lines = "".join(
        f"- {{name: {name}, version: '{version}', repository: '{url}', alias: a{at}{extra}}}\n"
        for at, (name, version, url) in enumerate(dependencies)
    )
    files = chart_files("web", "1.0.0", extra=f"dependencies:\n{lines}")
    if lock:
        found = [document | {"version": lock} for document in documents]
        files["Chart.lock"] = f"dependencies: {found}\n".encode()
    return files


def archives(directory: Path) -> list[Path]:
    return list(directory.rglob("*.tgz"))


def added(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    return sorted(set(after) - set(before))


async def test_newest_allowed_version_is_vendored_and_reported(
    repository: ChartRepository, charts: ChartDependencies
) -> None:
    repository.add("cache", "1.1.0", "1.3.0", "1.2.0", "1.2.9", "1.2.10-rc.1")
    files = needing(("cache", "~1.2", repository.url))

    vendored = await charts.vendor(files, LABEL)

    (resolved,) = vendored.resolved
    assert (resolved.chart, resolved.name, resolved.version) == (LABEL, "cache", "1.2.9")
    assert (resolved.repository, resolved.digest) == (repository.url, digest_of(packaged("cache", "1.2.9")))
    assert vendored.files == files | {"charts/cache-1.2.9.tgz": packaged("cache", "1.2.9")}
    assert vendored.unlocked == vendored.resolved


async def test_lock_file_takes_precedence_over_newer_versions(
    repository: ChartRepository, charts: ChartDependencies
) -> None:
    repository.add("cache", "1.2.0", "1.2.9")
    files = needing(("cache", "~1.2", repository.url), lock="1.2.0")

    vendored = await charts.vendor(files, LABEL)

    assert added(files, vendored.files) == ["charts/cache-1.2.0.tgz"]
    assert vendored.unlocked == ()


async def test_pin_takes_precedence_over_newer_versions(repository: ChartRepository, web: HTTPClient) -> None:
    repository.add("cache", "1.2.0")
    files = needing(("cache", "~1.2", repository.url))
    first = await ChartDependencies(web, None).vendor(files, LABEL)
    repository.add("cache", "1.2.9")

    again = await ChartDependencies(web, None).vendor(files, LABEL, first.resolved)

    assert again == first


async def test_two_versions_of_the_same_chart_are_pinned(repository: ChartRepository, web: HTTPClient) -> None:
    repository.add("cache", "1.2.0", "1.2.9")
    files = needing(("cache", "~1.2", repository.url), ("cache", "1.2.0", repository.url))
    first = await ChartDependencies(web, None).vendor(files, LABEL)
    repository.add("cache", "1.2.10")

    again = await ChartDependencies(web, None).vendor(files, LABEL, first.resolved)

    assert added(files, first.files) == ["charts/cache-1.2.0.tgz", "charts/cache-1.2.9.tgz"]
    assert again == first


async def test_fitting_vendored_charts_stay_unchanged(repository: ChartRepository, charts: ChartDependencies) -> None:
    repository.add("cache", "1.2.9")
    files = needing(("cache", "~1.2", repository.url)) | {"charts/mine.tgz": packaged("cache", "1.2.1")}

    assert (await charts.vendor(files, LABEL)).files == files
    assert repository.asked == []


async def test_outdated_vendored_chart_is_replaced(repository: ChartRepository, charts: ChartDependencies) -> None:
    repository.add("cache", "1.2.9")
    old = {"charts/cache-1.1.0.tgz": packaged("cache", "1.1.0"), "charts/other.tgz": packaged("other", "1.0.0")}
    old |= {f"charts/cache/{path}": content for path, content in chart_files("cache", "1.0.0").items()}
    files = needing(("cache", "~1.2", repository.url)) | old

    vendored = await charts.vendor(files, LABEL)

    assert sorted(path for path in vendored.files if path.startswith("charts/")) == [
        "charts/cache-1.2.9.tgz",
        "charts/other.tgz",
    ]


async def test_disabled_dependency_is_vendored(repository: ChartRepository, charts: ChartDependencies) -> None:
    repository.add("cache", "1.2.9")
    files = needing(("cache", "~1.2", repository.url), extra=", condition: cache.enabled")

    assert added(files, (await charts.vendor(files, LABEL)).files) == ["charts/cache-1.2.9.tgz"]


async def test_same_version_from_two_repositories_is_rejected(
    repository: ChartRepository, charts: ChartDependencies
) -> None:
    repository.add("cache", "1.2.9")
    async with chart_repository() as other:
        other.publish(packaged("cache", "1.2.9", text="other"), "cache", "1.2.9")
        files = needing(("cache", "1.2.9", repository.url), ("cache", "1.2.9", other.url))

        with pytest.raises(ChartBroken, match="from two repositories"):
            await charts.vendor(files, LABEL)


async def test_the_index_is_read_once_for_all_charts(repository: ChartRepository, charts: ChartDependencies) -> None:
    repository.add("cache", "1.2.9")
    repository.add("db", "2.0.0")
    needs = needing(("cache", "1.2.9", repository.url), ("db", "^2", repository.url))

    vendored = await charts.vendor_all({"one": needs, "two": needs})

    assert [resolved.chart for one in vendored.values() for resolved in one.resolved] == ["one", "one", "two", "two"]
    assert repository.asked.count("/index.yaml") == 1


async def test_cached_archive_is_not_fetched_again(
    repository: ChartRepository, web: HTTPClient, tmp_path: Path
) -> None:
    repository.add("cache", "1.2.0", "1.2.9")
    files = needing(("cache", "~1.2", repository.url), lock="1.2.0")
    first = await ChartDependencies(web, tmp_path).vendor(files, LABEL)
    repository.asked.clear()

    assert await ChartDependencies(web, tmp_path).vendor(files, LABEL) == first
    assert await ChartDependencies(web, tmp_path, offline=True).vendor(files, LABEL) == first
    assert repository.asked == []


async def test_offline_uses_the_newest_allowed_version_of_the_cache(
    repository: ChartRepository, web: HTTPClient, tmp_path: Path
) -> None:
    repository.add("cache", "1.2.0", "1.2.9", "1.3.0")
    online = ChartDependencies(web, tmp_path)
    for constraint in ("1.2.0", "1.3.0"):
        await online.vendor(needing(("cache", constraint, repository.url)), LABEL)

    vendored = await ChartDependencies(web, tmp_path, offline=True).vendor(
        needing(("cache", "~1.2", repository.url)), LABEL
    )

    assert [resolved.version for resolved in vendored.resolved] == ["1.2.0"]


async def test_offline_without_cached_archive_fails_with_advice(
    repository: ChartRepository, web: HTTPClient, tmp_path: Path
) -> None:
    repository.add("cache", "1.2.0")

    with pytest.raises(SpecError, match=r"web: cache ~1\.2 .* is not in the cache: run once without --offline"):
        await ChartDependencies(web, tmp_path, offline=True).vendor(needing(("cache", "~1.2", repository.url)), LABEL)
    assert repository.asked == []


async def test_damaged_cache_entry_is_fetched_again(
    repository: ChartRepository, web: HTTPClient, tmp_path: Path
) -> None:
    repository.add("cache", "1.2.0")
    files = needing(("cache", "1.2.0", repository.url))
    first = await ChartDependencies(web, tmp_path).vendor(files, LABEL)
    for archive in archives(tmp_path):
        archive.write_bytes(b"")

    assert await ChartDependencies(web, tmp_path).vendor(files, LABEL) == first
    assert await ChartDependencies(web, tmp_path, offline=True).vendor(files, LABEL) == first


async def test_concurrent_processes_fill_one_cache(
    repository: ChartRepository, web: HTTPClient, tmp_path: Path
) -> None:
    repository.add("cache", "1.2.0")
    files = needing(("cache", "1.2.0", repository.url))

    found = await asyncio.gather(*(ChartDependencies(web, tmp_path).vendor(files, LABEL) for _ in range(6)))

    assert all(one == found[0] for one in found)
    assert len(archives(tmp_path)) == 1


@pytest.mark.parametrize(
    "url", ["files/cache.tgz", "/files/cache.tgz", "./files/cache.tgz", "HOST/files/cache.tgz", "files/cache.tgz?a=b"]
)
async def test_archive_url_may_be_relative(repository: ChartRepository, charts: ChartDependencies, url: str) -> None:
    content = packaged("cache", "1.2.0")
    repository.publish(content, "cache", "1.2.0", urls=[url.replace("HOST", repository.url)])
    repository.files = {"/files/cache.tgz": content}

    vendored = await charts.vendor(needing(("cache", "1.2.0", f"{repository.url}/")), LABEL)

    assert vendored.resolved[0].digest == digest_of(content)


async def test_repository_url_may_have_a_path(repository: ChartRepository, charts: ChartDependencies) -> None:
    content = packaged("cache", "1.2.0")
    index = "entries:\n  cache:\n  - version: 1.2.0\n    urls: [a/cache.tgz]\n"
    repository.files = {"/deep/stable/index.yaml": index.encode(), "/deep/stable/a/cache.tgz": content}

    vendored = await charts.vendor(needing(("cache", "1.2.0", f"{repository.url}/deep/stable")), LABEL)

    assert vendored.resolved[0].digest == digest_of(content)


async def test_archive_with_another_digest_than_the_index_is_rejected(
    repository: ChartRepository, charts: ChartDependencies, tmp_path: Path
) -> None:
    repository.publish(packaged("cache", "1.2.0"), "cache", "1.2.0", digest="0" * 64)

    with pytest.raises(
        ChartDigestMismatch, match=f"cache 1.2.0 of .* sha256:{'0' * 64}.*{digest_of(packaged('cache', '1.2.0'))}"
    ):
        await charts.vendor(needing(("cache", "1.2.0", repository.url)), LABEL)
    assert not archives(tmp_path)


@pytest.mark.parametrize("stated", [True, False])
async def test_pinned_version_with_other_content_is_rejected(
    repository: ChartRepository, web: HTTPClient, *, stated: bool
) -> None:
    old = repository.add("cache", "1.2.0")
    files = needing(("cache", "~1.2", repository.url))
    first = await ChartDependencies(web, None).vendor(files, LABEL)
    repository.index.clear()
    new = packaged("cache", "1.2.0", text="changed")
    repository.publish(new, "cache", "1.2.0", **({} if stated else {"digest": None}))

    with pytest.raises(ChartDigestMismatch, match=f"cache 1.2.0 of .*{digest_of(old)}.*{digest_of(new)}"):
        await ChartDependencies(web, None).vendor(files, LABEL, first.resolved)


BAD = [
    (packaged("other", "1.2.0"), ChartBroken, r"is the chart other 1\.2\.0"),
    (packaged("cache", "1.2.1"), ChartBroken, r"is the chart cache 1\.2\.1"),
    (b"no archive", UnsafeArchive, "not a gzip file"),
    (packaged("cache", "1.2.0")[:-20], UnsafeArchive, "truncated"),
    (
        packaged(
            "cache", "1.2.0", extra="dependencies: [{name: inner, version: 1.0.0, repository: 'https://i.example'}]\n"
        ),
        ChartBroken,
        "lacks its dependencies inner 1.0.0",
    ),
]


@pytest.mark.parametrize(("content", "error", "words"), BAD)
async def test_incomplete_or_wrong_chart_archive_is_rejected(
    repository: ChartRepository, charts: ChartDependencies, content: bytes, error: type[Exception], words: str
) -> None:
    repository.publish(content, "cache", "1.2.0")

    with pytest.raises(error, match=words):
        await charts.vendor(needing(("cache", "1.2.0", repository.url)), LABEL)


@pytest.mark.parametrize(
    ("name", "version", "words"), [("cache", "~2", "1 other versions"), ("db", "1", "does not exist")]
)
async def test_unpublished_version_is_a_dependency_error(
    repository: ChartRepository, charts: ChartDependencies, name: str, version: str, words: str
) -> None:
    repository.add("cache", "1.2.0")

    with pytest.raises(ChartNotFound, match=f"{name} {version} is not in {repository.url} .*{words}"):
        await charts.vendor(needing((name, version, repository.url)), LABEL)


async def test_missing_repository_or_archive_is_named_in_the_error(
    repository: ChartRepository, charts: ChartDependencies
) -> None:
    with pytest.raises(NotThere, match=r"/nowhere/index\.yaml does not exist"):
        await charts.vendor(needing(("cache", "1", f"{repository.url}/nowhere")), LABEL)
    repository.add("cache", "1.2.0")
    repository.files.clear()
    with pytest.raises(NotThere, match=r"/cache-1\.2\.0\.tgz does not exist"):
        await charts.vendor(needing(("cache", "1", repository.url)), LABEL)


@pytest.mark.parametrize(
    "repository_url", ["@stable", "alias:stable", "", "ftp://h.example", "cache", "https://", "http:///x", "oci://"]
)
async def test_unsupported_repository_is_rejected_with_advice(charts: ChartDependencies, repository_url: str) -> None:
    with pytest.raises(SpecError, match=r"write|correct|use|expected|add the chart to charts/"):
        await charts.vendor(needing(("cache", "1.2.0", repository_url)), LABEL)


async def test_plain_http_to_another_host_is_rejected(charts: ChartDependencies) -> None:
    with pytest.raises(SpecError, match="plain HTTP"):
        await charts.vendor(needing(("cache", "1.2.0", "http://charts.example.com")), LABEL)


@pytest.mark.parametrize("allowed", ["", "charts.example.com", "127.0.0.1:1", "*.0.0.1:*/other"])
async def test_disallowed_host_is_not_contacted(
    repository: ChartRepository, web: HTTPClient, tmp_path: Path, allowed: str
) -> None:
    repository.add("cache", "1.2.0")
    files = needing(("cache", "1.2.0", repository.url))
    await ChartDependencies(web, tmp_path).vendor(files, LABEL)
    repository.asked.clear()
    host = repository.url.removeprefix("http://")

    with pytest.raises(ChartRepositoryRefused, match=f"is not allowed: allow {host} with --chart-repositories"):
        await ChartDependencies(web, tmp_path, allowed=AllowedHosts.parse(allowed)).vendor(files, LABEL)
    assert repository.asked == []


async def test_redirect_to_a_disallowed_host_is_rejected(repository: ChartRepository, web: HTTPClient) -> None:
    async with chart_repository() as other:
        content = other.add("cache", "1.2.0")
        allowed = AllowedHosts.parse(repository.url.removeprefix("http://"))
        charts = ChartDependencies(web, None, allowed=allowed)
        files = needing(("cache", "1.2.0", repository.url))
        host = other.url.removeprefix("http://")

        repository.publish(content, "cache", "1.2.0", urls=[f"{other.url}/cache-1.2.0.tgz"])
        with pytest.raises(ChartRepositoryRefused, match=f"allow {host} with"):
            await charts.vendor(files, LABEL)

        repository.index["cache"][0]["urls"] = ["cache-1.2.0.tgz"]
        repository.redirects["/cache-1.2.0.tgz"] = f"{other.url}/cache-1.2.0.tgz"
        with pytest.raises(ChartRepositoryRefused, match=f"allow {host} with"):
            await charts.vendor(files, LABEL)
        assert other.asked == []

        both = AllowedHosts.parse("127.0.0.1:*")
        assert (await ChartDependencies(web, None, allowed=both).vendor(files, LABEL)).resolved


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "http://169.254.169.254/x.tgz", "gopher://h/x", "//[::", "oci://h"]
)
async def test_index_with_an_unsupported_url_is_rejected(
    repository: ChartRepository, web: HTTPClient, url: str
) -> None:
    repository.publish(packaged("cache", "1.2.0"), "cache", "1.2.0", urls=[url])

    with pytest.raises((SpecError, ServerUnavailable)):
        await ChartDependencies(web, None).vendor(needing(("cache", "1.2.0", repository.url)), LABEL)


async def test_credentials_are_sent_to_their_host_and_never_shown(repository: ChartRepository, web: HTTPClient) -> None:
    asked: list[str] = []

    async def find(reference: Reference) -> RegistryCredentials:
        asked.append(reference.registry)
        return RegistryCredentials("author", "not-a-secret")

    repository.add("cache", "1.2.0")
    charts = ChartDependencies(web, None, credentials=find)

    vendored = await charts.vendor(needing(("cache", "1.2.0", repository.url)), LABEL)

    assert repository.headers["Authorization"].startswith("Basic ")
    assert set(asked) == {repository.url.removeprefix("http://")}
    assert "not-a-secret" not in repr(vendored)


NEIGHBOUR = {f"common/{path}": content for path, content in chart_files("common", "1.4.0").items()}


async def test_local_chart_of_the_stack_is_packed_reproducibly(charts: ChartDependencies) -> None:
    files = needing(("common", "~1.4", "file://../../common"))
    tree = NEIGHBOUR | {"common/.helmignore": b"*.bak\n", "common/x.bak": b"scratch"}

    vendored = await charts.vendor(files, LABEL, tree=tree)
    again = await charts.vendor(files, LABEL, tree=dict(reversed(tree.items())))

    packed = vendored.files["charts/common-1.4.0.tgz"]
    assert again == vendored
    assert read_chart(packed, "common") == chart_files("common", "1.4.0") | {".helmignore": b"*.bak\n"}
    assert vendored.resolved[0].repository == "file://../../common"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("file:///etc", "leaves the stack"),
        ("file://../../../common", "leaves the stack"),
        ("file://../..", "leaves the stack"),
        ("file://../nowhere", "refers to cluster-addon/nowhere, which is not a chart"),
    ],
)
async def test_file_repository_outside_of_the_stack_or_without_chart_is_rejected(
    charts: ChartDependencies, path: str, words: str
) -> None:
    with pytest.raises(ChartRepositoryRefused, match=words):
        await charts.vendor(needing(("common", "~1.4", path)), LABEL, tree=NEIGHBOUR)


async def test_local_chart_of_another_version_is_rejected(charts: ChartDependencies) -> None:
    with pytest.raises(ChartBroken, match=r"common is the chart common 1\.4\.0, but .* requires common ~1\.5"):
        await charts.vendor(needing(("common", "~1.5", "file://../../common")), LABEL, tree=NEIGHBOUR)


@pytest.mark.parametrize("url", ["https://me:s3cret@charts.example/x", "oci://me:s3cret@r.example/x", "http://me@h/"])
async def test_credentials_in_a_repository_url_are_rejected_and_not_shown(charts: ChartDependencies, url: str) -> None:
    with pytest.raises(ChartRepositoryRefused, match="contains credentials") as refused:
        await charts.vendor(needing(("common", "~1.4", url)), LABEL, tree=NEIGHBOUR)
    assert "s3cret" not in refused.value.message


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:8001/api/x.tgz",
        "https://localhost/x.tgz",
        "https://169.254.169.254/x.tgz",
        "oci://127.0.0.1:5000/x:1.0.0",
        "http://charts.example/x.tgz",
        "https://me:s3cret@charts.example/x.tgz",
    ],
)
async def test_index_cannot_redirect_into_the_local_network(url: str) -> None:
    async def no_credentials(reference: Reference) -> RegistryCredentials:
        raise AssertionError(reference)

    async with HTTPClient(environ={}) as web:
        repository = IndexRepository(ChartDownloader(web, None, no_credentials), "https://charts.example/stable")
        with pytest.raises(ChartRepositoryRefused, match="invalid or disallowed URL"):
            await repository.fetch(
                ChartRequirement("x", Constraint.parse("1.0.0"), "https://h.example"), ChartVersion("1.0.0", "", url)
            )
