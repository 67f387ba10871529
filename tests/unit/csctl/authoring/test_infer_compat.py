"""The inferred compatibility.yaml of a stack, and statements of releases and stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.csctl.authoring.infer_compat import infer, infer_file
from clusterstacks.csctl.authoring.linter import apply_rules
from clusterstacks.csctl.authoring.read_compat import read_statements
from clusterstacks.csctl.authoring.stack import load_stack
from clusterstacks.model import yaml
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import UpgradeRule, parse_compatibility
from clusterstacks.model.versions import KubernetesVersion
from clusterstacks.plan.compat.kubernetes import known_minors
from clusterstacks.plan.compat.library import facts
from clusterstacks.release.charts.archive import write_archive
from tests.support.builders.releases import METADATA, staged_release, write_release
from tests.support.builders.tiny_stack import tiny, write

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.model.files.compatibility import Compatibility

NET = "cluster-addon/net/Chart.yaml"
HELD = "cluster-addon/net/charts/{}/Chart.yaml"
STATED = "apiVersion: compatibility.clusterstack.x-k8s.io/v1alpha1\nkubernetes: '>=1.35 <1.36'\ncomponents: []\n"


def chart(name: str, version: str = "1.0.0", **more: str) -> str:
    lines = {"apiVersion": "v2", "name": name, "version": version, **more}
    return "".join(f"{key}: {value}\n" for key, value in lines.items())


def needing(*dependencies: str) -> str:
    listed = "".join(
        f"- {{name: {name}, version: '{version}', repository: https://charts.example}}\n"
        for name, version in (one.split(" ", 1) for one in dependencies)
    )
    return f"{chart('net')}dependencies:\n{listed}"


def inferred(changes: Mapping[str, str | None], files: Mapping[str, bytes] | None = None) -> tuple[str, Compatibility]:
    text = infer(load_stack({**tiny(changes), **(files or {})}, "tiny"), facts(), known_minors())
    return text, parse_compatibility(yaml.load(text))


def comments(text: str, name: str) -> list[str]:
    """The lines of comment above a component."""
    before = text[: text.index(f'- name: "{name}"')].splitlines()
    start = max(number for number, line in enumerate(before) if not line.startswith("#")) + 1
    return before[start:]


def test_own_chart_is_its_own_component() -> None:
    text, stated = inferred({NET: chart("net", appVersion="v2.3.4")})

    (net,) = stated.components
    assert (net.name, net.text, net.addon, net.kubernetes) == ("net", "2.3.4", "net", None)
    assert comments(text, "net")[0] == f"# evidence: appVersion of {NET}"
    assert "No range is known" in comments(text, "net")[1]
    assert str(stated.kubernetes) == ">=1.35 <1.36"
    assert text.splitlines()[2].startswith("# guess: ")


def test_chart_version_is_only_a_guess_of_the_software_version() -> None:
    text, stated = inferred({NET: chart("net", "1.0.7", appVersion="latest")})

    assert stated.components[0].text == "1.0.7"
    assert comments(text, "net")[0].startswith("# guess: version of ")


def test_vendored_chart_names_its_component() -> None:
    changes = {NET: needing("cilium ~1.19"), HELD.format("cilium"): chart("cilium", "1.19.4", appVersion="1.19.4")}
    text, stated = inferred(changes)

    assert [(one.name, one.text, one.addon) for one in stated.components] == [("cilium", "1.19.4", "net")]
    assert "cilium 1.19.4 is tested with Kubernetes >=1.32 <1.36" in comments(text, "cilium")[1]
    assert "known to work with Kubernetes 1.32, 1.33, 1.34, 1.35." in text


def test_packed_vendored_chart_names_its_component() -> None:
    packed = write_archive(
        {"metrics-server/Chart.yaml": chart("metrics-server", "3.13.0", appVersion="0.8.0").encode()}
    )
    _, stated = inferred(
        {NET: needing("metrics-server 3.13.0")}, {"cluster-addon/net/charts/metrics-server-3.13.0.tgz": packed}
    )

    assert [(one.name, one.text) for one in stated.components] == [("metrics-server", "0.8.0")]


def test_facts_name_the_component_of_a_chart_that_is_not_vendored() -> None:
    text, stated = inferred({NET: needing("openstack-cinder-csi 2.34.2", "tigera-operator v3.31.1", "mine 4.5.6")})

    assert [(one.name, one.text) for one in stated.components] == [
        ("openstack-cinder-csi", "1.34.1"),
        ("calico", "3.31.1"),
        ("mine", "4.5.6"),
    ]
    assert comments(text, "openstack-cinder-csi")[0].startswith("# evidence: dependency")
    assert comments(text, "mine")[0].startswith("# guess: dependency")


def test_version_range_of_a_dependency_gives_a_guess() -> None:
    text, stated = inferred({NET: needing("cilium ~1.19")})

    assert [(one.name, one.text) for one in stated.components] == [("cilium", "1.19")]
    assert comments(text, "cilium")[0].startswith("# guess: ")


def test_kube_version_of_a_chart_is_the_range_of_unknown_software() -> None:
    changes = {
        NET: needing("mine 4.5.6"),
        HELD.format("mine"): chart("mine", "4.5.6", appVersion="9.1.0", kubeVersion="'>=1.25.0-0 <1.38.0-0'"),
    }
    text, stated = inferred(changes)

    assert str(stated.components[0].kubernetes) == ">=1.25 <1.38"
    assert stated.components[0].source == "kubeVersion of chart mine"
    assert any("Helm rejects" in line for line in comments(text, "mine"))


def test_library_charts_are_left_out_and_component_names_are_unique() -> None:
    changes = {
        NET: needing("common 1.0.0", "cilium 1.19.4"),
        HELD.format("common"): chart("common", type="library"),
        "cluster-addon/more/Chart.yaml": needing("cilium 1.19.3").replace("name: net", "name: more"),
    }
    _, stated = inferred(changes)

    assert sorted((one.name, one.addon) for one in stated.components) == [("cilium", "more"), ("cilium-net", "net")]


def test_images_of_known_software_in_the_class_are_components() -> None:
    image = "# image: ghcr.io/kube-vip/kube-vip:v1.0.0, registry.example/mine:1.2.3, x-kube-vip:2.0.0\n"
    text, stated = inferred({"cluster-class/templates/vip.yaml": image})

    assert ("kube-vip", "1.0.0", "") in [(one.name, one.text, one.addon) for one in stated.components]
    assert comments(text, "kube-vip")[0] == "# evidence: image in cluster-class/templates/vip.yaml"
    assert len(stated.components) == 2


def test_a_stack_for_several_minors_states_all_of_them() -> None:
    versions = "".join(f"- {{kubernetes: {version}}}\n" for version in ("1.34.2", "1.36.1", "1.35.3"))
    stack = "provider: test\nclusterStackName: tiny\n"
    _, stated = inferred({"csctl.yaml": None, "stack.yaml": stack, "versions.yaml": versions})

    assert str(stated.kubernetes) == ">=1.34 <1.37"


def test_inferred_file_has_no_lint_findings() -> None:
    text, _ = inferred({NET: chart("cilium", appVersion="1.19.4")})

    assert (
        apply_rules(load_stack(tiny({NET: chart("cilium", appVersion="1.19.4"), "compatibility.yaml": text}), "1-35"))
        == ()
    )


@given(st.text(max_size=20), st.text(max_size=12), st.sampled_from(["", "'>=1.25'", "new", "[]"]))
def test_inferred_file_of_any_chart_is_readable(name: str, version: str, wanted: str) -> None:
    quoted = {key: yaml.dump(value).strip() for key, value in (("name", name or "x"), ("version", version))}
    content = f"apiVersion: v2\nname: {quoted['name']}\nappVersion: {quoted['version']}\nkubeVersion: {wanted}\n"
    try:
        yaml.load(content)
    except SpecError:
        return
    try:
        _, stated = inferred({NET: content})
    except SpecError as error:
        assert "Chart.yaml" in error.message  # noqa: PT017 - either outcome is fine
        return
    assert [one.addon for one in stated.components] == ["net"]


def test_existing_file_is_replaced_only_with_force(tmp_path: Path) -> None:
    root = write(tmp_path / "1-35", tiny({"compatibility.yaml": "mine"}))

    with pytest.raises(SpecError, match="already exists: use --force"):
        infer_file(root, facts(), known_minors(), force=False)
    assert (root / "compatibility.yaml").read_text() == "mine"
    assert infer_file(root, facts(), known_minors(), force=True) == root / "compatibility.yaml"
    assert "net" in (root / "compatibility.yaml").read_text()
    assert not list(root.glob(".*"))


def test_file_is_written_into_stacks_only(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="is not a valid stack"):
        infer_file(tmp_path, facts(), known_minors(), force=False)
    assert not list(tmp_path.iterdir())


def test_statements_of_releases_and_stacks_are_read(tmp_path: Path) -> None:
    release = staged_release() | {"compatibility.yaml": STATED.encode()}
    write_release(tmp_path / "local-tiny-1-35-v2", release)
    write(tmp_path / "stacks/1-35", tiny({"compatibility.yaml": STATED}))
    write(tmp_path / "stacks/1-36", tiny())

    ((name, of_release),) = read_statements(tmp_path / "local-tiny-1-35-v2")
    (first, of_stack), (second, bundle) = read_statements(tmp_path / "stacks")
    assert (name, first, second) == (
        "local-tiny-1-35-v2",
        str(tmp_path / "stacks/1-35"),
        str(tmp_path / "stacks/1-36"),
    )
    assert of_release.compatibility == of_stack.compatibility
    assert bundle.compatibility is None
    assert of_release.kubernetes == of_stack.kubernetes == KubernetesVersion.parse("v1.35.4")


def test_release_with_metadata_and_compatibility_only_is_read(tmp_path: Path) -> None:
    files = {"metadata.yaml": METADATA.format(version="v2").encode(), "compatibility.yaml": STATED.encode()}
    write_release(tmp_path / "local-tiny-1-35-v2", files)

    ((_, candidate),) = read_statements(tmp_path / "local-tiny-1-35-v2")
    assert candidate.compatibility is not None


def test_statements_of_all_releases_in_a_directory_are_read(tmp_path: Path) -> None:
    for version in ("v10", "v2"):
        files = {"metadata.yaml": METADATA.format(version=version).encode(), "compatibility.yaml": STATED.encode()}
        write_release(tmp_path / f"local-tiny-1-35-{version}", files)

    assert sorted(label for label, _ in read_statements(tmp_path)) == ["local-tiny-1-35-v10", "local-tiny-1-35-v2"]


def test_wrapper_chart_has_the_version_of_the_wrapped_chart_of_its_name() -> None:
    wrapper = needing("cilium 1.19.4").replace("name: net", "name: cilium")
    _, stated = inferred({NET: wrapper, HELD.format("cilium"): chart("cilium", "1.19.4", appVersion="1.19.5")})

    assert [(one.name, one.text) for one in stated.components] == [("cilium", "1.19.5")]


def test_unreadable_chart_is_named() -> None:
    with pytest.raises(SpecError, match=r"cluster-addon/net: Chart\.yaml"):
        inferred({NET: "["})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"compatibility.yaml": "["}, r"/1-35/compatibility\.yaml, line"),
        ({"compatibility.yaml": "a: 1"}, r"/1-35/compatibility\.yaml has the unknown field a"),
        ({"csctl.yaml": "config: 1\n"}, r"is not a valid stack: csctl\.yaml"),
    ],
)
def test_unreadable_stack_is_rejected(tmp_path: Path, changes: dict[str, str | None], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        read_statements(write(tmp_path / "1-35", tiny(changes)))


def test_upgrade_rule_of_the_project_is_written_with_its_source() -> None:
    text, stated = inferred({NET: needing("cilium 1.18.2")})

    (cilium,) = [one for one in stated.components if one.name == "cilium"]
    assert cilium.upgrade == UpgradeRule(max_minor_step=1)
    assert "  # evidence: https://" in text[text.index('- name: "cilium"') :]
