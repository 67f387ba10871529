"""Images of ORC from node-images.yaml."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.deliver.apply.orc_images import (
    ignored_fields,
    object_name,
    orc_images,
    unverified_images,
    with_live_url,
)
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.node_images import read_node_images

if TYPE_CHECKING:
    from clusterstacks.model.files.node_images import NodeImages
    from clusterstacks.model.objects import Manifest

API = "openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1"
URL = "https://images.example.org/node.qcow2"
DOWNLOADED = {"containerFormat": "bare", "diskFormat": "qcow2", "download": {"url": URL}}


def entry(name: str, *, checksum: str = "", **options: Any) -> Manifest:
    formats = {"disk_format": "qcow2", "container_format": "bare"}
    more = {"checksum": checksum} if checksum else {}
    return {"url": URL, "createOpts": {"name": name, **formats, **options}, **more}


def listed(*entries: Manifest) -> NodeImages:
    document = {"apiVersion": API, "openStackNodeImages": list(entries)}
    return read_node_images(document, "openstack")


def made(*entries: Manifest, beside: tuple[Manifest, ...] = ()) -> list[Manifest]:
    return orc_images(listed(*entries), beside)


def spec(**options: Any) -> Manifest:
    (image,) = made(entry("node", **options))
    found: Manifest = image["spec"]
    return found


def in_chart(name: str, in_cloud: str = "") -> Manifest:
    resource = {"content": DOWNLOADED, **({"name": in_cloud} if in_cloud else {})}
    return {
        "apiVersion": "openstack.k-orc.cloud/v1alpha1",
        "kind": "Image",
        "metadata": {"name": name},
        "spec": {"resource": resource},
    }


def cluster_template(**identity: str) -> Manifest:
    return {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
        "kind": "OpenStackClusterTemplate",
        "metadata": {"name": "x"},
        "spec": {"template": {"spec": {"identityRef": identity}}},
    }


def test_release_without_the_file_has_no_images_of_it() -> None:
    assert orc_images(None, []) == []


def test_image_has_url_hash_formats_and_the_name_in_the_cloud() -> None:
    (image,) = made(entry("Ubuntu 24.04", checksum=f"sha256:{'a' * 64}"))

    assert image == {
        "apiVersion": "openstack.k-orc.cloud/v1alpha1",
        "kind": "Image",
        "metadata": {"name": "ubuntu-24.04"},
        "spec": {
            "cloudCredentialsRef": {"secretName": "openstack", "cloudName": "openstack"},
            "managementPolicy": "managed",
            "resource": {
                "name": "Ubuntu 24.04",
                "content": {
                    **DOWNLOADED,
                    "download": {"url": URL, "hash": {"algorithm": "sha256", "value": "a" * 64}},
                },
            },
        },
    }


@pytest.mark.parametrize(
    ("options", "resource"),
    [
        ({}, {}),
        ({"visibility": "private"}, {"visibility": "private"}),
        ({"tags": ["b", "a", "b"]}, {"tags": ["b", "a"]}),
        ({"min_disk": 20, "min_ram": 0}, {"properties": {"minDiskGB": 20}}),
        ({"min_ram": 2048}, {"properties": {"minMemoryMB": 2048}}),
        ({"protected": False}, {}),
        ({"protected": True}, {"protected": True}),
        ({"properties": {"architecture": "x86_64"}}, {"properties": {"architecture": "x86_64"}}),
        (
            {"properties": {"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi", "os_distro": "ubuntu"}},
            {
                "properties": {
                    "hardware": {"diskBus": "scsi", "scsiModel": "virtio-scsi"},
                    "operatingSystem": {"distro": "ubuntu"},
                }
            },
        ),
        (
            {"properties": {"hw_cpu_cores": "4", "hw_qemu_guest_agent": "yes"}},
            {"properties": {"hardware": {"cpuCores": 4, "qemuGuestAgent": True}}},
        ),
        ({"os_hidden": True, "properties": {"hw_cpu_cores": "many", "image_description": "x"}}, {}),
    ],
)
def test_each_option_becomes_the_field_of_orc(options: Manifest, resource: Manifest) -> None:
    assert spec(**options)["resource"] == {"name": "node", "content": DOWNLOADED, **resource}


def test_fields_without_effect_are_named() -> None:
    images = listed(
        entry("one", os_hidden=True),
        entry("two", properties={"os_distro": "ubuntu", "image_description": "x", "hw_cpu_cores": "many"}),
    )

    assert ignored_fields(images.open_stack_node_images) == [
        ("openStackNodeImages", 0, "createOpts", "os_hidden"),
        ("openStackNodeImages", 1, "createOpts", "properties", "image_description"),
        ("openStackNodeImages", 1, "createOpts", "properties", "hw_cpu_cores"),
    ]


def test_protected_image_stays_in_the_cloud_when_its_release_is_deleted() -> None:
    assert spec(protected=True)["managedOptions"] == {"onDelete": "detach"}
    assert "managedOptions" not in spec()


def test_image_with_an_id_is_used_as_it_is() -> None:
    assert spec(id="6d4c8b2e-0000-4000-8000-000000000000") == {
        "cloudCredentialsRef": {"secretName": "openstack", "cloudName": "openstack"},
        "managementPolicy": "unmanaged",
        "import": {"id": "6d4c8b2e-0000-4000-8000-000000000000"},
    }


@pytest.mark.parametrize(
    ("beside", "secret", "cloud"),
    [
        (cluster_template(name="shop", cloudName="prod"), "shop", "prod"),
        (cluster_template(name="shop"), "shop", "openstack"),
        (cluster_template(), "openstack", "openstack"),
        ({**cluster_template(name="shop"), "kind": "OtherClusterTemplate"}, "openstack", "openstack"),
    ],
)
def test_images_use_the_credentials_of_the_class(beside: Manifest, secret: str, cloud: str) -> None:
    (image,) = made(entry("node"), beside=(beside,))

    assert image["spec"]["cloudCredentialsRef"] == {"secretName": secret, "cloudName": cloud}


@pytest.mark.parametrize("chart", [in_chart("ubuntu-24.04"), in_chart("other", "Ubuntu 24.04")])
def test_image_of_the_class_chart_is_not_made_again(chart: Manifest) -> None:
    images = made(entry("Ubuntu 24.04"), entry("flatcar"), beside=(chart,))

    assert [image["metadata"]["name"] for image in images] == ["flatcar"]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (
            ("Ubuntu 24", "ubuntu-24"),
            r"\[1\].createOpts.name is 'ubuntu-24': an earlier image also becomes Image ubuntu-24",
        ),
        (("node", "node"), "an earlier image also becomes Image node"),
        (("日本",), r"\[0\].createOpts.name is '日本': write at least"),
    ],
)
def test_names_that_no_two_objects_can_have_are_refused(names: tuple[str, ...], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        made(*map(entry, names))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ubuntu-capi-image-v1.35.4", "ubuntu-capi-image-v1.35.4"),
        ("Ubuntu 22.04 (kube v1.35)", "ubuntu-22.04-kube-v1.35"),
        ("_a_.-b-.c..", "a.b.c"),
        ("...", ""),
    ],
)
def test_object_has_the_name_of_its_image_as_far_as_possible(name: str, expected: str) -> None:
    assert object_name(name) == expected


LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"


@given(st.text(max_size=300))
def test_name_of_an_object_is_empty_or_valid(name: str) -> None:
    found = object_name(name)

    assert len(found) <= 253
    assert not found or re.fullmatch(rf"{LABEL}(\.{LABEL})*", found)
    assert object_name(found) == found


def test_images_without_a_hash_are_found_in_chart_and_file() -> None:
    plain, checked = made(entry("plain"), entry("checked", checksum=f"sha512:{'b' * 128}"))
    imported = made(entry("imported", id="6d4c8b2e-0000-4000-8000-000000000000"))

    assert unverified_images([in_chart("chart"), plain, checked, *imported]) == ["chart", "plain"]


def test_url_of_a_live_image_is_kept_while_the_hash_is_the_same() -> None:
    one, other = f"sha256:{'1' * 64}", f"sha256:{'2' * 64}"
    (image,) = made(entry("node", checksum=one))
    (live,) = made({**entry("node", checksum=one), "url": "https://elsewhere.example.org/"})
    (changed,) = made(entry("node", checksum=other))
    (unverified,) = made(entry("node"))

    assert with_live_url(image, live) == live
    assert image != live
    assert with_live_url(changed, live) == changed
    assert with_live_url(unverified, {**unverified, "spec": live["spec"]}) == unverified
    assert with_live_url(in_chart("a"), in_chart("a")) == in_chart("a")
