"""SEC-16 and SEC-17: only files below the release directory are read, and Helm gets the checked files."""

from __future__ import annotations

import asyncio
import subprocess
from typing import TYPE_CHECKING

import pytest

from clusterstacks.deliver.render.errors import RenderFailed
from clusterstacks.deliver.render.renderer import Renderer, class_request
from clusterstacks.model.errors import ClusterStacksError, SpecError
from clusterstacks.release.charts.archive import read_archive
from clusterstacks.release.charts.chart import MAX_NESTED, pack_chart
from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.open import open_directory
from clusterstacks.release.release import class_chart_file
from clusterstacks.release.release_source import Evidence
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.release.sources.source_opener import SecretReader, SourceAccess, SourceOpener
from clusterstacks.release.sources.spec import SourceAddress
from tests.support.builders import charts
from tests.support.builders.releases import STAGED, gzipped, read_release, staged_release, tar_of, write_release
from tests.support.builders.tar_headers import GNU, USTAR, V7, Header, extended, long_name, record, stream
from tests.support.fakes.api_server import FakeApi
from tests.support.observing.render_workers import chart_request

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_MAP = (charts.CONFIG_MAP % "a").encode()
README = extended((b"path", b"c/docs/readme.txt"))
TEMPLATE = long_name(b"c/templates/a.yaml")
FILE = Header(content=b"kind: Secret\n")

AMBIGUOUS = {
    "a GNU name and a PAX path": stream(TEMPLATE, README, FILE),
    "a PAX path and a GNU name": stream(README, TEMPLATE, FILE),
    "two GNU names": stream(TEMPLATE, long_name(b"c/docs/readme.txt"), FILE),
    "two PAX headers": stream(README, extended((b"path", b"c/templates/a.yaml")), FILE),
    "a PAX path and then a PAX header without one": stream(README, extended((b"comment", b"x")), FILE),
    "a global header between a PAX path and its member": stream(README, extended((b"comment", b"x"), kind=b"g"), FILE),
    "a global header between a GNU name and its member": stream(
        TEMPLATE, extended((b"comment", b"x"), kind=b"g"), FILE
    ),
    "a path in a global header": stream(extended((b"path", b"c/b"), kind=b"g"), FILE),
    "a path twice in a PAX header": stream(extended((b"path", b"c/b"), (b"path", b"c/d")), FILE),
    "an empty PAX path": stream(extended((b"path", b"")), FILE),
    "a record without a key": stream(extended((b"", b"x"), (b"path", b"c/b")), FILE),
    "an empty GNU name": stream(long_name(b""), FILE),
    "a record behind the stated size": stream(extended((b"comment", b"x"))).replace(
        record(b"comment", b"x") + bytes(20), record(b"comment", b"x") + record(b"path", b"c/templ") + bytes(3)
    )[:1024]
    + stream(FILE),
    "a GNU name that goes on behind its size": stream(
        Header(name=b"L", kind=b"L", content=b"c/a", magic=GNU, padding=b"l"), FILE
    ),
    "a prefix in the GNU format": stream(Header(prefix=b"c/templates", magic=GNU)),
    "a prefix in the oldest format": stream(Header(prefix=b"c/templates", magic=V7)),
    "a prefix of star that goes on in the times": stream(Header(prefix=b"c" * 140, trailer=b"tar\0", magic=USTAR)),
    "a file by its type and a directory by its mode": stream(Header(mode=b"0040644\0", content=b"x")),
    "a file by its type and a directory by its name": stream(Header(name=b"c/a/")),
    "an old file whose short name alone is a directory's": stream(
        extended((b"path", b"c/templates/a.yaml")), Header(name=b"c/templates/", kind=b"\0", content=b"x")
    ),
    "an old file whose long name alone is a directory's": stream(
        extended((b"path", b"c/templates/")), Header(name=b"c/t", kind=b"\0")
    ),
    "an owner that is no number": stream(FILE, Header(name=b"c/b", numbers=b"nobody\0\0")),
    "a link by its PAX header and a file by its type": stream(extended((b"linkpath", b"c/b")), FILE),
    "a real size of star": stream(extended((b"SCHILY.realsize", b"3")), FILE),
    "a PAX header of nothing": stream(FILE, extended((b"comment", b"x"))),
}


@pytest.mark.regression("SEC-17")
@pytest.mark.parametrize("case", AMBIGUOUS)
def test_ambiguous_archive_is_rejected(case: str) -> None:
    with pytest.raises(UnsafeArchive):
        read_archive(gzipped(AMBIGUOUS[case]), "x")


@pytest.mark.regression("SEC-17")
async def test_helm_gets_the_checked_files_repacked(tmp_path: Path) -> None:
    """Helm takes the first part off each name as it stands there: ``./top/Chart.yaml`` has no Chart.yaml for it."""
    top, file = f"./{STAGED.series}-cluster-class", class_chart_file(STAGED)
    chart = {f"{top}/Chart.yaml": b"apiVersion: v2\nname: c\nversion: v1\n", f"{top}/templates/a.yaml": CONFIG_MAP}
    files = staged_release() | {file: gzipped(tar_of(*chart.items()))}
    release = open_directory(write_release(tmp_path / STAGED.release, files))
    renderer = Renderer()
    try:
        request = class_request(release.class_chart(), STAGED, release.metadata.kubernetes, namespace="team")
        rendered = await renderer.chart(request)
    finally:
        await renderer.close()

    assert [manifest["metadata"]["name"] for manifest in rendered] == ["a"]


def chart_archive(*members: tuple[str, bytes]) -> bytes:
    chart = b"apiVersion: v2\nname: sub\nversion: 1.0.0\n"
    return gzipped(tar_of(("sub/Chart.yaml", chart), *members))


async def rendered_names(chart: dict[str, bytes]) -> list[str]:
    renderer = Renderer()
    files = {"Chart.yaml": b"apiVersion: v2\nname: c\nversion: v1\n", **chart}
    try:
        rendered = await renderer.chart(chart_request(pack_chart("c", files), label="addon cni"))
    finally:
        await renderer.close()
    return [manifest["metadata"]["name"] for manifest in rendered]


@pytest.mark.regression("SEC-17")
@pytest.mark.parametrize("file", ["charts/sub-1.0.0.tgz", "charts/dir/charts/sub-1.0.0.tgz"])
async def test_helm_gets_the_checked_files_of_archives_in_charts(file: str) -> None:
    """Helm takes the first part off each name: ``./sub/templates/b.yaml`` is no template for it."""
    parent = {"charts/dir/Chart.yaml": b"apiVersion: v2\nname: dir\nversion: 1.0.0\n"}
    inner = chart_archive(("sub/templates/a.yaml", CONFIG_MAP))
    nested = {
        file: chart_archive(("./sub/templates/b.yaml", (charts.CONFIG_MAP % "b").encode()), ("sub/charts/i.tgz", inner))
    }

    assert sorted(await rendered_names(parent | nested)) == ["a", "b"]


@pytest.mark.regression("SEC-17")
@pytest.mark.parametrize("file", ["charts/sub-1.0.0.tgz", "charts/dir/charts/sub-1.0.0.tgz"])
async def test_ambiguous_archive_in_charts_is_not_rendered(file: str) -> None:
    parent = {"charts/dir/Chart.yaml": b"apiVersion: v2\nname: dir\nversion: 1.0.0\n"}
    tar = tar_of(("c/Chart.yaml", b"apiVersion: v2\nname: c\nversion: v1\n"))[:1024]
    ambiguous = gzipped(tar + stream(TEMPLATE, README, Header(content=CONFIG_MAP)))

    with pytest.raises(RenderFailed, match=rf"addon cni: its archive: c/{file}: .* two extended headers"):
        await rendered_names(parent | {file: ambiguous})


@pytest.mark.regression("SEC-17")
async def test_archives_that_are_nested_too_deep_are_not_rendered() -> None:
    packed = chart_archive(("sub/templates/a.yaml", CONFIG_MAP))
    for _ in range(MAX_NESTED):
        packed = chart_archive(("sub/charts/i.tgz", packed))

    with pytest.raises(RenderFailed, match=r"addon cni: .*'sub/charts/i.tgz' is below more than 10 other archives"):
        await rendered_names({"charts/sub-1.0.0.tgz": packed})


@pytest.mark.regression("SEC-17")
async def test_files_with_the_name_of_an_archive_stay_as_they_are() -> None:
    """Helm loads archives only from ``charts/``, without those that it ignores by their name."""
    other = dict.fromkeys(("files/charts/a.tgz", "charts/_a.tgz", "charts/.a.tgz", "a.tgz"), b"no archive")

    assert await rendered_names({"templates/a.yaml": CONFIG_MAP} | other) == ["a"]


LONG = "/".join(["directory" * 4] * 4) + "/file.yaml"
FILES = {"c/Chart.yaml": b"name: c\n", "c/templates/a.yaml": b"a: 1\n" * 300, f"c/{LONG}": b"long\n", "c/\u00e9": b"e"}


@pytest.mark.regression("SEC-17")
@pytest.mark.parametrize("tar_format", ["pax", "gnu", "oldgnu", "ustar"])
@pytest.mark.parametrize("top", ["c", "./c", "."])
def test_archives_of_gnu_tar_are_read(tmp_path: Path, tar_format: str, top: str) -> None:
    write_tree(tmp_path)

    packed = subprocess.check_output(["tar", "-C", tmp_path, f"--format={tar_format}", "-cz", top])

    assert read_archive(packed, "x") == FILES


@pytest.mark.regression("SEC-17")
def test_archives_of_git_are_read(tmp_path: Path) -> None:
    write_tree(tmp_path)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "--no-gpg-sign", "-m", "x"]):
        subprocess.check_call([*git, *command])

    packed = subprocess.check_output([*git, "archive", "--format=tar.gz", "HEAD"])

    assert read_archive(packed, "x") == FILES


def write_tree(root: Path) -> None:
    for path, content in FILES.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content)


@pytest.fixture
def into(tmp_path: Path) -> Path:
    target = tmp_path / "into"
    target.mkdir()
    return target


async def everything_read(source: DirectorySource, into: Path) -> list[object]:
    """Return all that the methods of a source read of a release; an error counts as nothing."""
    doors = (
        source.list(),
        source.fetch(STAGED, into),
        source.read(STAGED, ["metadata.yaml"], 10_000),
        source.digest(STAGED),
        source.evidence(STAGED),
    )
    answers = [await asyncio.gather(door, return_exceptions=True) for door in doors]
    return [one for (one,) in answers if one and one != Evidence() and not isinstance(one, ClusterStacksError)]


def elsewhere(tmp_path: Path) -> Path:
    """A release that the source has no business with, signed."""
    write_release(tmp_path / "elsewhere" / STAGED.release, staged_release())
    (tmp_path / "elsewhere" / f"{STAGED}.dsse.json").write_bytes(b"envelope")
    return tmp_path / "elsewhere"


@pytest.mark.regression("SEC-16")
async def test_targets_of_links_are_neither_listed_nor_read(tmp_path: Path, into: Path) -> None:
    root = tmp_path / "releases"
    root.mkdir()
    (root / "cluster-stacks").symlink_to(elsewhere(tmp_path))

    assert await everything_read(DirectorySource(root), into) == []
    assert read_release(into) == {}


@pytest.mark.regression("SEC-16")
async def test_directory_replaced_by_a_link_is_not_read(tmp_path: Path, into: Path) -> None:
    root = tmp_path / "releases"
    (root / "team/stacks").mkdir(parents=True)
    address = SourceAddress(source_kinds.DIRECTORY, "team/stacks")
    opener = SourceOpener(secrets=SecretReader(FakeApi()), release_dir=root, environ={})
    source, _ = await opener.open(address, SourceAccess())
    assert isinstance(source, DirectorySource)
    assert await source.list() == ()

    (root / "team/stacks").rmdir()
    (root / "team/stacks").symlink_to(elsewhere(tmp_path))

    assert await everything_read(source, into) == []
    with pytest.raises(SpecError, match="directory team/stacks below the release directory is outside of it"):
        await source.list()


@pytest.mark.regression("SEC-16")
@pytest.mark.parametrize("place", ["", "current", "current/stacks"])
async def test_links_to_the_release_directory_are_followed(tmp_path: Path, into: Path, place: str) -> None:
    """A volume may be mounted behind a link, and a synchroniser swaps a link inside of it; both stay usable."""
    volume = tmp_path / "volume"
    release = write_release(volume / "2026/stacks" / STAGED.release, staged_release())
    (volume / "current").symlink_to("2026" if place.endswith("stacks") else "2026/stacks")
    (tmp_path / "releases").symlink_to(volume if place else release.parent)
    opener = SourceOpener(secrets=SecretReader(FakeApi()), release_dir=tmp_path / "releases", environ={})
    source, _ = await opener.open(SourceAddress(source_kinds.DIRECTORY, place), SourceAccess())

    assert await source.list() == (STAGED.release,)
    await source.fetch(STAGED, into)
    assert read_release(into) == staged_release()
