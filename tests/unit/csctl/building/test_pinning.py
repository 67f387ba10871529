from __future__ import annotations

import pytest

from clusterstacks.csctl.building.pinning import with_addon_versions, without_dependency
from clusterstacks.csctl.building.settings import VERSIONS, StackSettings, read_settings
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.model import yaml
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.release.errors import SourceBroken
from tests.support.builders.stack_directories import directory_of

CHART = "cluster-addon/{}/Chart.yaml"


def settings(**addons: str) -> StackSettings:
    return StackSettings("local", "tiny", KubernetesVersion(1, 35, 1), addons, "stack.yaml")


def dependency(tree: dict[str, bytes], addon: str) -> str:
    return str(yaml.load(tree[CHART.format(addon)])["dependencies"][0]["version"])


def test_addon_versions_of_each_minor_are_set_in_its_copy() -> None:
    tree = read_tree(directory_of("several"))
    older, newer = (with_addon_versions(tree, one) for one in read_settings(tree, listed=True))

    assert [(dependency(one, "cloud"), dependency(one, "disks")) for one in (older, newer)] == [
        ("2.34.1", "1.1.9"),
        ("2.35.0", "1.2.0"),
    ]
    assert newer == tree
    assert b"alias: controller # what the values call it" in older[CHART.format("cloud")]


@pytest.mark.parametrize(
    "key", ["openstack-cloud-controller-manager", "openstack_cloud_controller_manager", "occm", "controller", "cloud"]
)
def test_dependency_is_found_by_name_alias_short_name_or_addon(key: str) -> None:
    tree = with_addon_versions(read_tree(directory_of("several")), settings(**{key: "9.9.9"}))

    assert dependency(tree, "cloud") == "9.9.9"


def test_vendored_chart_of_another_version_is_left_out() -> None:
    tree = read_tree(directory_of("several")) | {
        "cluster-addon/disks/Chart.lock": b"",
        "cluster-addon/disks/charts/disk-driver-1.2.0.tgz": b"",
        "cluster-addon/disks/charts/other-1.0.0.tgz": b"",
        "cluster-addon/cloud/Chart.lock": b"",
    }

    changed = with_addon_versions(tree, settings(disks="1.1.9"))
    assert set(tree) - set(changed) == {
        "cluster-addon/disks/Chart.lock",
        "cluster-addon/disks/charts/disk-driver-1.2.0.tgz",
    }
    assert with_addon_versions(tree, settings(disks="1.2.0")) == tree


def test_range_does_not_change_the_chart() -> None:
    tree = read_tree(directory_of("minor"))

    assert with_addon_versions(tree, settings(cloud="2.35.x")) == tree


@pytest.mark.parametrize(
    ("addons", "complaint"),
    [
        ({"cloud": "2.36.x"}, r"requires openstack-cloud-controller-manager 2.35.0: write a version in 2.36.x there"),
        (
            {"nothing": "1.0.0"},
            r"stack.yaml lists nothing, which is not a dependency of an addon: .* \(disk-driver",
        ),
    ],
)
def test_version_outside_of_its_range_is_named(addons: dict[str, str], complaint: str) -> None:
    with pytest.raises(SourceBroken, match=complaint):
        with_addon_versions(read_tree(directory_of("several")), settings(**addons))


def test_other_names_in_versions_yaml_have_no_effect() -> None:
    tree = read_tree(directory_of("several"))
    several = StackSettings("test", "several", KubernetesVersion(1, 35, 4), {"ubuntu": "2404"}, addons_file=VERSIONS)

    assert without_dependency(tree, several) == ("ubuntu",)
    assert with_addon_versions(tree, several) == tree
