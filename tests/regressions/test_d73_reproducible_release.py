"""D73: building twice from the same source gives identical bytes, whenever and as whomever."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from clusterstacks.releases.building.fixed import build_release
from tests.support.releases import read_release

SOURCE = Path(__file__).parents[2] / "examples/stacks/local/demo/1-35"


def test_times_and_modes_of_the_source_do_not_matter(tmp_path: Path) -> None:
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
