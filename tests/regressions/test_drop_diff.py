"""``csctl template`` and ``csctl diff`` of releases that csctl written in Go built, and without a network."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.csctl.shared import output
from clusterstacks.csctl.verbs.diff import diff
from clusterstacks.csctl.verbs.template import template
from clusterstacks.model import yaml
from clusterstacks.release.charts.archive import read_archive, write_archive
from tests.support.builders.tiny_stack import tiny, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import click

    Run = Callable[..., tuple[int, str, str]]

NEEDY = "apiVersion: v2\nname: {}\nversion: 1.0.0\ndependencies:\n  - {{name: a, version: 1.0.0, repository: 'https://a.example'}}\n"
NET = "cluster-addon/net/Chart.yaml"
SECRET = (
    "apiVersion: v1\nkind: Secret\nmetadata: {name: ca}\nstringData:\n  key: {{ randAlphaNum 20 }}\n  user: admin\n"
)
MORE = "cluster-addon/net/templates/more.yaml"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(verb: click.Command, *arguments: str | Path) -> tuple[int, str, str]:
        code = output.run(lambda: verb.main([str(one) for one in arguments], standalone_mode=False))
        out, err = capsys.readouterr()
        return code, out, err

    return call


def built(source: Path, into: Path, version: str = "v1") -> Path:
    name = build_release(source, into, cluster_stack=version, cluster_addon=version, node_image="v1")
    return into / name.release


def as_go_writes_it(release: Path) -> None:
    """Write the files anew that csctl written in Go writes: indented, sorted, without nodeImagesDir."""
    metadata = release / "metadata.yaml"
    metadata.write_text(json.dumps(yaml.load(metadata.read_text(), name="metadata.yaml"), indent=4, sort_keys=True))
    hashes = release / "hashes.json"
    known = json.loads(hashes.read_text()) | {"clusterAddonValues": ""}
    hashes.write_text(json.dumps({key: value for key, value in known.items() if key != "nodeImagesDir"}))
    (archive,) = release.glob("*-cluster-class-*.tgz")
    members = read_archive(archive.read_bytes(), archive.name)
    (chart,) = [path for path in members if path.count("/") == 1 and path.endswith("/Chart.yaml")]
    document = yaml.load(members[chart], name=chart)
    archive.write_bytes(write_archive({**members, chart: json.dumps(document, sort_keys=True).encode()}))


@pytest.mark.regression("DROP-L1")
def test_class_is_rendered_without_addon_chart_dependencies(run: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "stack", tiny({NET: NEEDY.format("net")}))
    release = built(source, tmp_path / "releases")

    for directory in (source, release):
        for option in ("--class", "--sample"):
            code, out, err = run(template, directory, option, "--offline")
            assert (code, "kind: Cluster" in out) == (0, True), err
        assert "https://a.example is not in the cache" in run(template, directory, "--addon", "net", "--offline")[2]


@pytest.mark.regression("DROP-L1")
def test_releases_are_compared_without_addon_chart_dependencies(run: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "stack", tiny({NET: NEEDY.format("net")}))
    release = built(source, tmp_path / "releases")
    (source / "cluster-addon/net/values.yaml").write_text("more: 1\n")

    code, out, err = run(diff, release, source, "--dependencies", "leave")

    assert code == 0, err
    assert "addon net: values and objects are not compared, because its chart lacks dependencies" in err
    assert "cluster-addon/net/values.yaml" in out


@pytest.mark.regression("DROP-L6")
def test_release_of_go_csctl_has_no_difference(run: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "stack", tiny())
    ours, theirs = built(source, tmp_path / "ours"), built(source, tmp_path / "theirs")
    as_go_writes_it(theirs)

    assert run(diff, theirs, ours, "--exit-code")[0] == 0
    (theirs / "hashes.json").write_text('{"clusterStack": "other"}')
    assert run(diff, theirs, ours, "--exit-code")[0] == 1


@pytest.mark.regression("DROP-L6")
def test_random_values_of_each_render_are_not_differences(run: Run, tmp_path: Path) -> None:
    source = write(tmp_path / "stack", tiny({MORE: SECRET}))
    before = built(source, tmp_path / "before")

    code, out, err = run(diff, before, built(source, tmp_path / "after"), "--exit-code")
    assert code == 0, out + err
    assert "key:" not in out

    (source / MORE).write_text(SECRET.replace("admin", "root"))
    code, out, _ = run(diff, before, built(source, tmp_path / "changed"), "--exit-code")
    assert code == 1
    assert "user: sha256:" in out
    assert "+  key:" not in out
