from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev import third_party_crds
from clusterstacks.dev.binaries import silent
from clusterstacks.model.errors import SpecError
from clusterstacks.model.yaml import YamlError, dump

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.third_party_crds import ThirdPartyCRD

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
LABEL = {"cluster.x-k8s.io/v1beta1": "v1beta1"}


def version(name: str, spec: dict[str, Any], *, storage: bool = False, served: bool = True) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {"name": name, "served": served, "storage": storage, "schema": schema}


ONLY = version("v1beta1", {"type": "object"}, storage=True)


def definition(
    kind: str, *versions: dict[str, Any], group: str = INFRASTRUCTURE, labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.lower()}s.{group}", **({"labels": labels} if labels is not None else {})},
        "spec": {"group": group, "names": {"kind": kind}, "versions": list(versions or (ONLY,)), **spec},
    }


def put(path: Path, *documents: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("---\n".join(map(dump, documents)))
    return path


def read(directory: Path) -> tuple[list[ThirdPartyCRD], list[str]]:
    lines: list[str] = []
    return third_party_crds.read_definitions([directory], lines.append), lines


def test_crds_are_found_recursively_and_other_files_are_ignored(tmp_path: Path) -> None:
    put(tmp_path / "a" / "one.yaml", definition("Demo", group="example.org"), {"apiVersion": "v1", "kind": "Secret"})
    put(tmp_path / "deep" / "er" / "two.yml", definition("Other", group="example.org"))
    patch = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "x"}}
    put(tmp_path / "patches" / "webhook.yaml", {**patch, "spec": {"conversion": {}}}, {**patch, "spec": 1})
    (tmp_path / "chart.yaml").write_text("{{ no YAML at all")
    (tmp_path / "readme.md").write_text("CustomResourceDefinition")

    found, lines = read(tmp_path)

    assert [crd.name for crd in found] == ["demos.example.org", "others.example.org"]
    what = "objects that are not a complete CustomResourceDefinition (other kinds, kustomize patches)"
    assert lines == [f"skipped in {tmp_path}: 3 {what}"]


def test_labels_are_read_from_the_kustomization_of_the_file(tmp_path: Path) -> None:
    put(tmp_path / "bases" / "demo.yaml", definition("DemoTemplate", labels={"own": "kept"}))
    put(tmp_path / "kustomization.yaml", {"labels": [{"pairs": LABEL}], "resources": ["bases/../bases/demo.yaml"]})

    ((crd,), lines) = read(tmp_path)

    assert crd.manifest["metadata"]["labels"] == {"own": "kept", **LABEL}
    assert lines == []


def test_missing_contract_label_is_reported_for_referenced_kinds(tmp_path: Path) -> None:
    put(
        tmp_path / "all.yaml",
        definition("DemoTemplate"),
        definition("Demo"),
        definition("HelperNobodyRefersTo"),
        definition("LabelledTemplate", labels=LABEL),
        definition("WrongTemplate", labels={"cluster.x-k8s.io/v1beta1": "v1"}),
        definition("FarTemplate", group="example.org"),
    )

    with pytest.raises(SpecError) as refused:
        read(tmp_path)

    assert refused.value.code == "ContractLabelMissing"
    faults, _, way_out = refused.value.message.partition(". Cluster API finds")
    assert faults == (
        f"demotemplates.{INFRASTRUCTURE} ({tmp_path}/all.yaml): no contract label; "
        f"demos.{INFRASTRUCTURE} ({tmp_path}/all.yaml): no contract label; "
        f"wrongtemplates.{INFRASTRUCTURE} ({tmp_path}/all.yaml): its labels name v1, which is not served"
    )
    assert "kustomization.yaml" in way_out


def test_versions_that_lose_fields_are_not_served_and_reported(tmp_path: Path) -> None:
    told = {"type": "object", "description": "old words", "properties": {"description": {"type": "string"}}}
    same = {**told, "description": "new words"}
    less = {"type": "object", "properties": {}}
    webhook = {"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "x", "namespace": "y"}}}}
    versions = (
        version("v1alpha1", told, served=False),
        version("v1alpha2", less),
        version("v1beta1", told),
        version("v1beta2", same, storage=True),
    )
    put(tmp_path / "crd.yaml", definition("DemoTemplate", *versions, labels=LABEL, conversion=webhook))

    ((crd,), lines) = read(tmp_path)

    assert crd.served == ["v1beta1", "v1beta2"]
    assert crd.manifest["spec"]["conversion"] == {"strategy": "None"}
    replaced, taken = lines
    assert replaced == "conversion webhooks of other providers do not run here: 1 CRDs are set to none"
    assert taken == (
        f"not served: v1alpha2 of demotemplates.{INFRASTRUCTURE}. Objects are stored as v1beta2, which has other "
        "fields, and nothing here converts: write v1beta2, or take the definitions of a release that stores v1alpha2"
    )


def test_crd_with_conversion_strategy_none_serves_all_versions(tmp_path: Path) -> None:
    versions = (version("v1", {"type": "object", "properties": {"a": {}}}), version("v2", {}, storage=True))
    put(tmp_path / "crd.yaml", definition("Demo", *versions, group="example.org", conversion={"strategy": "None"}))

    ((crd,), lines) = read(tmp_path)

    assert crd.served == ["v1", "v2"]
    assert lines == []


def test_contract_label_of_an_unserved_version_is_reported(tmp_path: Path) -> None:
    versions = (version("v1beta1", {"type": "object", "properties": {"a": {}}}), version("v1beta2", {}, storage=True))
    put(tmp_path / "crd.yaml", definition("DemoTemplate", *versions, labels=LABEL))

    with pytest.raises(SpecError, match="its labels name v1beta1, which is not served"):
        read(tmp_path)


def test_identical_crds_count_once_and_conflicting_ones_are_rejected(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    put(one / "crd.yaml", definition("Demo", group="example.org"))
    put(two / "crd.yaml", definition("Demo", group="example.org"))
    assert len(third_party_crds.read_definitions([one, two], silent)) == 1

    put(two / "crd.yaml", definition("Demo", group="example.org", scope="Cluster"))
    with pytest.raises(SpecError, match=r"one/crd\.yaml and .*two/crd\.yaml define demos\.example\.org differently"):
        third_party_crds.read_definitions([one, two], silent)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "apiextensions.k8s.io/v1beta1"}, "only apiextensions.k8s.io/v1 is served"),
        ({"metadata": {}}, r"metadata\.name is missing"),
        ({"metadata": {"name": "x", "labels": "y"}}, r"metadata\.labels is 'y': write a mapping"),
        ({"spec": {"versions": []}}, r"spec\.group is missing"),
        ({"spec": {"group": "g", "names": {"kind": "K"}, "versions": {}}}, r"spec\.versions is a mapping"),
        ({"spec": {"group": "g", "names": {"kind": "K"}, "versions": []}}, "exactly one version must have"),
        ({"spec": {"group": "g", "names": {"kind": "K"}, "versions": [ONLY, ONLY]}}, "exactly one version must have"),
        ({"spec": {"group": "g", "names": {"kind": "K"}, "versions": ["v1"]}}, r"versions\[0\] is 'v1'"),
        ({"spec": {"group": "g", "names": {"kind": "K"}, "versions": [{"name": "v1"}]}}, r"versions\[0\]\.schema is"),
    ],
)
def test_crd_of_another_shape_is_rejected_with_file_and_field(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    put(tmp_path / "crd.yaml", {**definition("Demo"), **change})

    with pytest.raises(SpecError, match=rf"crd\.yaml: .*{message}"):
        read(tmp_path)


def test_directory_without_crds_is_rejected(tmp_path: Path) -> None:
    put(tmp_path / "secret.yaml", {"apiVersion": "v1", "kind": "Secret"})

    with pytest.raises(SpecError, match=f"no YAML file below {tmp_path} contains a CustomResourceDefinition"):
        read(tmp_path)


def test_invalid_yaml_and_oversized_directory_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "crd.yaml").write_text("kind: CustomResourceDefinition\na: [")
    with pytest.raises(YamlError, match=r"crd\.yaml"):
        read(tmp_path)

    monkeypatch.setattr(third_party_crds, "MOST_FILES", 0)
    with pytest.raises(SpecError, match="more than 0 YAML files: name the directory of the CRDs"):
        read(tmp_path)
