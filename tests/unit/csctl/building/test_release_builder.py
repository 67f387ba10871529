from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.discover import stacks_of
from clusterstacks.csctl.building.plugins import PluginMissing, find_plugin
from clusterstacks.csctl.building.release_builder import ReleaseBuilder
from clusterstacks.csctl.building.source_tree import hash_tree, read_tree
from clusterstacks.model.files.hashes import parse_hashes
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.release.charts.archive import read_archive
from clusterstacks.release.charts.vendor import ChartDependencies
from clusterstacks.release.errors import ReleaseBroken, SourceBroken
from clusterstacks.release.release_source import MAX_FILE_BYTES
from tests.support.builders.releases import read_release
from tests.support.builders.stack_directories import LAYOUTS, copied, directory_of, first_stack, versions

if TYPE_CHECKING:
    from pathlib import Path


def members(directory: Path, kind: str) -> dict[str, bytes]:
    (archive,) = directory.glob(f"*-{kind}-*.tgz")
    return read_archive(archive.read_bytes(), archive.name)


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_every_layout_builds_a_valid_release(layout: str, tmp_path: Path) -> None:
    stack = first_stack(directory_of(layout))
    created = await ReleaseBuilder(into=tmp_path).build(
        stack, versions("v7", "v6", "v5", stack.settings.kubernetes.text)
    )

    assert created.directory == tmp_path / f"{LAYOUTS[layout]}-v7"
    charts = members(created.directory, "cluster-class")
    assert b"version: v7  # set while building\n" in charts[f"{LAYOUTS[layout]}-cluster-class/Chart.yaml"]


async def test_single_chart_gets_name_version_and_tags(tmp_path: Path) -> None:
    stack = first_stack(directory_of("single"))
    directory = (await ReleaseBuilder(into=tmp_path).build(stack, versions("v7", "v6", "v5", "v1.33.4"))).directory

    addon = members(directory, "cluster-addon")
    assert addon["local-single-1-33-cluster-addon/Chart.yaml"].endswith(b"version: v6\n")
    assert b"addons: v6\n" in addon["local-single-1-33-cluster-addon/templates/settings.yaml"]
    assert members(directory, "cluster-class")["local-single-1-33-cluster-class/values.yaml"] == b"image: box-v5\n"
    assert "clusteraddon.yaml" not in read_release(directory)


async def test_multi_stage_layout_ignores_cluster_addon_values(tmp_path: Path) -> None:
    stack = first_stack(directory_of("staged"))
    directory = (await ReleaseBuilder(into=tmp_path).build(stack, versions("v7", "v6"))).directory

    addons = members(directory, "cluster-addon")
    assert addons["network/values.yaml"] == b"replicas: 1\nversion: v6\n"
    assert addons["network/Chart.yaml"] == stack.tree["cluster-addon/network/Chart.yaml"]
    assert "cluster-addon-values.yaml" not in read_release(directory)


async def test_each_minor_of_a_directory_has_its_own_names_and_versions(tmp_path: Path) -> None:
    root = directory_of("several")
    for stack in stacks_of(root, read_tree(root), listed=True):
        created = await ReleaseBuilder(into=tmp_path).build(stack, versions(kubernetes=stack.settings.kubernetes.text))
        text = members(created.directory, "cluster-addon")["cloud/Chart.yaml"].decode()
        assert f"version: {stack.settings.addons['occm']}\n" in text
        assert f"{created.name.series}-cluster-class/Chart.yaml" in members(created.directory, "cluster-class")


async def test_chart_dependencies_are_added_to_the_release_but_not_to_the_source_or_its_hash(tmp_path: Path) -> None:
    root = copied("staged", tmp_path)
    before = read_tree(root)
    async with HTTPClient() as web:
        creator = ReleaseBuilder(into=tmp_path / "out", dependencies=ChartDependencies(web, None, offline=True))
        created = await creator.build(first_stack(root), versions())
    left = await ReleaseBuilder(into=tmp_path / "left").build(first_stack(root), versions())

    added = {*members(created.directory, "cluster-addon")} - {*members(left.directory, "cluster-addon")}
    assert added == {"metrics/charts/probe-1.0.0.tgz"}
    assert created.notes == ("cluster-addon/metrics: with probe 1.0.0 of file://../../shared/probe",)
    assert read_tree(root) == before
    assert read_release(created.directory)["hashes.json"] == read_release(left.directory)["hashes.json"]


async def test_written_metadata_is_part_of_the_hashed_source(tmp_path: Path) -> None:
    root = copied("staged", tmp_path)

    created = await ReleaseBuilder(into=tmp_path / "out", writes_metadata=True).build(first_stack(root), versions("v4"))

    assert "clusterStack: v4\n" in (root / "metadata.yaml").read_text()
    hashes = parse_hashes(json.loads((created.directory / "hashes.json").read_text()))
    assert hashes == replace(hash_tree(read_tree(root)), cluster_class_dir="")


async def test_failed_build_writes_nothing(tmp_path: Path) -> None:
    root = copied("staged", tmp_path)
    (root / "cluster-addon/network/Chart.yaml").unlink()

    with pytest.raises(ReleaseBroken, match="applies network"):
        await ReleaseBuilder(into=tmp_path / "out", writes_metadata=True).build(first_stack(root), versions("v4"))
    assert list((tmp_path / "out").iterdir()) == []
    assert "clusterStack: v3\n" in (root / "metadata.yaml").read_text()


def test_missing_plugin_is_reported_before_the_build(tmp_path: Path) -> None:
    root = copied("single", tmp_path)
    settings = root / "csctl.yaml"
    settings.write_text(settings.read_text() + "    config: {method: get}\n")

    with pytest.raises(
        PluginMissing, match=r"requires the plugin csctl-local, which no directory of PATH contains: install"
    ):
        ReleaseBuilder(into=tmp_path, path="/nowhere").check(first_stack(root))


def test_plugin_is_the_first_executable_in_path(tmp_path: Path) -> None:
    for name, mode in (("one", 0o644), ("two", 0o755), ("three", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "csctl-local").touch(mode)

    path = ":".join(str(tmp_path / name) for name in ("none", "one", "two", "three"))
    assert find_plugin("local", path) == tmp_path / "two" / "csctl-local"


def with_image(root: Path, content: bytes, checksum: str = "") -> Path:
    """Give a stack for OpenStack a node image that is published with its releases; return its file."""
    for file in ("csctl.yaml", "cluster-class/Chart.yaml", "cluster-addon/Chart.yaml"):
        (root / file).write_text((root / file).read_text().replace("local", "openstack"))
    settings = root / "csctl.yaml"
    settings.write_text(settings.read_text() + "    config: {method: get}\n")
    (root / "node-images").mkdir(exist_ok=True)
    stated = f"\n    checksum: {checksum}" if checksum else ""
    (root / "node-images/config.yaml").write_text(
        "apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1\nopenStackNodeImages:\n"
        "  # the image of all machines\n"
        f"  - url: artifact:box.qcow2{stated}\n"
        "    createOpts: {name: box, disk_format: qcow2, container_format: bare}\n"
    )
    image = root / "node-images/box.qcow2"
    image.write_bytes(content)
    return image


async def test_image_is_put_beside_its_release_which_has_its_checksum(tmp_path: Path) -> None:
    root = copied("single", tmp_path)
    image = with_image(root, b"qcow2")
    digest = hashlib.sha256(b"qcow2").hexdigest()

    for _ in range(2):
        created = await ReleaseBuilder(into=tmp_path / "out").build(first_stack(root), versions(kubernetes="v1.33.4"))

    assert f"  - checksum: sha256:{digest}\n    url: artifact:box.qcow2\n" in (
        read_release(created.directory)["node-images.yaml"].decode()
    )
    kept = tmp_path / "out/node-images" / digest
    assert kept.samefile(image)
    assert [file.name for file in kept.parent.iterdir()] == [digest]

    image.unlink()
    image.write_bytes(b"another")
    await ReleaseBuilder(into=tmp_path / "out").build(first_stack(root), versions(kubernetes="v1.33.4"))
    assert [file.read_bytes() for file in kept.parent.iterdir()] == [b"another"]


@pytest.mark.parametrize(
    ("checksum", "complaint"),
    [
        (f"sha256:{'0' * 64}", r"has checksum sha256:0+ of box\.qcow2, which has sha256:[0-9a-f]+: correct"),
        ("", "No such"),
    ],
)
async def test_image_that_is_missing_or_another_is_refused(tmp_path: Path, checksum: str, complaint: str) -> None:
    root = copied("single", tmp_path)
    image = with_image(root, b"qcow2", checksum)
    if not checksum:
        image.unlink()

    with pytest.raises(SourceBroken, match=complaint):
        await ReleaseBuilder(into=tmp_path / "out").build(first_stack(root), versions())
    assert not list((tmp_path / "out").glob("openstack*"))


def test_large_image_is_no_part_of_the_source(tmp_path: Path) -> None:
    root = copied("single", tmp_path)
    image = with_image(root, b"qcow2")
    assert "node-images/box.qcow2" in read_tree(root)
    os.truncate(image, MAX_FILE_BYTES + 1)

    assert "node-images/box.qcow2" not in read_tree(root)
    assert "node-images/config.yaml" in read_tree(root)
