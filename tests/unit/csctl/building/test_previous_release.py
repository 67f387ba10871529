from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.packaging import fill_versions, package
from clusterstacks.csctl.building.previous_release import changed_files
from clusterstacks.release.charts.archive import read_archive, write_archive
from clusterstacks.release.contents import Contents, read_contents
from tests.support.builders.releases import write_release
from tests.support.builders.stack_directories import LAYOUTS, copied, first_stack, versions

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.csctl.building.discover import StackDirectory

BEFORE = versions("v3", "v2", "v1")


def released(stack: StackDirectory, into: Path, **replaced: bytes) -> Contents:
    files = package(
        fill_versions(stack.tree, stack.settings, BEFORE) | replaced,
        stack.settings.release(BEFORE.cluster_stack),
        BEFORE,
        stack.hashes,
    )
    name = stack.settings.release(BEFORE.cluster_stack)
    return read_contents(name, write_release(into / name.release, files))


def compare(stack: StackDirectory, release: Contents) -> tuple[str, ...]:
    return changed_files(stack.tree, stack.settings, release, BEFORE)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_release_of_the_same_source_has_no_changed_files(layout: str, tmp_path: Path) -> None:
    stack = first_stack(copied(layout, tmp_path))

    assert compare(stack, released(stack, tmp_path)) == ()


def test_added_removed_and_edited_files_are_named(tmp_path: Path) -> None:
    root = copied("staged", tmp_path)
    release = released(first_stack(root), tmp_path)
    (root / "cluster-addon/network/values.yaml").write_text("replicas: 2\n")
    (root / "cluster-addon/metrics/templates/settings.yaml").unlink()
    (root / "cluster-class/templates/new.yaml").write_text("a: 1\n")
    (root / "clusteraddon.yaml").write_text("addonStages: {}\n")
    (root / "README.md").write_text("in no release\n")

    assert compare(first_stack(root), release) == (
        "cluster-addon/metrics/templates/settings.yaml",
        "cluster-addon/network/values.yaml",
        "cluster-class/templates/new.yaml",
        "clusteraddon.yaml",
    )


def test_dependencies_added_by_the_build_do_not_count_as_changes(tmp_path: Path) -> None:
    root = copied("single", tmp_path)
    (root / "cluster-addon/charts").mkdir()
    (root / "cluster-addon/charts/probe-1.0.0.tgz").write_bytes(write_archive({"probe/Chart.yaml": b"name: probe\n"}))
    stack = first_stack(root)
    release = released(stack, tmp_path)
    archive = release.root / "local-single-1-33-cluster-addon-v2.tgz"
    files = read_archive(archive.read_bytes(), "x")
    top = "local-single-1-33-cluster-addon"
    del files[f"{top}/charts/probe-1.0.0.tgz"]
    files |= {f"{top}/charts/probe/Chart.yaml": b"name: probe\n", f"{top}/Chart.lock": b""}
    archive.write_bytes(write_archive(files))

    assert compare(stack, read_contents(release.release, release.root)) == ()


def test_rewritten_chart_yaml_does_not_count_as_a_change(tmp_path: Path) -> None:
    root = copied("single", tmp_path)
    chart = root / "cluster-class/Chart.yaml"
    chart.write_text(chart.read_text() + "# a comment\n")
    stack = first_stack(root)
    release = released(stack, tmp_path)
    chart.write_text(
        "version: v0\nname: local-single-1-33-cluster-class\ntype: application\napiVersion: v2\n"
        "description: |\n  A class that is\n  as small as can be\n"
    )

    assert compare(first_stack(root), release) == ()
    chart.write_text(chart.read_text().replace("small", "large"))
    assert compare(first_stack(root), release) == ("cluster-class/Chart.yaml",)


def test_incomparable_release_has_no_changed_files(tmp_path: Path) -> None:
    root = copied("single", tmp_path)
    release = released(first_stack(root), tmp_path)
    (root / "clusteraddon.yaml").write_text("addonStages: {}\n")
    assert compare(first_stack(root), release) == ()

    (root / "clusteraddon.yaml").unlink()
    (root / "cluster-class/Chart.yaml").unlink()
    assert compare(first_stack(root), release) == ()
