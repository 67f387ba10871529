from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from clusterstacks.charts.chart_cache import ChartCacheUnavailable, Shelf
from tests.support.chart_repository import digest_of

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ("https://h.example", "cache")


def test_what_was_kept_is_found_by_version_and_digest(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "deep" / "cache")
    shelf.keep(*PLACE, "1.0.0", b"one")
    shelf.keep(*PLACE, "1.1.0", b"two")

    again = Shelf(tmp_path / "deep" / "cache")
    assert sorted(again.versions(*PLACE)) == ["1.0.0", "1.1.0"]
    assert again.read(again.digest(*PLACE, "1.1.0")) == b"two"
    assert again.digest("https://other.example", "cache", "1.0.0") == ""


def test_a_damaged_archive_is_as_good_as_none(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path)
    shelf.keep(*PLACE, "1.0.0", b"one")
    (archive,) = tmp_path.glob("archives/*")
    archive.write_bytes(b"on")

    assert shelf.read(digest_of(b"one")) is None


@pytest.mark.parametrize("note", [b"", b"[]", b"{", b"[" * 100_000, b'{"version": "1.0.0"}'])
def test_a_damaged_note_is_as_good_as_none(tmp_path: Path, note: bytes) -> None:
    shelf = Shelf(tmp_path)
    shelf.keep(*PLACE, "1.0.0", b"one")
    (file,) = tmp_path.glob("versions/*/*")
    file.write_bytes(note)

    assert shelf.digest(*PLACE, "1.0.0") == ""


@pytest.mark.parametrize("digest", ["", "sha256:../../x", "/etc/passwd"])
def test_a_digest_that_is_none_reads_nothing(tmp_path: Path, digest: str) -> None:
    assert Shelf(tmp_path).read(digest) is None


def test_many_may_keep_the_same_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: Shelf(tmp_path).keep(*PLACE, f"1.0.{number % 3}", b"same"), range(48)))

    assert sorted(Shelf(tmp_path).versions(*PLACE)) == ["1.0.0", "1.0.1", "1.0.2"]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4


def test_a_disk_that_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(ChartCacheUnavailable, match="cannot be used"):
        Shelf(tmp_path / "file").keep(*PLACE, "1.0.0", b"one")
    assert Shelf(tmp_path / "file").read(digest_of(b"one")) is None
    assert Shelf(tmp_path / "file").versions(*PLACE) == ()


def test_without_a_directory_nothing_is_kept() -> None:
    shelf = Shelf(None)
    shelf.keep(*PLACE, "1.0.0", b"one")

    assert shelf.read(digest_of(b"one")) is None
    assert shelf.versions(*PLACE) == ()
