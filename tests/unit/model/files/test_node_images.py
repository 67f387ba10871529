from __future__ import annotations

import pytest
import yaml

from clusterstacks.model.files.node_images import InvalidNodeImages, read_node_images

OPENSTACK = """\
apiVersion: openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1
openStackNodeImages:
  - url: https://images.example.com/box.qcow2
    createOpts: {name: box, disk_format: qcow2, container_format: bare}
"""
DOCKER = "apiVersion: docker.infrastructure.clusterstack.x-k8s.io/v1alpha1\ndockerImages: [controlplaneamd64]\n"


@pytest.mark.parametrize(("provider", "text"), [("openstack", OPENSTACK), ("docker", DOCKER)])
def test_node_images_of_known_providers_do_not_raise(provider: str, text: str) -> None:
    read_node_images(yaml.safe_load(text), provider)


def test_node_images_of_an_unknown_provider_with_a_valid_group_do_not_raise() -> None:
    read_node_images({"apiVersion": "metal3.infrastructure.clusterstack.x-k8s.io/v1alpha1"}, "metal3")


@pytest.mark.parametrize(
    ("provider", "text", "complaint"),
    [
        ("openstack", OPENSTACK.replace("name: box, ", ""), "openStackNodeImages[0].createOpts.name is missing"),
        ("openstack", OPENSTACK.replace("disk_format: qcow2, ", ""), "createOpts.disk_format is missing"),
        (
            "openstack",
            OPENSTACK.replace("https://images.example.com/box.qcow2", '""'),
            "openStackNodeImages[0].url is ''",
        ),
        (
            "openstack",
            OPENSTACK.partition("openStackN")[0],
            "openStackNodeImages is missing: expected a list of at least one",
        ),
        (
            "openstack",
            OPENSTACK.replace("https://images.example.com/box.qcow2", "artifact:../box.qcow2"),
            "openStackNodeImages[0].url is 'artifact:../box.qcow2': expected artifact:FILE",
        ),
        (
            "openstack",
            OPENSTACK.replace("https://images.example.com/box.qcow2", '"artifact:"'),
            "expected artifact:FILE",
        ),
        (
            "openstack",
            OPENSTACK.replace(
                "https://images.example.com/box.qcow2", f"artifact:box\n    checksum: sha512:{'0' * 128}"
            ),
            "openStackNodeImages[0].checksum is",
        ),
        ("openstack", DOCKER, "apiVersion is 'docker.infrastructure"),
        ("docker", DOCKER.replace("[controlplaneamd64]", "[]"), "expected a list of at least one image"),
        ("docker", DOCKER.replace("controlplaneamd64", "1"), "dockerImages[0] is 1"),
    ],
)
def test_missing_node_image_field_is_named(provider: str, text: str, complaint: str) -> None:
    with pytest.raises(InvalidNodeImages) as caught:
        read_node_images(yaml.safe_load(text), provider)
    assert complaint in caught.value.message


def test_file_of_a_release_needs_its_checksum_which_the_source_need_not_have() -> None:
    document = yaml.safe_load(OPENSTACK.replace("https://images.example.com/box.qcow2", "artifact:box.qcow2"))
    (entry,) = document["openStackNodeImages"]
    (image,) = read_node_images(document, "openstack").open_stack_node_images
    assert image.file == "box.qcow2"
    with pytest.raises(InvalidNodeImages, match=r"checksum is missing.*csctl create"):
        read_node_images(document, "openstack", released=True)

    entry["checksum"] = f"sha256:{'0' * 64}"
    document["openStackNodeImages"].append(entry)
    assert read_node_images(document, "openstack", released=True).artifacts == (entry["checksum"],)
