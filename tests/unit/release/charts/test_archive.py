from __future__ import annotations

import contextlib
import io
import os
import tarfile
import unicodedata
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.release.charts.archive import ArchiveLimits, read_archive, write_archive
from clusterstacks.release.charts.errors import UnsafeArchive
from tests.support.builders.releases import GZIP, gzipped, tar_of

FILES = {"a/Chart.yaml": b"name: a\n", "a/templates/x.yaml": b"x" * 2000, "b": b""}
SMALL = ArchiveLimits(members=3, file_bytes=1000, total_bytes=20_000, ratio=200)

PART = st.text(st.characters(codec="utf-8", exclude_characters="/\\"), min_size=1, max_size=20).filter(
    lambda part: part.isprintable() and part not in (".", "..")
)


def single_paths(paths: list[list[str]]) -> list[str]:
    """Paths that differ on every file system, none of them inside another."""
    seen: set[str] = set()
    kept = []
    for parts in paths:
        tops = {_fold("/".join(parts[: depth + 1])) for depth in range(len(parts))}
        if not tops & seen:
            kept.append("/".join(parts))
        seen |= tops
    return kept


def _fold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def test_read_returns_what_write_packed() -> None:
    assert read_archive(write_archive(FILES), "x") == FILES


@settings(deadline=None)
@given(st.lists(st.lists(PART, min_size=1, max_size=4), max_size=8).map(single_paths), st.binary(max_size=700))
def test_safe_names_survive_a_round_trip(paths: list[str], content: bytes) -> None:
    files = dict.fromkeys(paths, content)
    packed = write_archive(files)

    assert read_archive(packed, "x") == files
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        assert sorted(tar.getnames()) == sorted(files)


def test_packed_bytes_depend_only_on_names_and_contents() -> None:
    reversed_files = dict(reversed(FILES.items()))

    assert write_archive(FILES) == write_archive(reversed_files)
    with tarfile.open(fileobj=io.BytesIO(write_archive(FILES))) as tar:
        assert {(m.mtime, m.uid, m.gid, m.uname, m.mode) for m in tar} == {(0, 0, 0, "", 0o644)}


@pytest.mark.parametrize("tar_format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_tar_formats_of_common_writers_are_read(tar_format: int) -> None:
    long = "/".join(["directory" * 4] * 4) + "/file.yaml"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", format=tar_format, pax_headers={"comment": "x"}) as tar:
        for name in ("./", "./a/", "./a/b"):
            member = tarfile.TarInfo(name.rstrip("/"))
            member.type = tarfile.DIRTYPE if name.endswith("/") else tarfile.REGTYPE
            tar.addfile(member)
        member = tarfile.TarInfo(long)
        member.size = 3
        tar.addfile(member, io.BytesIO(b"abc"))

    assert read_archive(stream.getvalue(), "x") == {"a/b": b"", long: b"abc"}


def test_gzip_file_with_several_members_is_read() -> None:
    tar = tar_of(("a", b"1"), ("b", b"2"))

    assert read_archive(gzipped(tar[:700]) + gzipped(tar[700:]), "x") == {"a": b"1", "b": b"2"}


def becomes(kind: bytes, target: str = "") -> bytes:
    def change(member: tarfile.TarInfo) -> None:
        member.type, member.linkname = kind, target

    return tar_of(("a", b""), ("evil", b""), change=change)


def pax(**headers: str) -> bytes:
    def change(member: tarfile.TarInfo) -> None:
        member.pax_headers = headers

    return tar_of(("evil", b"x"), change=change)


def broken(at: int, content: bytes) -> bytes:
    tar = bytearray(tar_of(("evil", b"x" * 600)))
    tar[at : at + len(content)] = content
    return bytes(tar)


def resigned(at: int, content: bytes) -> bytes:
    """A first header that is invalid but has the right checksum."""
    tar = bytearray(broken(at, content))
    tar[148:156] = b" " * 8
    tar[148:156] = f"{sum(tar[:512]):06o}\0 ".encode()
    return bytes(tar)


HOSTILE = {
    "a symbolic link": (becomes(tarfile.SYMTYPE, "/etc/passwd"), "is a symbolic link"),
    "a hard link": (becomes(tarfile.LNKTYPE, "a"), "is a hard link"),
    "a character device": (becomes(tarfile.CHRTYPE), "is a character device"),
    "a block device": (becomes(tarfile.BLKTYPE), "is a block device"),
    "a pipe": (becomes(tarfile.FIFOTYPE), "is a named pipe"),
    "an old sparse file": (becomes(tarfile.GNUTYPE_SPARSE), "is a sparse file"),
    "a long link name": (becomes(b"K"), "has a long link name"),
    "an unknown type": (becomes(b"Z"), "has the unknown type"),
    "a new sparse file": (pax(**{"GNU.sparse.major": "1"}), "GNU.sparse.major"),
    "a hidden size": (pax(size="99999999999"), "'size'"),
    "a directory with content": (resigned(156, b"5"), "is a directory with content"),
    "a way up": (tar_of(("a/../../evil", b"")), "leaves the archive"),
    "an absolute path": (tar_of(("/etc/evil", b"")), "has an absolute path"),
    "a backslash": (tar_of(("a\\evil", b"")), "backslash"),
    "a line end in a name": (tar_of(("a\nevil", b"")), "invisible character"),
    "a name of dots": (tar_of(("./.", b"")), "without a name"),
    "a long path": (tar_of(("/".join(["d" * 200] * 6), b"")), "has a name that is too long"),
    "a long part": (tar_of(("d" * 256, b"")), "has a name that is too long"),
    "a name that is not UTF-8": (resigned(0, b"\xff\xfe"), "not UTF-8"),
    "the same name twice": (tar_of(("evil", b"1"), ("./evil", b"2")), "exists twice"),
    "names apart by case": (tar_of(("Evil", b"1"), ("evil", b"2")), "exists twice"),
    "directories apart by case": (tar_of(("D/evil", b"1"), ("d/other", b"2")), "exists twice"),
    "names apart by Unicode form": (tar_of(("\u00e9vil", b"1"), ("e\u0301vil", b"2")), "exists twice"),
    "a file as directory": (tar_of(("evil", b"1"), ("evil/x", b"2")), "exists twice"),
    "a directory as file": (tar_of(("evil/x", b"1"), ("evil", b"2")), "exists twice"),
    "too many members": (tar_of(*((f"evil{i}", b"") for i in range(4))), "exceeds the limit of 3 members"),
    "too large a file": (tar_of(("evil", b"x" * 1001)), "has 1001 bytes, more than the limit of 1000"),
    "a huge size": (resigned(124, b"77777777777\0"), "more than the limit of 1000"),
    "a size in another notation": (resigned(124, b"\x80" + b"\0" * 11), "no valid size"),
    "a negative size": (resigned(124, b"-0000000001\0"), "no valid size"),
    "a wrong checksum": (broken(0, b"other"), "damaged header"),
    "a broken second header": (tar_of(("a", b""))[:512] + b"x" * 512, "damaged header"),
    "content behind the end": (tar_of(("evil", b"")) + b"x", "has data after its end"),
    "a cut off header": (tar_of(("evil", b""))[:300], "truncated"),
    "cut off content": (tar_of(("evil", b"x" * 600))[:1200], "'evil' is truncated"),
    "a name without a member": (pax(path="evil")[:1024], "is missing after its extended header"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archive_is_rejected(case: str) -> None:
    tar, complaint = HOSTILE[case]

    with pytest.raises(UnsafeArchive, match=complaint) as caught:
        read_archive(gzipped(tar), "release x: y.tgz", SMALL)
    assert caught.value.message.startswith("release x: y.tgz")
    assert caught.value.message.endswith("build the release again")


def test_damaged_extended_header_is_rejected() -> None:
    for record in (b"99 path=a\n", b"x path=a\n", b"9 path=a\n\n", b"8 path=a", b"-5 path=a\n", b"7 path\n"):
        stream = tar_of(("ignored", record), change=lambda member: setattr(member, "type", tarfile.XHDTYPE))
        with pytest.raises(UnsafeArchive, match="extended header"):
            read_archive(gzipped(stream), "x")


def test_global_header_with_a_path_is_rejected() -> None:
    stream = tar_of(("ignored", b"13 path=evil\n"), change=lambda member: setattr(member, "type", tarfile.XGLTYPE))
    with pytest.raises(UnsafeArchive, match="'path'"):
        read_archive(gzipped(stream), "x")


def test_extended_header_above_the_limit_is_rejected() -> None:
    stream = tar_of(("ignored", b"x" * 100_000), change=lambda member: setattr(member, "type", tarfile.XHDTYPE))
    with pytest.raises(UnsafeArchive, match="more than the limit of 65536"):
        read_archive(gzipped(stream), "x")


def test_total_size_is_limited_across_members() -> None:
    limits = ArchiveLimits(members=100, file_bytes=1000, total_bytes=20_000)
    with pytest.raises(UnsafeArchive, match="more than 20000 bytes"):
        read_archive(write_archive({f"f{i}": os.urandom(999) for i in range(30)}), "x", limits)


def test_decompression_bomb_is_rejected_before_it_is_unpacked() -> None:
    bomb = gzipped(bytes(60 * 1024 * 1024))

    with pytest.raises(UnsafeArchive, match="200 times its size"):
        read_archive(bomb, "x")


def test_padding_after_the_end_counts_towards_the_limit() -> None:
    with pytest.raises(UnsafeArchive, match="200 times its size"):
        read_archive(gzipped(tar_of(("a", b"")) + bytes(30 * 1024 * 1024)), "x")


@pytest.mark.parametrize("cut", [0, 1, 9, 30, -9, -1])
def test_truncated_gzip_file_is_rejected(cut: int) -> None:
    with pytest.raises(UnsafeArchive, match="truncated"):
        read_archive(write_archive(FILES)[:cut], "x")


@pytest.mark.parametrize("damage", [b"no gzip", write_archive(FILES)[:-8] + bytes(8), write_archive(FILES) + b"tail"])
def test_damaged_gzip_file_is_rejected(damage: bytes) -> None:
    with pytest.raises(UnsafeArchive, match="damaged or not a gzip"):
        read_archive(damage, "x")


@settings(deadline=None)
@given(st.integers(0, 20_000), st.binary(min_size=1, max_size=600))
def test_damaged_tar_raises_only_unsafe_archive(at: int, damage: bytes) -> None:
    tar = bytearray(tar_of(*FILES.items()))
    at %= len(tar)
    tar[at : at + len(damage)] = damage
    with contextlib.suppress(UnsafeArchive):
        read_archive(gzipped(bytes(tar)), "x")


@settings(deadline=None)
@given(st.binary(max_size=2000))
def test_arbitrary_bytes_raise_only_unsafe_archive(noise: bytes) -> None:
    for packed in (noise, gzipped(noise), zlib.compress(noise)):
        with contextlib.suppress(UnsafeArchive):
            read_archive(packed, "x")


def test_writer_rejects_names_that_the_reader_rejects() -> None:
    for name in ("/a", "../a", "a\\b", "a\udcffb"):
        with pytest.raises(UnsafeArchive):
            write_archive({name: b""})
    with pytest.raises(UnsafeArchive):
        write_archive({"a": b"", "A": b""})


def test_compression_ratio_limit_allows_real_charts() -> None:
    text = b"".join(b"  key%d: some value of a chart\n" % number for number in range(50_000))

    assert read_archive(write_archive({"values.yaml": text}), "x")["values.yaml"] == text
    assert zlib.decompress(write_archive({"values.yaml": text}), wbits=GZIP)
