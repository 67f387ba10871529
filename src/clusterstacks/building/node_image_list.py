"""node-images.yaml, as the readers of a release want it (FORMATS section 12)."""

from __future__ import annotations

from typing import Final

from clusterstacks.api import yaml
from clusterstacks.domain.documents import DocumentError, Node
from clusterstacks.releases.release import NODE_IMAGES

_GROUP: Final = "{}.infrastructure.clusterstack.x-k8s.io/"


class InvalidNodeImages(DocumentError):
    """node-images.yaml misses something."""

    CODE = "InvalidNodeImages"


def check_node_images(content: bytes, provider: str) -> None:
    """Check the file as far as its provider's format is known: OpenStack's and Docker's are.

    Raises:
        InvalidNodeImages: A field is missing or wrong; the message names it.
        YamlError: The file is no YAML.
    """
    root = Node(yaml.load(content, name=NODE_IMAGES), NODE_IMAGES, error=InvalidNodeImages)
    version, group = root.child("apiVersion"), _GROUP.format(provider)
    if not version.text(f"write {group}v1alpha1").startswith(group):
        raise version.refuse(f"write {group}v1alpha1")
    if provider == "openstack":
        _check_openstack(root.child("openStackNodeImages"))
    elif provider == "docker":
        for image in _some(root.child("dockerImages")):
            image.text()


def _check_openstack(images: Node) -> None:
    for image in _some(images):
        options = image.child("createOpts")
        for field in ("name", "disk_format", "container_format"):
            options.child(field).text()
        image.child("url").text("write where the image is; the plugin's method build fills it in")


def _some(images: Node) -> tuple[Node, ...]:
    found = images.items()
    if not found:
        raise images.refuse("write a list of at least one image")
    return found
