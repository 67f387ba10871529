from __future__ import annotations

import json
import tarfile
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.csctl.building.settings import read_settings
from clusterstacks.csctl.building.source_tree import fill_tags, hash_tree, overlaid, read_tree
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.hashes import parse_hashes
from clusterstacks.model.names import parse_release
from clusterstacks.release.charts.archive import read_archive
from clusterstacks.release.charts.chart import ChartCache, read_chart
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import SourceBroken
from clusterstacks.release.open import open_release
from tests.support.builders.releases import read_release, write_release

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName

SETTINGS = """\
config:
  kubernetesVersion: v1.35.4
  clusterStackName: tiny
  provider:
    type: local
"""
STAGES = (
    "# << .ClusterAddonVersion >>\naddonStages:\n  AfterControlPlaneInitialized:\n    - {name: cni, action: apply}\n"
)
CLASS_CHART = "# kept\nname: local-tiny-1-35-cluster-class\nversion: << .ClusterClassVersion >>\n"
STAGED = {
    "csctl.yaml": SETTINGS,
    "clusteraddon.yaml": STAGES,
    "cluster-class/Chart.yaml": CLASS_CHART,
    "cluster-class/templates/x.yaml": "image: << .NodeImageVersion >>\n",
    "cluster-addon/cni/Chart.yaml": "name: cni\nversion: 1.2.3\n",
    "cluster-addon/cni/values.yaml": "version: << .ClusterAddonVersion >>\nshell: cat << EOF\n",
    "README.md": "not packed",
}
SINGLE = {
    "csctl.yaml": SETTINGS,
    "cluster-addon-values.yaml": "a: << .ClusterAddonVersion >>\n",
    "cluster-class/Chart.yaml": CLASS_CHART,
    "cluster-addon/Chart.yaml": "name: addons\nversion: v0\n",
    "node-image/Dockerfile": "FROM x",
}


def write_source(directory: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return directory


def build(source: Path, into: Path, version: str = "v2", changes: Path | None = None) -> ReleaseName:
    return build_release(
        source, into, cluster_stack=version, cluster_addon="v1", node_image="v0-sha.abc", changes=changes
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path / "source", STAGED)


RANGES = """\
apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1
kubernetes: "{}"
components:
- {{name: cilium, addon: cni, version: 1.19.4}}
"""


def test_compatibility_file_is_part_of_the_release(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", {**STAGED, "compatibility.yaml": RANGES.format(">=1.34 <1.37")})
    name = build(source, tmp_path / "releases")
    directory = tmp_path / "releases" / str(name)
    release = open_release(read_contents(name, directory), ChartCache())

    assert (directory / "compatibility.yaml").read_text() == RANGES.format(">=1.34 <1.37")
    assert release.compatibility is not None
    assert release.compatibility.addons() == ("cni",)


@pytest.mark.parametrize("kubernetes", ["new", ">=1.36"])
def test_stack_with_invalid_ranges_is_not_built(tmp_path: Path, kubernetes: str) -> None:
    source = write_source(tmp_path / "source", {**STAGED, "compatibility.yaml": RANGES.format(kubernetes)})

    with pytest.raises(SpecError, match=r"compatibility\.yaml"):
        build(source, tmp_path / "releases")
    assert not list((tmp_path / "releases").iterdir())


def test_multi_stage_stack_builds_a_valid_release(tmp_path: Path, source: Path) -> None:
    name = build(source, tmp_path / "out")
    directory = tmp_path / "out" / "local-tiny-1-35-v2"

    assert name == parse_release("local-tiny-1-35-v2")
    assert sorted(read_release(directory)) == [
        "clusteraddon.yaml",
        "hashes.json",
        "local-tiny-1-35-cluster-addon-v1.tgz",
        "local-tiny-1-35-cluster-class-v2.tgz",
        "metadata.yaml",
    ]
    release = open_release(read_contents(name, directory), ChartCache())
    assert release.addons() == ("cni",)
    assert release.metadata.kubernetes.text == "v1.35.4"
    assert yaml.load((directory / "metadata.yaml").read_bytes())["versions"]["components"]["nodeImage"] == "v0-sha.abc"


def test_built_release_is_world_readable(tmp_path: Path, source: Path) -> None:
    directory = tmp_path / "out" / build(source, tmp_path / "out").release

    assert {path.stat().st_mode & 0o777 for path in (directory, *directory.iterdir())} == {0o755, 0o644}


def test_known_tags_are_replaced_and_other_text_stays(tmp_path: Path, source: Path) -> None:
    build(source, tmp_path / "out")
    directory = tmp_path / "out" / "local-tiny-1-35-v2"

    chart = read_archive((directory / "local-tiny-1-35-cluster-class-v2.tgz").read_bytes(), "x")
    assert chart == {
        "local-tiny-1-35-cluster-class/Chart.yaml": b"# kept\nname: local-tiny-1-35-cluster-class\nversion: v2\n",
        "local-tiny-1-35-cluster-class/templates/x.yaml": b"image: v0-sha.abc\n",
    }
    addons = read_archive((directory / "local-tiny-1-35-cluster-addon-v1.tgz").read_bytes(), "x")
    assert addons["cni/values.yaml"] == b"version: v1\nshell: cat << EOF\n"
    assert addons["cni/Chart.yaml"] == b"name: cni\nversion: 1.2.3\n"
    assert (directory / "clusteraddon.yaml").read_text() == STAGES


def test_single_chart_stack_builds_a_valid_release(tmp_path: Path) -> None:
    name = build(write_source(tmp_path / "source", SINGLE), tmp_path / "out")
    directory = tmp_path / "out" / name.release

    release = open_release(read_contents(name, directory), ChartCache())
    addon = release.addon("cluster-addon")
    assert addon.values_template == "a: v1\n"
    assert read_chart(addon.chart, "x")["Chart.yaml"] == b"name: addons\nversion: v1\n"


def test_packed_chart_excludes_helmignored_files(tmp_path: Path) -> None:
    ignored = {"cluster-class/.helmignore": "*.bak\n", "cluster-class/templates/x.yaml.bak": "x"}
    build(write_source(tmp_path / "source", STAGED | ignored), tmp_path / "out")

    chart = tmp_path / "out" / "local-tiny-1-35-v2" / "local-tiny-1-35-cluster-class-v2.tgz"
    names = {path.removeprefix("local-tiny-1-35-cluster-class/") for path in read_archive(chart.read_bytes(), "x")}
    assert names == {".helmignore", "Chart.yaml", "templates/x.yaml"}


def test_hashes_are_computed_before_tags_are_replaced(tmp_path: Path) -> None:
    source = write_source(tmp_path / "source", SINGLE)
    build(source, tmp_path / "out", "v2")
    build(source, tmp_path / "out", "v3")
    two, three = (
        parse_hashes(json.loads((tmp_path / "out" / f"local-tiny-1-35-{version}" / "hashes.json").read_text()))
        for version in ("v2", "v3")
    )

    assert two == three == replace(hash_tree(read_tree(source)), cluster_class_dir="")
    assert all((two.cluster_stack, two.cluster_addon_dir, two.cluster_addon_values, two.node_image_dir))


def test_tree_hash_equals_the_go_directory_hash() -> None:
    files = {".hidden": b"", "Chart.yaml": b"version: v1\n", "Z": b"z", "a-b": b"1\n", "a.b": b"3\n", "a/b": b"2\n"}

    hashes = hash_tree({f"cluster-addon/{path}": content for path, content in files.items()})

    assert hashes.cluster_addon_dir == "pkm5hllkj1ougrurvd2rknux7vysonu0bklqxeqc38"


def test_repeated_build_changes_nothing_and_new_content_replaces_it(tmp_path: Path, source: Path) -> None:
    directory = tmp_path / "out" / build(source, tmp_path / "out").release
    before, inode = read_release(directory), directory.stat().st_ino
    build(source, tmp_path / "out")
    assert (read_release(directory), directory.stat().st_ino) == (before, inode)

    (source / "cluster-addon/cni/values.yaml").write_text("other: true\n")
    build(source, tmp_path / "out")
    assert read_release(directory) != before
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["local-tiny-1-35-v2"]


def test_invalid_helmignore_rule_is_named_with_its_file(source: Path, tmp_path: Path) -> None:
    (source / "cluster-class" / ".helmignore").write_text("**x\n")

    with pytest.raises(SourceBroken, match=r"^cluster-class/\.helmignore has a rule .*: correct it$"):
        build(source, tmp_path / "out")


def test_overlay_replaces_adds_and_removes_files(tmp_path: Path, source: Path) -> None:
    changes = write_source(
        tmp_path / "changes",
        {
            "cluster-addon/cni/values.yaml": "new: true\n",
            "cluster-addon/cni/templates/y.yaml": "a: 1\n",
            "cluster-class/templates/.wh.x.yaml": "not needed since y",
        },
    )
    name = build(source, tmp_path / "out", changes=changes)
    directory = tmp_path / "out" / name.release

    with tarfile.open(directory / "local-tiny-1-35-cluster-addon-v1.tgz") as tar:
        assert tar.getnames() == ["cni/Chart.yaml", "cni/templates/y.yaml", "cni/values.yaml"]
    with tarfile.open(directory / "local-tiny-1-35-cluster-class-v2.tgz") as tar:
        assert tar.getnames() == ["local-tiny-1-35-cluster-class/Chart.yaml"]


def test_overlay_that_removes_a_missing_file_is_rejected() -> None:
    with pytest.raises(SourceBroken, match=r"a/\.wh\.b removes a/b, which does not exist"):
        overlaid({"a/c": b""}, {"a/.wh.b": b""})


def test_unknown_tag_is_named_with_its_line() -> None:
    with pytest.raises(SourceBroken, match=r"x\.yaml, line 2: << \.ClusterVersion >> is not a known tag"):
        fill_tags({"x.yaml": b"a: 1\nb: << .ClusterVersion >>\n"}, {"ClusterClassVersion": "v1"})


BROKEN = {
    "no settings": ("csctl.yaml", None, "csctl.yaml is missing"),
    "settings of no YAML": ("csctl.yaml", "[", "csctl.yaml"),
    "a Kubernetes minor": ("csctl.yaml", SETTINGS.replace("v1.35.4", "v1.35"), "config.kubernetesVersion is 'v1.35'"),
    "no provider": ("csctl.yaml", SETTINGS.replace("type: local", "x: y"), "config.provider.type is missing"),
    "a dash in the name": ("csctl.yaml", SETTINGS.replace("tiny", "ti--ny"), "config.clusterStackName is 'ti--ny'"),
    "no class chart": ("cluster-class/Chart.yaml", None, "cluster-class/Chart.yaml is missing"),
    "a foreign chart name": (
        "cluster-class/Chart.yaml",
        CLASS_CHART.replace("1-35", "1-34"),
        "write name: local-tiny-1-35-cluster-class",
    ),
    "a chart without version": (
        "cluster-class/Chart.yaml",
        "name: local-tiny-1-35-cluster-class\n",
        "has no name, or no version on a line of its own",
    ),
    "a chart that is a list": ("cluster-class/Chart.yaml", "- version: v1\n", "has the name None"),
    "no stages and no values": ("clusteraddon.yaml", None, "cluster-addon-values.yaml is missing"),
    "a stage without a chart": ("cluster-addon/cni/Chart.yaml", None, "applies cni in AfterControlPlaneInitialized"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_invalid_stack_is_rejected(tmp_path: Path, case: str) -> None:
    path, text, complaint = BROKEN[case]
    files = {key: value for key, value in STAGED.items() if key != path} | ({} if text is None else {path: text})

    with pytest.raises(SpecError) as caught:
        build(write_source(tmp_path / "source", files), tmp_path / "out")
    assert complaint in caught.value.message
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_link_in_the_source_is_rejected(source: Path) -> None:
    (source / "cluster-addon/link").symlink_to("/etc/passwd")

    with pytest.raises(SourceBroken, match="link is a link or a device"):
        read_tree(source)


def test_missing_source_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(SourceBroken, match="none cannot be read: No such file"):
        read_tree(tmp_path / "none")


def test_kubernetes_version_may_omit_the_v() -> None:
    (settings,) = read_settings({"csctl.yaml": SETTINGS.replace("v1.35.4", "1.35.4").encode()})

    assert (settings.provider, settings.stack, settings.kubernetes.text) == ("local", "tiny", "v1.35.4")


def test_foreign_directory_with_the_release_name_is_not_overwritten(tmp_path: Path, source: Path) -> None:
    foreign = write_release(tmp_path / "out" / "local-tiny-1-35-v2", {"notes.txt": b"mine"})

    with pytest.raises(SourceBroken, match="already exists"):
        build(source, tmp_path / "out")
    assert read_release(foreign) == {"notes.txt": b"mine"}


def test_file_name_that_archives_reject_is_named(source: Path, tmp_path: Path) -> None:
    (source / "cluster-addon/cni/Values.yaml").touch()

    with pytest.raises(
        SourceBroken, match=r"cluster-addon/ cannot be packed: 'cni/values.yaml' exists twice .*: rename"
    ):
        build(source, tmp_path / "out")
