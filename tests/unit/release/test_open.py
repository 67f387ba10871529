"""Releases with missing, truncated or invalid files are rejected with release, file and cause."""

from __future__ import annotations

import re
from os import urandom
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.addon_config import LifecycleHook
from clusterstacks.release.charts.archive import read_archive, write_archive
from clusterstacks.release.charts.chart import ChartCache, read_chart
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseBroken, ReleaseDamaged
from clusterstacks.release.open import open_release
from tests.support.builders.releases import (
    CONFIG,
    METADATA,
    SINGLE,
    STAGED,
    below,
    chart,
    gzipped,
    single_release,
    staged_release,
    tar_of,
    write_release,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.release import Release

CLASS = "local-tiny-1-35-cluster-class-v2.tgz"
ADDON = "local-tiny-1-35-cluster-addon-v1.tgz"
SINGLE_CLASS = "local-tiny-1-35-cluster-class-v3.tgz"


def opened(directory: Path, name: ReleaseName, files: Mapping[str, bytes]) -> Release:
    return open_release(read_contents(name, write_release(directory, files)), ChartCache())


def test_release_with_stages_provides_its_parts(tmp_path: Path) -> None:
    files = staged_release()
    release = opened(tmp_path / "r", STAGED, files)

    assert (release.name, release.staged, release.addons()) == (STAGED, True, ("cni", "csi"))
    assert release.config is not None
    assert [stage.addon for stage in release.config.stages[LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED]] == [
        "cni",
        "csi",
    ]
    assert read_chart(release.class_chart(), "x") == read_chart(files[CLASS], "x")
    assert release.hashes.cluster_stack == "abcdefghij"
    cni = release.addon("cni")
    assert (cni.values_template, cni.values_name) == ("values: {{ .Cluster.metadata.name }}\n", "overwrite.yaml")
    assert read_archive(cni.chart, "x")["cni/Chart.yaml"] == chart("cni")["Chart.yaml"]
    assert release.addon("csi").values_template is None
    assert release.node_images() is None


@pytest.mark.regression("DROP-M6")
@pytest.mark.parametrize("hook", [LifecycleHook.BEFORE_CLUSTER_UPGRADE, LifecycleHook.AFTER_CLUSTER_UPGRADE])
def test_missing_chart_of_an_upgrade_stage_fails_only_that_addon(tmp_path: Path, hook: LifecycleHook) -> None:
    stages = f"{CONFIG}  {hook}:\n    - {{name: ngnix, action: apply}}\n"
    release = opened(tmp_path / "r", STAGED, staged_release() | {"clusteraddon.yaml": stages.encode()})

    assert release.addons() == ("cni", "csi")
    with pytest.raises(ReleaseBroken, match=r"has no addon ngnix \(it has cni, csi\)"):
        release.addon("ngnix")


def test_release_with_one_chart_provides_its_parts(tmp_path: Path) -> None:
    files = single_release() | {"node-images.yaml": b"images", "topology-docker.yaml": b": no YAML ["}
    release = opened(tmp_path / "r", SINGLE, files)

    assert (release.staged, release.config, release.addons()) == (False, None, ("cluster-addon",))
    addon = release.addon("cluster-addon")
    assert read_chart(addon.chart, "x") == read_chart(files[ADDON], "x")
    assert addon.values_name == "cluster-addon-values.yaml"
    assert addon.values_template == "values: |\n  a: {{ .Cluster.metadata.name }}\n"
    assert release.node_images() is None, "only the images of OpenStack are read"


STATED = "apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1\nkubernetes: '{}'\ncomponents: []\n"


def test_compatibility_statement_of_a_release_is_read(tmp_path: Path) -> None:
    files = staged_release()
    bundle = opened(tmp_path / "bundle", STAGED, files)
    ranged = opened(tmp_path / "r", STAGED, files | {"compatibility.yaml": STATED.format(">=1.34 <1.37").encode()})

    assert bundle.compatibility is None
    assert ranged.compatibility is not None
    assert str(ranged.compatibility.kubernetes) == ">=1.34 <1.37"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (STATED.format(">=1.36"), r"compatibility\.yaml .*does not contain v1\.35\.4.*widen the range"),
        (STATED.format("new"), r"compatibility\.yaml: kubernetes: 'new' is not a valid version range"),
        (STATED.format(">=1.35") + "mine: 1\n", r"compatibility\.yaml has the unknown field mine"),
        ("[", r"compatibility\.yaml, line"),
    ],
)
def test_release_with_invalid_ranges_is_rejected(tmp_path: Path, content: str, told: str) -> None:
    with pytest.raises(SpecError, match=rf"release {STAGED}: {told}"):
        opened(tmp_path / "r", STAGED, staged_release() | {"compatibility.yaml": content.encode()})


def test_stages_take_precedence_if_both_layouts_are_present(tmp_path: Path) -> None:
    files = staged_release() | {"cluster-addon-values.yaml": b"left over"}

    assert opened(tmp_path / "r", STAGED, files).staged


def test_digest_depends_on_the_files_and_not_on_their_directory(tmp_path: Path) -> None:
    first = opened(tmp_path / "one", STAGED, staged_release())
    second = opened(tmp_path / "two", STAGED, dict(reversed(staged_release().items())))

    assert first.digest == second.digest
    assert re.fullmatch("sha256:[0-9a-f]{64}", first.digest)


def test_addon_digest_does_not_depend_on_the_packaging(tmp_path: Path) -> None:
    files = staged_release()
    members = sorted(read_archive(files[ADDON], "x").items(), reverse=True)
    repacked = files | {ADDON: gzipped(tar_of(*((f"./{path}", content) for path, content in members)))}
    first, second = opened(tmp_path / "1", STAGED, files), opened(tmp_path / "2", STAGED, repacked)

    assert first.digest != second.digest
    assert [first.addon(name) for name in first.addons()] == [second.addon(name) for name in second.addons()]


def test_evicted_chart_is_packed_again(tmp_path: Path) -> None:
    contents = read_contents(STAGED, write_release(tmp_path / "r", staged_release()))
    small, large = open_release(contents, ChartCache(limit_bytes=0)), open_release(contents, ChartCache())

    assert small.addon("cni") == large.addon("cni")


def test_files_beside_the_addons_are_ignored(tmp_path: Path) -> None:
    addons = below("cni", chart("cni")) | below("csi", chart("csi")) | {".helmignore": b"x", "docs/README.md": b"x"}
    release = opened(tmp_path / "r", STAGED, staged_release() | {ADDON: write_archive(addons)})

    assert release.addons() == ("cni", "csi")


def test_helmignored_files_are_not_passed_to_helm(tmp_path: Path) -> None:
    ignored = {".helmignore": "*.bak\noverwrite.yaml\n", "overwrite.yaml": "a: 1\n", "templates/x.yaml.bak": "x"}
    addons = below("cni", chart("cni", **ignored)) | below("csi", chart("csi"))
    release = opened(tmp_path / "r", STAGED, staged_release() | {ADDON: write_archive(addons)})

    addon = release.addon("cni")

    assert "cni/templates/x.yaml.bak" not in read_archive(addon.chart, "cni")
    assert addon.values_template == "a: 1\n"


def test_delete_stage_needs_no_chart(tmp_path: Path) -> None:
    config = CONFIG + "    - {name: gone, action: delete}\n"
    release = opened(tmp_path / "r", STAGED, staged_release() | {"clusteraddon.yaml": config.encode()})

    assert release.config is not None
    assert "gone" in release.config.addons()


def test_unknown_addon_is_rejected_with_the_known_names(tmp_path: Path) -> None:
    release = opened(tmp_path / "r", STAGED, staged_release())

    with pytest.raises(ReleaseBroken, match=r"has no addon nope \(it has cni, csi\)"):
        release.addon("nope")


def test_file_changed_after_opening_is_detected(tmp_path: Path) -> None:
    release = opened(tmp_path / "r", SINGLE, single_release())
    (tmp_path / "r" / SINGLE_CLASS).write_bytes(b"other")
    (tmp_path / "r" / ADDON).unlink()

    for read in (release.class_chart, lambda: release.addon("cluster-addon")):
        with pytest.raises(ReleaseDamaged, match="changed on disk"):
            read()


def metadata(**changes: str) -> bytes:
    text = METADATA.format(version="v2")
    for old, new in changes.items():
        text = text.replace(old, new)
    return text.encode()


def addon_archive(**charts: dict[str, bytes]) -> bytes:
    files: dict[str, bytes] = {}
    for name, content in charts.items():
        files |= below(name, content)
    return write_archive(files)


CNI_CSI = {"cni": chart("cni"), "csi": chart("csi")}

BROKEN: dict[str, tuple[str, bytes | None, str]] = {
    "no metadata": ("metadata.yaml", None, "is missing (the release contains"),
    "empty metadata": ("metadata.yaml", b"", "the document is missing"),
    "metadata that is a list": ("metadata.yaml", b"- a", "the document is a list"),
    "metadata that is no YAML": ("metadata.yaml", b"versions: [", "did not find expected"),
    "metadata of a wrong type": ("metadata.yaml", metadata(**{"v1.35.4": "1.35"}), "versions.kubernetes is"),
    "metadata of another version": (
        "metadata.yaml",
        metadata(**{"Stack: v2": "Stack: v3"}),
        "is for version v3, but the name",
    ),
    "metadata of another minor": ("metadata.yaml", metadata(**{"v1.35.4": "v1.36.0"}), "is for Kubernetes v1.36.0"),
    "hashes that are no JSON": ("hashes.json", b"{", "is not JSON"),
    "hashes nested without end": ("hashes.json", b"[" * 100_000, "is not JSON"),
    "hashes that are a list": ("hashes.json", b"[]", "the document is a list"),
    "no class chart": (CLASS, None, "is missing"),
    "a cut off class chart": (CLASS, staged_release()[CLASS][:100], "is truncated"),
    "a class chart in no directory": (CLASS, write_archive(chart("c")), "has 0 top directories"),
    "a class chart with a file beside it": (
        CLASS,
        write_archive({"evil": b""} | below("c", chart("c"))),
        "member 'evil' is outside",
    ),
    "a class chart with nothing": (CLASS, write_archive({}), "has 0 top directories"),
    "a class chart in two": (CLASS, addon_archive(**CNI_CSI), "has 2 top directories"),
    "a class chart without Chart.yaml": (CLASS, addon_archive(c={"values.yaml": b""}), "has no Chart.yaml"),
    "a class chart without a name": (CLASS, addon_archive(c={"Chart.yaml": b"version: v1"}), "has no chart name"),
    "a class chart of no YAML": (CLASS, addon_archive(c={"Chart.yaml": b"{"}), "Chart.yaml, line 2"),
    "no addon archive": (ADDON, None, "is missing"),
    "an addon archive of text": (ADDON, b"text", "is damaged or not a gzip file"),
    "an addon archive with a link": (ADDON, gzipped(tar_of(("cni/../..", b""))), "leaves the archive"),
    "an addon of no YAML": (ADDON, addon_archive(cni={"Chart.yaml": b"\xff"}), "cni: Chart.yaml"),
    "an addon without its chart": (ADDON, addon_archive(cni=chart("cni")), "applies csi in AfterControlPlane"),
    "an overwrite of bytes": (
        ADDON,
        addon_archive(cni=chart("cni") | {"overwrite.yaml": b"\xff"}, csi=chart("c")),
        "UTF",
    ),
    "a huge overwrite": (
        ADDON,
        addon_archive(cni=chart("cni") | {"overwrite.yaml": urandom(1_100_000)}, csi=chart("csi")),
        "is larger than",
    ),
    "no stages and no values": (
        "clusteraddon.yaml",
        None,
        "cluster-addon-values.yaml is missing, and clusteraddon.yaml is missing",
    ),
    "stages that are a text": ("clusteraddon.yaml", b"text", "the document is"),
    "a stage with a wrong action": ("clusteraddon.yaml", CONFIG.replace("apply", "aply").encode(), "apply or delete"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_invalid_release_is_rejected_with_the_file(tmp_path: Path, case: str) -> None:
    file, content, complaint = BROKEN[case]
    files = staged_release()
    if content is None:
        del files[file]
    else:
        files[file] = content

    with pytest.raises(SpecError, match=re.escape(complaint)) as caught:
        opened(tmp_path / "r", STAGED, files)
    assert caught.value.message.startswith("release local-tiny-1-35-v2: ")
    assert file in caught.value.message


@pytest.mark.parametrize("file", sorted(single_release()))
def test_a_release_with_one_chart_needs_every_file(tmp_path: Path, file: str) -> None:
    files = single_release()
    del files[file]

    with pytest.raises(ReleaseBroken, match=re.escape(f"release local-tiny-1-35-v3: {file} is missing")):
        opened(tmp_path / "r", SINGLE, files)


def test_non_regular_file_is_rejected(tmp_path: Path) -> None:
    directory = write_release(tmp_path / "r", staged_release())
    (directory / "inner").mkdir()
    with pytest.raises(ReleaseBroken, match="inner is not a regular file of at most"):
        read_contents(STAGED, directory)


def test_link_in_a_release_is_rejected(tmp_path: Path) -> None:
    directory = write_release(tmp_path / "r", staged_release())
    (directory / "more").symlink_to("/etc/passwd")

    with pytest.raises(ReleaseBroken, match="more is a link; replace it with the file"):
        read_contents(STAGED, directory)


def test_file_names_that_could_forge_a_digest_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ReleaseBroken, match="invisible character"):
        read_contents(STAGED, write_release(tmp_path / "r", {"a\nb": b""}))


def test_too_many_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ReleaseBroken, match="exceeds the limit of 100 files"):
        read_contents(STAGED, write_release(tmp_path / "r", {f"f{number:03}": b"" for number in range(101)}))


@settings(max_examples=60, deadline=None)
@given(file=st.sampled_from(sorted(staged_release())), at=st.integers(0, 3000), damage=st.binary(max_size=30))
def test_arbitrarily_damaged_file_is_accepted_or_rejected_with_a_spec_error(
    tmp_path_factory: pytest.TempPathFactory, file: str, at: int, damage: bytes
) -> None:
    files = staged_release()
    content = bytearray(files[file])
    at %= len(content)
    content[at : at + len(damage)] = damage
    try:
        opened(tmp_path_factory.mktemp("damage") / "r", STAGED, files | {file: bytes(content)})
    except SpecError as error:
        message = error.message
    else:
        message = ""
    assert message == "" or "local-tiny-1-35-v2" in message
