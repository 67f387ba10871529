"""The examples of the page "formats" are read by the readers of the formats."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import yaml

from clusterstacks.csctl.authoring.scaffold import NewStack
from clusterstacks.csctl.building.settings import StackSettings, read_settings
from clusterstacks.csctl.building.source_tree import hash_tree
from clusterstacks.model.files.addon_config import parse_addon_config
from clusterstacks.model.files.compatibility import parse_compatibility
from clusterstacks.model.files.metadata import parse_metadata
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion
from clusterstacks.release.contents import read_contents
from clusterstacks.release.signing.statement import PREDICATE_TYPE, STATEMENT_TYPE, parse_statement
from clusterstacks.release.sources.oci_artifact import ARTIFACT_TYPE, layer_type
from clusterstacks.release.sources.oci_signatures import ENVELOPE_TYPE
from tests.support.builders.stacks import TinyStack, publish
from tests.support.running.doc_pages import DOCS, Page

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PAGE = Page.read("reference/formats.md")
TEXT = (DOCS / "reference" / "formats.md").read_text()


def example(word: str) -> str:
    """The YAML block that holds a word."""
    (found,) = [text for text in PAGE.others["yaml"] if word in text]
    return found


def settings(*, listed: bool = False, **files: str) -> tuple[StackSettings, ...]:
    tree: Mapping[str, bytes] = {name.replace("_", "."): text.encode() for name, text in files.items()}
    return read_settings(tree, {KubernetesMinor(1, 35): KubernetesVersion(1, 35, 4)}, listed=listed)


def test_stack_files_of_the_page_are_valid() -> None:
    (one,) = settings(csctl_yaml=example("config:"))
    assert (one.series, one.kubernetes.text, one.plugin) == ("openstack-scs-1-35", "v1.35.4", False)

    (other,) = settings(stack_yaml=example("clusterStackName: scs\nkubernetesVersion"))
    assert (other.series, other.addons) == ("openstack-scs-1-35", {"ccm": "2.35.x"})

    csctl, versions = example("config:"), example("occm")
    assert [one.series for one in settings(csctl_yaml=csctl, versions_yaml=versions)] == ["openstack-scs-1-35"]
    assert [one.series for one in settings(listed=True, csctl_yaml=csctl, versions_yaml=versions)] == [
        "openstack-scs-1-34",
        "openstack-scs-1-35",
    ]


def test_release_metadata_of_the_page_is_valid() -> None:
    assert parse_metadata(yaml.safe_load(example("components:\n    clusterAddon"))).cluster_addon.dot == "v2"
    config = parse_addon_config(yaml.safe_load(example("addonStages")))
    assert config.stages
    assert [rule.kind for rule in config.health] == ["CephCluster.ceph.rook.io"]
    assert parse_compatibility(yaml.safe_load(example("maxMinorStep"))).rules[0].id == "kube-vip-1-28"


def test_hashes_of_the_page_are_those_of_the_files_of_a_new_stack() -> None:
    files = NewStack.parse("local/shop/1-35").files()
    hashes = replace(hash_tree({path: text.encode() for path, text in files.items()}), cluster_class_dir="")

    assert json.loads(PAGE.others["json"][0]) == hashes.document()


def test_release_digest_can_be_computed_as_the_page_describes(tmp_path: Path) -> None:
    command = "sha256sum * | sort | sha256sum"
    assert command in (DOCS / "explanation" / "releases-and-trust.md").read_text()
    name = TinyStack("any").release("v1")
    directory = publish(tmp_path, name, TinyStack("any").files("v1", {}))

    done = subprocess.run(["bash", "-c", command], cwd=directory, capture_output=True, text=True, check=True)

    assert read_contents(name, directory).digest == f"sha256:{done.stdout.split()[0]}"


def test_artifact_and_signature_types_of_the_page_are_valid() -> None:
    statement = PAGE.others["json"][1].replace('"..."', json.dumps("0" * 64))
    assert parse_statement(statement.encode()).release == "local-shop-1-35-v1"
    for value in (ARTIFACT_TYPE, ENVELOPE_TYPE, STATEMENT_TYPE, PREDICATE_TYPE):
        assert value in TEXT
    for file in ("metadata.yaml", "hashes.json", "clusteraddon.yaml", "compatibility.yaml", "node-images.yaml", "x"):
        assert f"`{layer_type(file).removeprefix('application/vnd.scs.')}`" in TEXT
