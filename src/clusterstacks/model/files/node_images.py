"""node-images.yaml: the node images of a release, written by the plugin of the provider."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from clusterstacks.model import yaml
from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.files.definitions import OPEN, Remedy, Section, Text, read

FILE = "node-images.yaml"


class InvalidNodeImages(DocumentError):
    """A field of node-images.yaml is missing or not valid."""

    CODE = "InvalidNodeImages"


@dataclass(frozen=True, slots=True)
class ImageOptions(Section):
    """Properties of the image in OpenStack.

    Args:
        name: Name of the image.
        disk_format: Format of the disk, for example qcow2.
        container_format: Format of the container, for example bare.
    """

    __pydantic_config__ = OPEN

    name: Text
    disk_format: Annotated[Text, Field(alias="disk_format")]
    container_format: Annotated[Text, Field(alias="container_format")]


@dataclass(frozen=True, slots=True)
class OpenStackImage(Section):
    """A node image of provider openstack.

    Args:
        url: URL of the image.
    """

    __pydantic_config__ = OPEN

    create_opts: ImageOptions
    url: Annotated[Text, Remedy("write the URL of the image; the method build of the plugin fills it in")]


@dataclass(frozen=True, slots=True)
class NodeImages(Section):
    """Node images of a release, written by the plugin of the provider.

    Args:
        api_version: PROVIDER.infrastructure.clusterstack.x-k8s.io/v1alpha1
        open_stack_node_images: Images of provider openstack.
        docker_images: Names of the images of provider docker.
    """

    __pydantic_config__ = OPEN

    api_version: Annotated[Text, Remedy("write PROVIDER.infrastructure.clusterstack.x-k8s.io/v1alpha1")]
    open_stack_node_images: Annotated[tuple[OpenStackImage, ...], Field(json_schema_extra={"minItems": 1})] = ()
    docker_images: Annotated[tuple[Text, ...], Field(json_schema_extra={"minItems": 1})] = ()


def check_node_images(content: bytes, provider: str) -> None:
    """Check node-images.yaml for the providers whose format is known: OpenStack and Docker.

    Raises:
        InvalidNodeImages: A field is missing or not valid; the message names it.
        YamlError: The file is not valid YAML.
    """
    images = read(NodeImages, yaml.load(content, name=FILE), file=FILE, error=InvalidNodeImages)
    group = f"{provider}.infrastructure.clusterstack.x-k8s.io/"
    if not images.api_version.startswith(group):
        found = Node(images.api_version, FILE, "apiVersion", InvalidNodeImages)
        raise found.refuse(f"write {group}v1alpha1")
    required = {
        "openstack": ("openStackNodeImages", images.open_stack_node_images),
        "docker": ("dockerImages", images.docker_images),
    }
    key, listed = required.get(provider, ("", (provider,)))
    if not listed:
        raise Node(None, FILE, key, InvalidNodeImages).refuse("expected a list of at least one image")
