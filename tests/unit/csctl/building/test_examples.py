"""The example stacks can be built and differ as the demo describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.model import yaml
from clusterstacks.model.files.addon_config import LifecycleHook
from clusterstacks.model.names import parse_class, parse_release
from clusterstacks.release.charts.archive import read_archive
from clusterstacks.release.charts.chart import ChartCache
from clusterstacks.release.contents import read_contents
from clusterstacks.release.open import open_release

if TYPE_CHECKING:
    from clusterstacks.release.release import Release

EXAMPLES = Path(__file__).parents[4] / "examples"
DEMO = EXAMPLES / "stacks/local/demo"
NEXT = EXAMPLES / "stacks/local/demo-next"

RELEASES: dict[str, tuple[Path, Path | None]] = {
    "local-demo-1-35-v1": (DEMO / "1-35", None),
    "local-demo-1-35-v2": (DEMO / "1-35", NEXT / "1-35"),
    "local-demo-1-36-v1": (DEMO / "1-36", None),
}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Release]:
    into = tmp_path_factory.mktemp("releases")
    built = {}
    for text, (source, changes) in RELEASES.items():
        version = parse_release(text).version.dot
        name = build_release(
            source, into, cluster_stack=version, cluster_addon=version, node_image="v1", changes=changes
        )
        built[name.release] = open_release(read_contents(name, into / name.release), ChartCache())
    return built


def test_every_example_builds_under_its_name(releases: dict[str, Release]) -> None:
    assert list(releases) == list(RELEASES)
    assert {release.addons() for release in releases.values()} == {("metrics", "network", "storage")}


def test_stages_order_addons_before_and_after_an_upgrade(releases: dict[str, Release]) -> None:
    for release in releases.values():
        assert release.config is not None
        stages = {hook: [one.addon for one in stages] for hook, stages in release.config.stages.items() if stages}
        assert stages == {
            LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED: ["network", "metrics", "storage"],
            LifecycleHook.BEFORE_CLUSTER_UPGRADE: ["network"],
            LifecycleHook.AFTER_CLUSTER_UPGRADE: ["metrics"],
        }


def test_second_release_changes_one_addon_only(releases: dict[str, Release]) -> None:
    first, second = releases["local-demo-1-35-v1"], releases["local-demo-1-35-v2"]

    assert [name for name in first.addons() if first.addon(name).digest != second.addon(name).digest] == ["network"]
    old, new = (set(read_archive(release.addon("network").chart, "x")) for release in (first, second))
    assert old - new == {"network/templates/agent-health.yaml"}
    assert new - old == {"network/templates/disruption.yaml"}


def test_sample_objects_name_the_built_releases(releases: dict[str, Release]) -> None:
    cluster: Any = yaml.load((EXAMPLES / "cluster.yaml").read_text())
    stack: Any = yaml.load((EXAMPLES / "clusterstack.yaml").read_text())

    name = parse_class(cluster["spec"]["topology"]["classRef"]["name"])
    assert releases[name.release].metadata.kubernetes.text == cluster["spec"]["topology"]["version"]
    spec = stack["spec"]
    assert (spec["provider"], spec["name"], spec["kubernetesVersion"]) == (
        name.provider,
        name.stack,
        str(name.kubernetes),
    )
    assert name.version.dot in spec["versions"]
