from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.release.charts.chart_cache import DiskChartCache
from tests.support.servers.chart_repository import digest_of

if TYPE_CHECKING:
    from pathlib import Path

PLACE = ("https://h.example", "cache")


def test_stored_archive_is_found_by_version_and_digest(tmp_path: Path) -> None:
    cache = DiskChartCache(tmp_path / "deep" / "cache")
    cache.store(*PLACE, "1.0.0", b"one")
    cache.store(*PLACE, "1.1.0", b"two")

    again = DiskChartCache(tmp_path / "deep" / "cache")
    assert sorted(again.versions(*PLACE)) == ["1.0.0", "1.1.0"]
    assert again.read(again.digest(*PLACE, "1.1.0")) == b"two"
    assert again.digest("https://other.example", "cache", "1.0.0") == ""


def test_damaged_archive_is_ignored(tmp_path: Path) -> None:
    cache = DiskChartCache(tmp_path)
    cache.store(*PLACE, "1.0.0", b"one")
    (archive,) = tmp_path.glob("archives/*")
    archive.write_bytes(b"on")

    assert cache.read(digest_of(b"one")) is None


@pytest.mark.parametrize("note", [b"", b"[]", b"{", b"[" * 100_000, b'{"version": "1.0.0"}'])
def test_damaged_record_is_ignored(tmp_path: Path, note: bytes) -> None:
    cache = DiskChartCache(tmp_path)
    cache.store(*PLACE, "1.0.0", b"one")
    (file,) = tmp_path.glob("versions/*/*")
    file.write_bytes(note)

    assert cache.digest(*PLACE, "1.0.0") == ""


@pytest.mark.parametrize("digest", ["", "sha256:../../x", "/etc/passwd"])
def test_invalid_digest_reads_nothing(tmp_path: Path, digest: str) -> None:
    assert DiskChartCache(tmp_path).read(digest) is None


def test_concurrent_writers_store_the_same_archive(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(lambda number: DiskChartCache(tmp_path).store(*PLACE, f"1.0.{number % 3}", b"same"), range(48))
        )

    assert sorted(DiskChartCache(tmp_path).versions(*PLACE)) == ["1.0.0", "1.0.1", "1.0.2"]
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 4


def test_unwritable_cache_directory_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(DependencyError, match="cannot be used"):
        DiskChartCache(tmp_path / "file").store(*PLACE, "1.0.0", b"one")
    assert DiskChartCache(tmp_path / "file").read(digest_of(b"one")) is None
    assert DiskChartCache(tmp_path / "file").versions(*PLACE) == ()


def test_nothing_is_stored_without_a_directory() -> None:
    cache = DiskChartCache(None)
    cache.store(*PLACE, "1.0.0", b"one")

    assert cache.read(digest_of(b"one")) is None
    assert cache.versions(*PLACE) == ()
