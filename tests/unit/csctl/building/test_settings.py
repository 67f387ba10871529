from __future__ import annotations

import pytest

from clusterstacks.csctl.building.settings import open_minor, read_settings
from clusterstacks.csctl.building.source_tree import read_tree
from clusterstacks.model.errors import SpecError
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from tests.support.builders.stack_directories import LAYOUTS, directory_of

CSCTL = """\
config:
  kubernetesVersion: v1.35.4
  clusterStackName: tiny
  provider: {type: local}
"""
STACK = "provider: local\nclusterStackName: tiny\nkubernetesVersion: 1.35.3\n"


def tree(**files: str) -> dict[str, bytes]:
    return {f"{name}.yaml": text.encode() for name, text in files.items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_settings_of_every_layout_are_read(layout: str) -> None:
    assert read_settings(read_tree(directory_of(layout)))[0].series == LAYOUTS[layout]


def test_versions_yaml_is_read_in_order_with_addon_versions() -> None:
    found = read_settings(read_tree(directory_of("several")), listed=True)

    assert [(one.kubernetes.text, one.addons) for one in found] == [
        ("v1.34.2", {"occm": "2.34.1", "disk_driver": "1.1.9"}),
        ("v1.35.1", {"occm": "2.35.0", "disk_driver": "1.2.0"}),
    ]


@pytest.mark.parametrize("written", ["1.30", '"1.30"', "'v1.30'  # newest patch", "1.30\r"])
def test_minor_is_read_as_text_and_not_as_a_number(written: str) -> None:
    files = tree(stack=STACK.replace("1.35.3", written))
    minor, newest = KubernetesMinor(1, 30), KubernetesVersion(1, 30, 14)

    assert open_minor(files) == minor
    assert read_settings(files, {minor: newest})[0].kubernetes == newest


def test_minor_without_a_known_patch_is_rejected_with_advice() -> None:
    with pytest.raises(SpecError, match=r"stack.yaml: kubernetesVersion is '1.30': the newest patch .* such as 1.30.1"):
        read_settings(tree(stack=STACK.replace("1.35.3", "1.30")))


def test_stack_yaml_overrides_an_incomplete_version_of_csctl_yaml() -> None:
    (settings,) = read_settings(tree(stack=STACK, csctl=CSCTL.replace("v1.35.4", "v1.35")))

    assert settings.kubernetes.text == "v1.35.3"


@pytest.mark.parametrize("config", ["", "config: {}", "config:"])
def test_empty_provider_config_needs_no_plugin(config: str) -> None:
    text = CSCTL.replace("{type: local}", f"\n    type: local\n    {config}")

    assert not read_settings(tree(csctl=text))[0].plugin


def test_provider_config_needs_the_plugin_in_both_layouts() -> None:
    text = CSCTL.replace("{type: local}", "{type: local, config: {method: get}}")

    assert read_settings(tree(csctl=text))[0].plugin
    assert read_settings(tree(csctl=text, stack=STACK))[0].plugin


@pytest.mark.parametrize("other", ["versions.yaml", "stack.yaml"])
def test_csctl_yaml_version_is_the_default_and_others_are_built_on_request(other: str) -> None:
    text = STACK.replace("1.35.3", "1.34.5") if other == "stack.yaml" else "- kubernetes: 1.34.5\n"
    files = {**tree(csctl=CSCTL), other: text.encode()}

    (own,) = read_settings(files)
    assert (own.kubernetes.text, own.addons, own.sets_names) == ("v1.35.4", {}, False)
    found = read_settings(files, listed=True)
    assert [(one.kubernetes.text, one.sets_names) for one in found] == [("v1.34.5", True), ("v1.35.4", False)]


def test_other_patch_in_csctl_yaml_is_recorded() -> None:
    (found,) = read_settings(tree(csctl=CSCTL, versions="- kubernetes: 1.35.5\n"), listed=True)
    assert (found.kubernetes.text, str(found.unlisted)) == ("v1.35.5", "v1.35.4")

    (same,) = read_settings(tree(csctl=CSCTL, versions="- kubernetes: 1.35.4\n"), listed=True)
    assert same.unlisted is None


def test_version_of_a_distribution_is_kept() -> None:
    for files in (
        {"csctl": CSCTL.replace("v1.35.4", "v1.35.4+rke2r1")},
        {"stack": STACK.replace("1.35.3", "1.35.4+rke2r1")},
        {"csctl": CSCTL, "versions": "- kubernetes: v1.35.4+rke2r1\n"},
    ):
        (settings,) = read_settings(tree(**files), listed=True)
        assert settings.kubernetes.text == "v1.35.4+rke2r1"


REFUSED = {
    "nothing": ({}, "csctl.yaml is missing"),
    "the former name": ({"csmctl": CSCTL}, "csmctl.yaml is the former name of csctl.yaml: rename the file"),
    "a dash at the end": (
        {"csctl": CSCTL.replace("tiny", "tiny-")},
        "config.clusterStackName is 'tiny-': expected lower",
    ),
    "a dash in the provider": (
        {"csctl": CSCTL.replace("local", "lo-cal")},
        "config.provider.type is 'lo-cal': expected",
    ),
    "two dashes in stack.yaml": (
        {"stack": STACK.replace("tiny", "ti--ny")},
        "stack.yaml: clusterStackName is 'ti--ny': expected",
    ),
    "no patch": ({"csctl": CSCTL.replace("v1.35.4", "v1.35")}, "config.kubernetesVersion is 'v1.35': expected a full"),
    "two names": ({"stack": STACK, "csctl": CSCTL.replace("tiny", "big")}, "is 'big': stack.yaml has tiny"),
    "no version": ({"stack": STACK.replace("1.35.3", "new")}, "stack.yaml: kubernetesVersion is 'new'"),
    "a fourth number": ({"csctl": CSCTL.replace("v1.35.4", "v1.35.4.6")}, "is 'v1.35.4.6': expected a full"),
    "another suffix": ({"csctl": CSCTL.replace("v1.35.4", "v1.35.4-k3s1")}, "expected a full"),
    "a minor twice": (
        {"csctl": CSCTL, "versions": "- kubernetes: 1.35.4\n- kubernetes: 1.35.5\n"},
        "versions.yaml: [1].kubernetes is '1.35.5': another row is also for 1.35",
    ),
    "an empty list": ({"csctl": CSCTL, "versions": "[]"}, "versions.yaml is empty"),
    "a number": ({"csctl": CSCTL, "versions": "- {kubernetes: 1.35.4, occm: 2.30}\n"}, "write a version in quotes"),
    "no list": ({"csctl": CSCTL, "versions": "kubernetes: 1.35.4"}, "versions.yaml: the document is a mapping"),
    "a config that is none": ({"csctl": CSCTL.replace("{type: local}", "{type: local, config: x}")}, "write a mapping"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_invalid_settings_field_is_named(case: str) -> None:
    files, complaint = REFUSED[case]

    with pytest.raises(SpecError) as caught:
        read_settings(tree(**files), listed=True)
    assert complaint in caught.value.message
