"""Defects of csctl and of its plugin protocol (D44 and D45 are tested with plugins)."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.previous_release import Remote
from clusterstacks.csctl.building.release_builder import ReleaseBuilder
from clusterstacks.csctl.building.version_inputs import VersionChooser
from clusterstacks.csctl.building.version_rules import (
    Mode,
    NothingChanged,
    PreviousRelease,
    StackSource,
    beta_release,
    stable_release,
)
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.hashes import Hashes
from clusterstacks.model.names import parse_release
from clusterstacks.model.versions import StackVersion
from clusterstacks.release.charts.archive import read_archive, write_archive
from clusterstacks.release.published_releases import PublishedReleases
from clusterstacks.release.sources.directory import DirectorySource
from tests.support.builders.stack_directories import copied, directory_of, first_stack, versions

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.files.metadata import Metadata


async def decide(stack: Path, published: Path) -> Metadata:
    remote = Remote("the registry", DirectorySource(published))
    return (await VersionChooser(Mode.STABLE, remote, published).choose(first_stack(stack))).release.metadata


async def publish(stack: Path, published: Path, metadata: Metadata) -> None:
    await ReleaseBuilder(into=published).build(first_stack(stack), metadata)


@pytest.mark.regression("D41")
async def test_foreign_tags_do_not_prevent_a_release(tmp_path: Path) -> None:
    stack, published = copied("staged", tmp_path), tmp_path / "published"
    await publish(stack, published, versions("v3", "v2", "v1"))
    for name in ("latest", "local-staged-1-34", "local-staged-1-34-v1-x", "sha256-0123.sig", "x" * 200):
        (published / name).mkdir()
    (stack / "cluster-class/values.yaml").write_text("a: 1\n")

    assert await decide(stack, published) == versions("v4", "v2", "v1")


@pytest.mark.regression("D43")
async def test_changed_node_images_change_the_node_image_hash_and_not_the_csctl_hash(tmp_path: Path) -> None:
    stack, published = copied("single", tmp_path), tmp_path / "published"
    await publish(stack, published, versions("v3", "v2", "v1", "v1.33.4"))
    before = first_stack(stack).hashes
    (stack / "node-images/setup.sh").write_text("#!/bin/sh\n")

    assert await decide(stack, published) == versions("v4", "v2", "v2", "v1.33.4")
    after = first_stack(stack).hashes
    assert (after.node_image_dir, after.cluster_addon_dir) == (before.node_image_dir, before.cluster_addon_dir)
    assert after.node_images_dir != before.node_images_dir


@pytest.mark.regression("D46")
@pytest.mark.parametrize(
    "path", sorted(path.relative_to(directory_of("staged")).as_posix() for path in directory_of("staged").rglob("*.*"))
)
async def test_change_of_any_file_gives_a_new_stable_version(tmp_path: Path, path: str) -> None:
    stack, published = copied("staged", tmp_path), tmp_path / "published"
    await publish(stack, published, versions("v3", "v2", "v1"))
    with pytest.raises(NothingChanged):
        await decide(stack, published)

    (stack / path).write_text((stack / path).read_text() + "\n# other\n")

    assert (await decide(stack, published)).cluster_stack == StackVersion(4)


@pytest.mark.regression("D46")
async def test_new_kubernetes_patch_gives_a_new_stable_version(tmp_path: Path) -> None:
    stack, published = copied("staged", tmp_path), tmp_path / "published"
    await publish(stack, published, versions("v3", "v2", "v1"))
    settings = stack / "csctl.yaml"
    settings.write_text(settings.read_text().replace("v1.34.2", "v1.34.3"))

    assert await decide(stack, published) == versions("v4", "v2", "v1", "v1.34.3")


@pytest.mark.regression("D47")
async def test_heredocs_and_binary_files_are_unchanged(tmp_path: Path) -> None:
    stack = copied("staged", tmp_path)
    binary = bytes(range(256)) * 40 + b"<< \x00 >> << .x" + b"\xff<< .ClusterAddonVersion"
    script = b"cat << EOF\n<<EOF\n1 << 2\n<< .ClusterAddonVersion\n"
    addon = stack / "cluster-addon/network"
    (addon / "files").mkdir()
    (addon / "files/data.bin").write_bytes(binary)
    (addon / "files/run.sh").write_bytes(script + b"<< .ClusterAddonVersion >>\n")
    (addon / "charts").mkdir()
    packed = write_archive({"probe/Chart.yaml": b"name: probe\nversion: 1.0.0\n"})
    (addon / "charts/probe-1.0.0.tgz").write_bytes(packed)

    created = await ReleaseBuilder(into=tmp_path / "out").build(first_stack(stack), versions("v3", "v2"))

    (archive,) = created.directory.glob("*-cluster-addon-*.tgz")
    files = read_archive(archive.read_bytes(), "x")
    assert files["network/files/data.bin"] == binary
    assert files["network/files/run.sh"] == script + b"v2\n"
    assert files["network/charts/probe-1.0.0.tgz"] == packed


@pytest.mark.regression("D47")
async def test_unknown_tag_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    stack = copied("staged", tmp_path)
    (stack / "cluster-class/values.yaml").write_text("a: 1\nb: << .ClusterStackVersion >>\n")

    with pytest.raises(
        SpecError, match=r"cluster-class/values.yaml, line 2: << .ClusterStackVersion >> is not a known tag"
    ):
        await ReleaseBuilder(into=tmp_path / "out").build(first_stack(stack), versions())


@pytest.mark.regression("D48")
async def test_wrong_class_chart_name_is_an_error_with_the_expected_name(tmp_path: Path) -> None:
    stack = copied("staged", tmp_path)
    chart = stack / "cluster-class/Chart.yaml"
    chart.write_text(chart.read_text().replace("1-34", "1-33"))

    with pytest.raises(SpecError, match="write name: local-staged-1-34-cluster-class"):
        await ReleaseBuilder(into=tmp_path / "out").build(first_stack(stack), versions())


@pytest.mark.regression("D49")
def test_number_of_a_beta_is_not_changed() -> None:
    source = StackSource(versions().kubernetes, Hashes("new"))
    listing = PublishedReleases((StackVersion(0), StackVersion(1, "beta", "3")), 0)
    before = PreviousRelease(
        parse_release("local-tiny-1-34-v1"), versions("v1", "v1-beta.3", "v1-beta.3"), Hashes("old", "x")
    )

    assert beta_release(source, listing, None).metadata.cluster_stack == StackVersion(1, "beta", "4")
    assert stable_release(source, before).metadata == versions("v2", "v1", "v1-beta.3")


@pytest.mark.regression("D50")
async def test_betas_are_counted_as_numbers(tmp_path: Path) -> None:
    stack, published = copied("staged", tmp_path), tmp_path / "published"
    for build in (9, 10):
        await publish(stack, published, versions(*[f"v0-beta.{build}"] * 3))
    (stack / "cluster-class/values.yaml").write_text("a: 1\n")
    chooser = VersionChooser(Mode.BETA, Remote("the registry", DirectorySource(published)), published)

    choice = await chooser.choose(first_stack(stack))

    assert choice.previous == "local-staged-1-34-v0-beta-10"
    assert choice.release.metadata.cluster_stack.dot == "v0-beta.11"


@pytest.mark.regression("D51")
async def test_first_node_image_after_a_release_without_one_is_v1(tmp_path: Path) -> None:
    stack, published = copied("single", tmp_path), tmp_path / "published"
    shutil.move(stack / "node-image", tmp_path / "node-image")
    await publish(stack, published, versions("v3", "v2", "", "v1.33.4"))
    shutil.move(tmp_path / "node-image", stack / "node-image")

    assert await decide(stack, published) == versions("v4", "v2", "v1", "v1.33.4")
