"""Checks of file names and sizes before a download, and conditional requests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from clusterstacks.net.http.conditional_get import ConditionalCache
from clusterstacks.net.http.messages import HTTPDocument
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.release_source import MAX_FILE_BYTES, MAX_RELEASE_BYTES
from clusterstacks.release.sources.downloads import ExpectedFile, check_files, is_file_name
from tests.support.builders.releases import STAGED

if TYPE_CHECKING:
    from collections.abc import Mapping


@given(st.text(st.sampled_from("./\\a\n\x00é"), max_size=6) | st.text(max_size=300))
def test_accepted_file_name_stays_in_its_directory(name: str) -> None:
    if is_file_name(name):
        path = Path("/store/release", name)
        assert (path.parent, path.name) == (Path("/store/release"), name)
        assert ".." not in path.parts
        assert len(name.encode()) <= 255


@pytest.mark.parametrize("name", ["metadata.yaml", "a b", ".hidden", "...", "ü.tgz", "x" * 255])
def test_plain_file_name_does_not_raise(name: str) -> None:
    check_files(STAGED, [ExpectedFile(name)])


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ([ExpectedFile("a"), ExpectedFile("a")], "'a' is listed twice"),
        ([ExpectedFile("a", size=MAX_FILE_BYTES + 1)], f"a is larger than {MAX_FILE_BYTES} bytes"),
        ([ExpectedFile(name, size=MAX_FILE_BYTES) for name in "abc"], f"together are larger than {MAX_RELEASE_BYTES}"),
        ([ExpectedFile("é" * 128)], "not a valid file name"),
    ],
)
def test_invalid_file_name_or_size_is_rejected_before_the_download(files: list[ExpectedFile], problem: str) -> None:
    with pytest.raises(ReleaseBroken, match=problem):
        check_files(STAGED, files)


class Server:
    """Has a document at each URL, with an ETag where it says so."""

    def __init__(self, *, etags: bool = True) -> None:
        self.etags = etags
        self.conditions: list[dict[str, str]] = []

    async def read(self, url: str, condition: Mapping[str, str]) -> HTTPDocument:
        self.conditions.append(dict(condition))
        headers = CIMultiDictProxy(CIMultiDict({"ETag": f'"{url}"'} if self.etags else {}))
        if condition.get("If-None-Match") == f'"{url}"':
            return HTTPDocument(304, headers, b"")
        return HTTPDocument(200, headers, url.encode())


async def test_least_recently_used_document_is_evicted() -> None:
    server = Server()
    known = ConditionalCache(server.read, lambda document: document.body, most=2)
    for url in ("a", "b", "a", "c", "a", "b"):
        assert await known.get(url) == url.encode()
    assert ["If-None-Match" in condition for condition in server.conditions] == [False, False, True, False, True, False]


async def test_document_without_etag_or_date_is_read_each_time() -> None:
    server = Server(etags=False)
    known = ConditionalCache(server.read, lambda document: document.body, most=2)
    assert [await known.get("a"), await known.get("a")] == [b"a", b"a"]
    assert server.conditions == [{}, {}]
