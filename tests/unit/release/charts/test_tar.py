"""The tar reader returns the same files as the standard library, or rejects the archive (SEC-17)."""

from __future__ import annotations

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.release.charts.archive import read_archive
from clusterstacks.release.charts.errors import UnsafeArchive
from tests.support.builders.releases import gzipped
from tests.support.builders.tar_headers import GNU, USTAR, V7, Header, extended, long_name, stream

NAMES = st.sampled_from([b"c/a", b"c/b/", b"./c/d", b"c//e", b"c/./f", b"c", b"", b"c/" + b"g" * 98])
KEYS = st.sampled_from([b"path", b"path", b"comment", b"mtime", b"uid", b"size", b"linkpath", b"hdrcharset", b""])
RECORDS = st.lists(st.tuples(KEYS, NAMES | st.sampled_from([b"1", b"BINARY", b"c/h=i", b"0"])), max_size=3)
PLAIN = st.builds(
    Header,
    name=NAMES,
    kind=st.sampled_from([b"0", b"0", b"\0", b"5", b"7", b"D", b"S", b"K", b"L", b"x", b"g", b"X"]),
    content=st.sampled_from([b"", b"", b"1", b"x" * 512, b"c/j", b"c/k/\0", b"7 =a\n", b"12 path=c/l\n"]),
    magic=st.sampled_from([USTAR, GNU, V7, b"ustar\0  ", b"ustar \x00\x00"]),
    prefix=st.sampled_from([b"", b"", b"", b"p", b"00000000000\0", b"c" * 150]),
    mode=st.sampled_from([b"0000644\0", b"000644 \0", b"0040644\0", b"0100644\0", bytes(8), b"none\0\0\0\0"]),
    numbers=st.sampled_from([b"0000000\0", b"\x80" + bytes(6) + b"\1", b"\xff" * 8, b"        ", b"+1\0\0\0\0\0\0"]),
    padding=st.sampled_from([b"\0", b"\0", b"x"]),
    trailer=st.sampled_from([b"", b"", b"tar\0"]),
)
EXTENDED = st.builds(lambda records, kind: extended(*records, kind=kind), RECORDS, st.sampled_from([b"x", b"x", b"g"]))
HEADERS = st.lists(PLAIN | EXTENDED | st.builds(long_name, NAMES), max_size=5)


def clean(name: str) -> str:
    return "/".join(part for part in name.split("/") if part not in ("", "."))


def seen_by_python(tar: bytes) -> dict[str, bytes]:
    """Return the files that the standard library extracts; later members of a name replace earlier ones."""
    seen: dict[str, bytes] = {}
    with tarfile.open(fileobj=io.BytesIO(tar), mode="r:", encoding="utf-8") as archive:
        for member in archive:
            if content := archive.extractfile(member):
                seen[clean(member.name)] = content.read()
    return seen


@pytest.mark.regression("SEC-17")
@settings(deadline=None, max_examples=500)
@given(HEADERS)
def test_any_headers_are_refused_or_mean_the_same_to_python(headers: list[Header]) -> None:
    tar = stream(*headers)
    try:
        files = read_archive(gzipped(tar), "x")
    except UnsafeArchive:
        return

    assert files == seen_by_python(tar)
