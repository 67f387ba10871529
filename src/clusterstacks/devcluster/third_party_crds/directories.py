"""Find definitions and their contract labels in directories of YAML files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.api.yaml import load_all
from clusterstacks.devcluster.contract_labels import PREFIX, stated_labels, version_for_cluster_api
from clusterstacks.devcluster.third_party_crds.conversion import without_conversion
from clusterstacks.devcluster.third_party_crds.definition import KIND, ThirdPartyCRD, parse_definition
from clusterstacks.domain.documents import Node
from clusterstacks.domain.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

SUFFIXES = (".yaml", ".yml")
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
MOST_FILES = 5_000
"""YAML files looked at (arbitrary: a provider's whole repository has a few hundred); more is a wrong directory."""
CONTRACT_GROUPS = tuple(f"{role}.cluster.x-k8s.io" for role in ("infrastructure", "controlplane", "bootstrap"))
"""Groups whose kinds ClusterClasses and Clusters refer to."""
TEMPLATE = "Template"
SHOWN_FAULTS = 3


def read_definitions(directories: Iterable[Path], report: Callable[[str], None]) -> list[ThirdPartyCRD]:
    """Read every definition in YAML files below these directories; other objects are left out.

    Args:
        directories: Where to look, through all levels.
        report: Called with a line for whatever is changed or left out.

    Raises:
        SpecError: a directory has none, two definitions of one name differ, a needed contract label is not stated, or a
            file cannot be read.
    """
    found: dict[str, ThirdPartyCRD] = {}
    for directory in directories:
        read = list(_read_directory(directory, report))
        if not read:
            raise SpecError("NoDefinitions", f"no YAML file below {directory} holds a {KIND}: name another directory")
        for definition in read:
            earlier = found.setdefault(definition.name, definition)
            if earlier.manifest != definition.manifest:
                raise SpecError(
                    "DefinitionTwice",
                    f"{earlier.path} and {definition.path} define {definition.name} differently: keep one of them",
                )
    ready = without_conversion(found.values(), report)
    _check_labels(ready)
    return ready


def _read_directory(directory: Path, report: Callable[[str], None]) -> Iterator[ThirdPartyCRD]:
    paths = _yaml_files(directory)
    labels = _labels_by_file(path for path in paths if path.name in KUSTOMIZATIONS)
    others = 0
    for path in paths:
        content = _read(path)
        if KIND.encode() not in content or path.name in KUSTOMIZATIONS:
            continue  # nothing of it is needed, so it may be anything, even no YAML
        for document in load_all(content, name=str(path)):
            if not isinstance(document, dict) or "apiVersion" not in document:
                continue
            spec = document.get("spec")
            if document.get("kind") == KIND and isinstance(spec, dict) and "versions" in spec:
                yield parse_definition(document, path, labels.get(path, {}))
            else:
                others += 1
    if others:
        report(f"left out of {directory}: {others} objects that are no whole {KIND} (others, patches for kustomize)")


def _yaml_files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for folder, _, names in os.walk(directory):
        found += [Path(folder, name) for name in names if name.endswith(SUFFIXES)]
        if len(found) > MOST_FILES:
            raise SpecError(
                "TooManyFiles", f"{directory} has more than {MOST_FILES} YAML files: name the directory of definitions"
            )
    return sorted(path for path in found if path.is_file())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SpecError("FileUnreadable", f"{path} cannot be read: {error.strerror}") from None


def _labels_by_file(kustomizations: Iterable[Path]) -> dict[Path, dict[str, str]]:
    """Tell which labels kustomizations give to the files they list."""
    found: dict[Path, dict[str, str]] = {}
    for path in kustomizations:
        for document in load_all(_read(path), name=str(path)):
            if labels := stated_labels(document):
                for resource in Node(document, str(path)).child("resources").items():
                    found[Path(os.path.normpath(path.parent / resource.text()))] = labels
    return found


def _check_labels(definitions: list[ThirdPartyCRD]) -> None:
    kinds = {(definition.group, definition.kind) for definition in definitions}
    faults = []
    for definition in definitions:
        kind = definition.kind
        is_template = kind.endswith(TEMPLATE)
        if definition.group not in CONTRACT_GROUPS or not (is_template or (definition.group, kind + TEMPLATE) in kinds):
            continue
        version = version_for_cluster_api(definition.manifest["metadata"]["labels"])
        if version not in definition.served:
            why = f"its labels name {version}, which is not served" if version else "no contract label"
            faults.append(f"{definition.name} ({definition.path}): {why}")
    if faults:
        more = f"; and {len(faults) - SHOWN_FAULTS} more" if len(faults) > SHOWN_FAULTS else ""
        raise SpecError(
            "ContractLabelMissing",
            f"{'; '.join(faults[:SHOWN_FAULTS])}{more}. Cluster API finds the API version of a kind by a label such as "
            f"'{PREFIX}v1beta1: v1beta1' on its definition. Take the provider's released manifest, or the directory "
            "whose kustomization.yaml lists the definitions and states the labels (config/crd), or write it into them",
        )
