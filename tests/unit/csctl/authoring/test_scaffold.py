from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.authoring.linter import apply_rules
from clusterstacks.csctl.authoring.scaffold import INFRASTRUCTURE, LOCAL, NewStack, write_new_files
from clusterstacks.csctl.authoring.stack import load_stack
from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError

PROVIDERS = ["local", "somebody", *INFRASTRUCTURE]


def begun(provider: str) -> dict[str, str]:
    return NewStack.parse(f"{provider}/mine/1-35").files()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_new_stack_has_only_placeholder_findings_and_builds(provider: str, tmp_path: Path) -> None:
    files = begun(provider)
    write_new_files(files, tmp_path / "stack")
    name = build_release(tmp_path / "stack", tmp_path / "out", cluster_stack="v1", cluster_addon="v1", node_image="v1")

    found = apply_rules(load_stack({path: text.encode() for path, text in files.items()}, "1-35"))
    assert {one.rule for one in found} == (set() if provider == LOCAL else {"placeholder"})
    assert name.release == f"{provider}-mine-1-35-v1"


def test_stages_before_an_upgrade_of_a_new_stack_wait_for_health() -> None:
    written = yaml.load(NewStack.parse("local/mine/1-35").files()["clusteraddon.yaml"], name="clusteraddon.yaml")
    stages = written["addonStages"]["BeforeClusterUpgrade"]
    assert [one["waitFor"] for one in stages] == ["Healthy"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_new_stack_contains_no_unreplaced_tag(provider: str) -> None:
    assert not [path for path, text in begun(provider).items() if re.search(r"@\w+@", text)]


def test_default_directory_of_a_stack_follows_the_convention() -> None:
    assert str(NewStack.parse("openstack/scs/1-35").directory) == "providers/openstack/scs/1-35"


def test_kubernetes_version_is_the_first_patch_or_the_given_one() -> None:
    assert "kubernetesVersion: v1.35.0" in begun("local")["csctl.yaml"]
    assert NewStack.parse("local/mine/1.35", "1.35.4").kubernetes.text == "v1.35.4"


@pytest.mark.parametrize("name", ["local/mine", "Local/mine/1-35", "local/mine/135", "a/b/1-35/c", "/x/1-1"])
def test_invalid_release_name_is_rejected(name: str) -> None:
    with pytest.raises(SpecError):
        NewStack.parse(name)


def test_version_of_another_minor_is_rejected() -> None:
    with pytest.raises(SpecError, match=r"not a version of Kubernetes 1\.35"):
        NewStack.parse("local/mine/1-35", "v1.34.1")


@given(st.sets(st.sampled_from(sorted(begun("local"))), min_size=1))
def test_no_file_is_written_if_one_exists(there: set[str]) -> None:
    with TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_new_files(dict.fromkeys(there, "mine"), root)
        with pytest.raises(SpecError, match=r"already exists?"):
            write_new_files(begun("local"), root)
        left = {path.relative_to(root).as_posix(): path.read_text() for path in root.rglob("*") if path.is_file()}
        assert left == dict.fromkeys(there, "mine")


def test_stack_that_cannot_be_written_completely_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="name too long"):
        write_new_files({"csctl.yaml": "mine", f"{'x' * 300}.yaml": ""}, tmp_path)

    assert list(tmp_path.iterdir()) == []
