"""A CustomResourceDefinition out of somebody else's file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterstacks.domain.documents import Node

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.domain.objects import Manifest

KIND = "CustomResourceDefinition"
API_VERSION = "apiextensions.k8s.io/v1"


@dataclass(frozen=True, slots=True)
class ThirdPartyCRD:
    """A CustomResourceDefinition out of a file."""

    manifest: Manifest
    path: Path

    @property
    def name(self) -> str:
        """Its name: ``<plural>.<group>``."""
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
    """Check as much of the shape as is used here, and add the labels; the API server checks the rest.

    Raises:
        SpecError: names the file, the field and the way out.
    """
    node = Node(document, str(path))
    if document.get("apiVersion") != API_VERSION:
        raise node.child("apiVersion").refuse(f"only {API_VERSION} is served; generate the definition anew")
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
    """Tell whether objects are stored in this entry of ``spec.versions``."""
    return version.get("storage") is True
