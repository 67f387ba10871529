"""metadata.yaml of a release: its versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion, StackVersion

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
    """

    cluster_stack: StackVersion
    kubernetes: KubernetesVersion
    cluster_addon: StackVersion
    node_image: StackVersion | None = None

    def document(self) -> Manifest:
        """Return the content of metadata.yaml.

        The Go operator rejects a release without ``node_image``, so builders set it.
        """
        components = {"clusterAddon": self.cluster_addon.dot}
        if self.node_image is not None:
            components["nodeImage"] = self.node_image.dot
        versions = {
            "clusterStack": self.cluster_stack.dot,
            "kubernetes": self.kubernetes.text,
            "components": components,
        }
        return {"apiVersion": API_VERSION, "versions": versions}


def parse_metadata(document: object, *, file: str = "metadata.yaml") -> Metadata:
    """Parse a loaded metadata.yaml; unknown keys are ignored.

    Args:
        file: Name of the file in messages.

    Raises:
        InvalidMetadata: A version other than ``nodeImage`` is missing, or one is invalid.
    """
    versions = Node(document, file, error=InvalidMetadata).child("versions")
    components = versions.child("components")
    node_image = components.child("nodeImage")
    return Metadata(
        cluster_stack=_stack_version(versions.child("clusterStack")),
        kubernetes=_kubernetes_version(versions.child("kubernetes")),
        cluster_addon=_stack_version(components.child("clusterAddon")),
        node_image=_stack_version(node_image) if node_image.optional_text() else None,
    )


def _stack_version(node: Node) -> StackVersion:
    try:
        return StackVersion.parse(node.value)
    except InvalidVersion:
        raise node.refuse("write a version like v3 or v0-beta.1") from None


def _kubernetes_version(node: Node) -> KubernetesVersion:
    try:
        return KubernetesVersion.parse(node.value)
    except InvalidVersion:
        raise node.refuse("write a full Kubernetes version like v1.34.7") from None
