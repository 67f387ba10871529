"""The same files give the same archive, and no archive deletes files of the layers below it."""

from __future__ import annotations

import gzip
import io
import tarfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.image.layers import Directory, File, Layer, Link, archive, lay_out, pack

if TYPE_CHECKING:
    from pathlib import Path

LAYER: Layer = {
    "usr/lib/b.py": File(b"b"),
    "usr/bin/run": File(b"#!", executable=True),
    "usr/lib/a.so": Link("b.py"),
    "tmp": Directory(0o1777),
    "home/nonroot": Directory(0o700, 65532),
}


def members(plain: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        return tar.getmembers()


def test_an_archive_has_sorted_paths_with_all_parents_fixed_times_and_owners() -> None:
    found = members(pack(LAYER))

    assert [(one.name, oct(one.mode), one.uid, one.gid) for one in found] == [
        ("home", "0o755", 0, 0),
        ("home/nonroot", "0o700", 65532, 65532),
        ("tmp", "0o1777", 0, 0),
        ("usr", "0o755", 0, 0),
        ("usr/bin", "0o755", 0, 0),
        ("usr/bin/run", "0o755", 0, 0),
        ("usr/lib", "0o755", 0, 0),
        ("usr/lib/a.so", "0o777", 0, 0),
        ("usr/lib/b.py", "0o644", 0, 0),
    ]
    assert {(one.mtime, one.uname, one.gname) for one in found} == {(0, "", "")}


@given(st.permutations(list(LAYER)))
def test_the_order_in_which_files_were_found_changes_nothing(order: list[str]) -> None:
    assert archive({name: LAYER[name] for name in order}) == archive(LAYER)


def test_the_gzip_header_has_neither_a_time_nor_a_name() -> None:
    packed = archive(LAYER)

    assert packed.content[:4] == b"\x1f\x8b\x08\x00"  # deflate, and no flag: neither a name nor a comment follows
    assert packed.content[4:8] == bytes(4)
    assert gzip.decompress(packed.content) == pack(LAYER)
    assert packed.size == len(pack(LAYER))


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("/etc/passwd", "not a plain path"),
        ("a/../b", "not a plain path"),
        ("a//b", "not a plain path"),
        ("./a", "not a plain path"),
        ("examples/.wh.agent-health.yaml", "would delete another file"),
        (".wh..wh..opq/a", "would delete another file"),
    ],
)
def test_a_path_that_no_layer_may_have_is_refused(name: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        pack({name: File(b"")})


def test_files_below_a_link_are_refused_because_they_would_replace_it() -> None:
    with pytest.raises(ValueError, match="lib is not a directory"):
        pack({"lib": Link("usr/lib"), "lib/libc.so.6": File(b"")})


def test_a_layer_laid_out_replaces_what_was_there(tmp_path: Path) -> None:
    lay_out({"a": File(b"old"), "b": File(b"old")}, tmp_path)
    lay_out({"a": Link("c"), "b": File(b"new", executable=True), "c": Directory(0o700)}, tmp_path)

    assert (tmp_path / "a").readlink().name == "c"
    assert (tmp_path / "b").read_bytes() == b"new"
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "c").stat().st_mode & 0o777 == 0o700
