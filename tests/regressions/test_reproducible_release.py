"""D73: repeated builds of one source give identical bytes on any machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clusterstacks.csctl.building.release_builder import build_release
from tests.support.builders.releases import read_release
from tests.support.builders.stack_directories import LAYOUTS, directory_of

pytestmark = pytest.mark.regression("D73")

SOURCE = Path(__file__).parents[2] / "examples/stacks/local/demo/1-35"
HERE = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "1", "UMASK": "022"}
ELSEWHERE = {"TZ": "Pacific/Chatham", "LC_ALL": "C", "PYTHONHASHSEED": "2", "UMASK": "077", "SOURCE_DATE_EPOCH": "99"}


def test_release_does_not_depend_on_times_and_modes_of_the_source(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(SOURCE, copy)
    for file in copy.rglob("*"):
        os.utime(file, (1, 1))
        file.chmod(0o700)

    first, second = (
        build_release(source, tmp_path / into, cluster_stack="v1", cluster_addon="v1", node_image="v1")
        for source, into in ((SOURCE, "one"), (copy, "two"))
    )

    assert read_release(tmp_path / "one" / first.release) == read_release(tmp_path / "two" / second.release)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_release_does_not_depend_on_directory_time_zone_locale_and_umask(tmp_path: Path, layout: str) -> None:
    other = shutil.copytree(directory_of(layout), tmp_path / "over there" / "stäck")
    for file in sorted(other.rglob("*"), reverse=True):
        os.utime(file, (1, 1))

    here = create(directory_of(layout), tmp_path / "one", HERE)
    there = create(other, tmp_path / "two", ELSEWHERE)

    assert here == there
    assert {len(files) > 3 for files in here.values()} == {True}


def create(source: Path, into: Path, environment: dict[str, str]) -> dict[str, dict[str, bytes]]:
    """Build with chart dependencies in another process; a stack whose dependencies need a network does without."""
    dependencies = "vendor" if (source / "shared").exists() else "leave"
    into.mkdir()
    subprocess.run(
        [
            "sh", "-c", 'umask "$UMASK"; exec "$@"', "sh", sys.executable, "-m", "clusterstacks.csctl.main",
            "create", str(source), "--mode", "hash", "--offline", "--dependencies", dependencies, "-o", "out",
        ],
        cwd=into,
        env={**os.environ, "XDG_CACHE_HOME": str(into / "cache"), **environment},
        check=True,
        capture_output=True,
    )  # fmt: skip
    return {directory.name: read_release(directory) for directory in (into / "out").iterdir()}
