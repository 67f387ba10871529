"""CRDs of other providers (``csctl dev up --crds DIR``), adapted to work without the providers.

Their objects can be written and referred to; nothing reconciles, defaults, validates or converts them:

- Conversion webhooks do not run, and without conversion an object of another version would silently lose every field
  that the stored version does not have. So only versions with the same ``spec`` schema as the stored one are served,
  unless the CRD itself uses no conversion. Removed versions are reported.
- Contract labels are never guessed, because a wrong one makes Cluster API read the wrong fields. They come from the CRD
  or from a kustomization.yaml that lists its file; a needed label that is missing is an error.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.dev.contract_labels import PREFIX, stated_labels, version_for_cluster_api
from clusterstacks.model.documents import Node, and_more
from clusterstacks.model.errors import SpecError
from clusterstacks.model.yaml import load_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from clusterstacks.model.objects import Manifest

SUFFIXES = (".yaml", ".yml")
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml")
MOST_FILES = 5_000
"""Most YAML files read (arbitrary: a provider's repository has a few hundred); more means a wrong directory."""
CONTRACT_GROUPS = tuple(f"{role}.cluster.x-k8s.io" for role in ("infrastructure", "controlplane", "bootstrap"))
"""Groups of the kinds that ClusterClasses and Clusters refer to."""
TEMPLATE = "Template"
SHOWN_FAULTS = 3


def read_definitions(directories: Iterable[Path], report: Callable[[str], None]) -> list[ThirdPartyCRD]:
    """Read every CRD in YAML files below these directories, also deeper ones; other objects are skipped.

    ``report`` is called with a line for each change and each skipped object. Raises SpecError if a directory has no
    CRD, two CRDs of one name differ, or a needed contract label is missing.
    """
    found: dict[str, ThirdPartyCRD] = {}
    for directory in directories:
        read = list(_read_directory(directory, report))
        if not read:
            raise SpecError(
                "NoDefinitions", f"no YAML file below {directory} contains a {KIND}: name another directory"
            )
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
            continue  # it is not needed, so it may be anything, even invalid YAML
        for document in load_all(content, name=str(path)):
            if not isinstance(document, dict) or "apiVersion" not in document:
                continue
            spec = document.get("spec")
            if document.get("kind") == KIND and isinstance(spec, dict) and "versions" in spec:
                yield parse_definition(document, path, labels.get(path, {}))
            else:
                others += 1
    if others:
        report(
            f"skipped in {directory}: {others} objects that are not a complete {KIND} (other kinds, kustomize patches)"
        )


def _yaml_files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for folder, _, names in os.walk(directory):
        found += [Path(folder, name) for name in names if name.endswith(SUFFIXES)]
        if len(found) > MOST_FILES:
            raise SpecError(
                "TooManyFiles", f"{directory} has more than {MOST_FILES} YAML files: name the directory of the CRDs"
            )
    return sorted(path for path in found if path.is_file())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SpecError("FileUnreadable", f"{path} cannot be read: {error.strerror}") from None


def _labels_by_file(kustomizations: Iterable[Path]) -> dict[Path, dict[str, str]]:
    """Return the labels that kustomizations set on the files they list."""
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
        raise SpecError(
            "ContractLabelMissing",
            f"{and_more(faults, SHOWN_FAULTS, separator='; ')}. "
            "Cluster API finds the API version of a kind by a label such as "
            f"'{PREFIX}v1beta1: v1beta1' on its definition. Take the provider's released manifest, or the directory "
            "whose kustomization.yaml lists the definitions and states the labels (config/crd), or write it into them",
        )


KIND = "CustomResourceDefinition"
API_VERSION = "apiextensions.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class ThirdPartyCRD:
    """A CustomResourceDefinition with the path of its file."""

    manifest: Manifest
    path: Path

    @property
    def name(self) -> str:
        """Name: ``<plural>.<group>``."""
        return str(self.manifest["metadata"]["name"])

    @property
    def kind(self) -> str:
        """The kind it defines."""
        return str(self.manifest["spec"]["names"]["kind"])

    @property
    def group(self) -> str:
        """The group of its kind."""
        return str(self.manifest["spec"]["group"])

    @property
    def served(self) -> list[str]:
        """The versions the API server is to serve."""
        return [version["name"] for version in self.manifest["spec"]["versions"] if version.get("served") is True]

    @property
    def stored(self) -> str:
        """The version objects are stored in."""
        return next(str(version["name"]) for version in self.manifest["spec"]["versions"] if is_stored(version))


def parse_definition(document: Manifest, path: Path, labels: Mapping[str, str]) -> ThirdPartyCRD:
    """Check the fields used here and add the labels; the API server checks the rest.

    Raises:
        SpecError: The message names the file, the field and the fix.
    """
    node = Node(document, str(path))
    if document.get("apiVersion") != API_VERSION:
        raise node.child("apiVersion").refuse(f"only {API_VERSION} is served; regenerate the CRD")
    metadata, spec = node.child("metadata"), node.child("spec")
    metadata.child("name").text()
    spec.child("group").text()
    spec.child("names").child("kind").text()
    versions = spec.child("versions").items()
    for version in versions:
        version.child("name").text()
        _mapping(version.child("schema").child("openAPIV3Schema").child("properties"))
    if sum(is_stored(version.mapping()) for version in versions) != 1:
        raise spec.child("versions").refuse("exactly one version must have 'storage: true'")
    _mapping(spec.child("conversion"))
    own = _mapping(metadata.child("labels"))
    return ThirdPartyCRD({**document, "metadata": {**document["metadata"], "labels": {**own, **labels}}}, path)


def _mapping(node: Node) -> Mapping[object, object]:
    return {} if node.value is None else node.mapping()


def is_stored(version: Mapping[Any, Any]) -> bool:
    """Return whether objects are stored in this entry of ``spec.versions``."""
    return version.get("storage") is True


def without_conversion(definitions: Iterable[ThirdPartyCRD], report: Callable[[str], None]) -> list[ThirdPartyCRD]:
    """Set every CRD to no conversion; versions that would lose fields are no longer served, and reported."""
    ready, taken, webhooks = [], defaultdict(list), 0
    for definition in definitions:
        spec = definition.manifest["spec"]
        strategy = (spec.get("conversion") or {}).get("strategy")
        webhooks += strategy == "Webhook"
        versions = spec["versions"] if strategy == "None" else _convertible(spec["versions"])
        manifest = {**definition.manifest, "spec": {**spec, "versions": versions, "conversion": {"strategy": "None"}}}
        changed = ThirdPartyCRD(manifest, definition.path)
        if gone := ", ".join(version for version in definition.served if version not in changed.served):
            taken[gone, changed.stored].append(definition.name)
        ready.append(changed)
    if webhooks:
        report(f"conversion webhooks of other providers do not run here: {webhooks} CRDs are set to none")
    for (gone, stored), names in taken.items():
        report(
            f"not served: {gone} of {', '.join(names)}. Objects are stored as {stored}, which has other fields, and "
            f"nothing here converts: write {stored}, or take the definitions of a release that stores {gone}"
        )
    return ready


def _convertible(versions: list[Manifest]) -> list[Manifest]:
    """Stop serving versions whose objects would lose fields when stored unconverted."""
    stored = next(_spec_schema(version) for version in versions if is_stored(version))
    return [
        {**version, "served": version.get("served") is True and _spec_schema(version) == stored} for version in versions
    ]


def _spec_schema(version: Manifest) -> object:
    properties = version["schema"]["openAPIV3Schema"].get("properties") or {}
    return _without_descriptions(properties.get("spec"))


def _without_descriptions(schema: Any) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(schema, dict):
        # A field may also be named description: then the value is a schema, not a string.
        return {
            key: _without_descriptions(value)
            for key, value in schema.items()
            if key != "description" or not isinstance(value, str)
        }
    return [_without_descriptions(item) for item in schema] if isinstance(schema, list) else schema
