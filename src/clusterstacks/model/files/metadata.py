"""metadata.yaml of a release: its versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from clusterstacks.model.documents import DocumentError
from clusterstacks.model.files.definitions import OPEN, STACK_VERSION, Parsed, Remedy, Section, StackVersionText, read
from clusterstacks.model.versions import KubernetesVersion, StackVersion

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

API_VERSION = "metadata.clusterstack.x-k8s.io/v1alpha1"


class InvalidMetadata(DocumentError):
    """A version in metadata.yaml is missing or invalid."""

    CODE = "InvalidMetadata"


@dataclass(frozen=True, slots=True)
class Metadata:
    """The versions of a release.

    Args:
        cluster_stack: Version of the release.
        kubernetes: Its Kubernetes version; clusters of its class run exactly this one.
        cluster_addon: Version of the addons; may be lower than ``cluster_stack``.
        node_image: Version of the node images; None in releases of stacks without node images.
        cluster_class: Version of the class; None in most releases, because released csctl does not write it.
    """

    cluster_stack: StackVersion
    kubernetes: KubernetesVersion
    cluster_addon: StackVersion
    node_image: StackVersion | None = None
    cluster_class: StackVersion | None = None

    def document(self) -> Manifest:
        """Return the content of metadata.yaml.

        The Go operator rejects a release without ``node_image``, so builders set it.
        """
        components = {"clusterAddon": self.cluster_addon.dot}
        if self.node_image is not None:
            components["nodeImage"] = self.node_image.dot
        if self.cluster_class is not None:
            components["clusterClass"] = self.cluster_class.dot
        versions = {
            "clusterStack": self.cluster_stack.dot,
            "kubernetes": self.kubernetes.text,
            "components": components,
        }
        return {"apiVersion": API_VERSION, "versions": versions}


_OptionalVersion = Annotated[
    StackVersionText | None,
    BeforeValidator(lambda text: None if text == "" else text),
    Field(json_schema_extra={"pattern": f"^$|{STACK_VERSION}"}),
]


@dataclass(frozen=True, slots=True)
class _Components(Section):
    """Versions of the components.

    Args:
        cluster_addon: Version of the addons; may be lower than that of the stack.
        node_image: Version of the node images.
        cluster_class: Version of the class, for csctl versions that count it.
    """

    __pydantic_config__ = OPEN

    cluster_addon: StackVersionText
    node_image: _OptionalVersion = None
    cluster_class: _OptionalVersion = None


@dataclass(frozen=True, slots=True)
class _Versions(Section):
    """Versions of the release.

    Args:
        cluster_stack: Version of the stack, for example v3 or v0-beta.1.
        kubernetes: Full Kubernetes version, for example v1.35.4.
    """

    __pydantic_config__ = OPEN

    cluster_stack: StackVersionText
    kubernetes: Annotated[
        KubernetesVersion, Parsed(KubernetesVersion.parse), Remedy("write a full Kubernetes version like v1.34.7")
    ]
    components: _Components


@dataclass(frozen=True, slots=True)
class MetadataFile(Section):
    """Versions of a release; beside a stack, of its newest release.

    Args:
        api_version: metadata.clusterstack.x-k8s.io/v1alpha1
    """

    __pydantic_config__ = OPEN

    versions: _Versions
    api_version: Any = None


def parse_metadata(document: object, *, file: str = "metadata.yaml") -> Metadata:
    """Parse a loaded metadata.yaml; unknown keys are ignored.

    Args:
        file: Name of the file in messages.

    Raises:
        InvalidMetadata: A version other than ``nodeImage`` and ``clusterClass`` is missing, or one is invalid.
    """
    versions = read(MetadataFile, document, file=file, error=InvalidMetadata).versions
    components = versions.components
    return Metadata(
        versions.cluster_stack,
        versions.kubernetes,
        components.cluster_addon,
        components.node_image,
        components.cluster_class,
    )
