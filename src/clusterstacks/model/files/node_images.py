"""node-images.yaml: the node images of a release, written by the plugin of the provider."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal

from pydantic import Field

from clusterstacks.model.documents import DocumentError, Node
from clusterstacks.model.files.definitions import OPEN, OptionalText, Remedy, Section, Text, matching, read

FILE = "node-images.yaml"
SOURCE = "node-images/config.yaml"
"""The same list in the source of a stack, where URLs and checksums of images that are built may be empty."""
OPENSTACK = "openstack"
"""The provider whose images the operator makes."""
ARTIFACT = "artifact:"
"""Prefix of the URL of an image that is published with its release, before the name of its file in node-images/ of the
stack. The operator replaces it by the URL at which it serves the file."""

_FILE_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,200}", re.ASCII)


class InvalidNodeImages(DocumentError):
    """A field of node-images.yaml is missing or not valid."""

    CODE = "InvalidNodeImages"


_Count = Annotated[int, Field(strict=True, ge=0), Remedy("write a whole number without quotes")]


@dataclass(frozen=True, slots=True)
class ImageOptions(Section):
    """Properties of the image in OpenStack.

    Args:
        name: Name of the image in the cloud.
        disk_format: Format of the disk, for example qcow2.
        container_format: Format of the container, for example bare.
        id: UUID of an image that exists: it is used as it is, neither uploaded nor deleted.
        visibility: Who may use the image.
        os_hidden: Whether lists of images leave it out; the OpenStack Resource Controller ignores it.
        tags: Tags of the image.
        min_disk: Size of the disk in GB that a machine needs.
        min_ram: Memory in MB that a machine needs.
        protected: The image cannot be deleted; it stays in the cloud when its release is deleted.
        properties: Properties of Glance by name, for example hw_disk_bus.
    """

    __pydantic_config__ = OPEN

    name: Text
    disk_format: Annotated[Text, Field(alias="disk_format")]
    container_format: Annotated[Text, Field(alias="container_format")]
    id: OptionalText = ""
    visibility: Literal["public", "private", "shared", "community"] | None = None
    os_hidden: Annotated[bool, Field(alias="os_hidden")] = False
    tags: tuple[Text, ...] = ()
    min_disk: Annotated[_Count, Field(alias="min_disk")] = 0
    min_ram: Annotated[_Count, Field(alias="min_ram")] = 0
    protected: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenStackImage(Section):
    """A node image of provider openstack.

    Args:
        url: URL of the image, or artifact:FILE for a file in node-images/ of the stack, which csctl publishes with the
            release and the operator serves.
        checksum: Hash of what the URL serves, sha256:HEX or sha512:HEX; csctl written in Go ignores it.
        image_dir: Name of its sources below node-images/, if it is built.
    """

    __pydantic_config__ = OPEN

    create_opts: ImageOptions
    url: Annotated[Text, Remedy("write the URL of the image; the method build of the plugin fills it in")]
    checksum: Annotated[
        str,
        matching("(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})"),
        Remedy("write sha256: and 64 lower-case hexadecimal digits, or sha512: and 128"),
    ] = ""
    image_dir: str = ""

    @property
    def file(self) -> str:
        """The name of the file that is published with the release; empty for an image with another URL."""
        return self.url.removeprefix(ARTIFACT) if self.url.startswith(ARTIFACT) else ""


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

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The digests of the files that are published with the release, each once."""
        return tuple(dict.fromkeys(image.checksum for image in self.open_stack_node_images if image.file))


def read_node_images(document: object, provider: str, *, released: bool = False) -> NodeImages:
    """Read node-images.yaml; it is checked for the providers whose format is known: OpenStack and Docker.

    In that of a release (``released``), the files that are published with it have checksums.

    Raises:
        InvalidNodeImages: A field is missing or not valid; the message names it.
    """
    images = read(NodeImages, document, file=FILE, error=InvalidNodeImages)
    group = f"{provider}.infrastructure.clusterstack.x-k8s.io/"
    if not images.api_version.startswith(group):
        found = Node(images.api_version, FILE, "apiVersion", InvalidNodeImages)
        raise found.refuse(f"write {group}v1alpha1")
    required = {
        OPENSTACK: ("openStackNodeImages", images.open_stack_node_images),
        "docker": ("dockerImages", images.docker_images),
    }
    key, listed = required.get(provider, ("", (provider,)))
    if not listed:
        raise Node(None, FILE, key, InvalidNodeImages).refuse("expected a list of at least one image")
    for at, image in enumerate(images.open_stack_node_images):
        field = f"openStackNodeImages[{at}]"
        if image.url.startswith(ARTIFACT) and not _FILE_NAME.fullmatch(image.file):
            refused = Node(image.url, FILE, f"{field}.url", InvalidNodeImages)
            raise refused.refuse(f"expected {ARTIFACT}FILE with the name of a file in node-images/")
        if image.file and not image.checksum.startswith("sha256:") and (released or image.checksum):
            refused = Node(image.checksum or None, FILE, f"{field}.checksum", InvalidNodeImages)
            raise refused.refuse("expected sha256:HEX of the published file; 'csctl create' computes it")
    return images
