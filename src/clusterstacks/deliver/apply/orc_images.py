"""Translates node-images.yaml of a release to Images of the OpenStack Resource Controller (ORC).

The format belongs to the OpenStack provider written in Go, so it has fields for which ORC has none: they are named, not
dropped silently. Source of the fields: openstack-resource-controller, api/v1alpha1/image_types.go.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

from clusterstacks.deliver.apply.class_object_rules import IMAGE_KIND
from clusterstacks.model.documents import mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import split_api_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from clusterstacks.model.files.node_images import ImageOptions, NodeImages, OpenStackImage
    from clusterstacks.model.objects import Manifest

DEFAULT_CLOUD: Final = "openstack"
"""Secret and cloud where the class names none. Source: identityRef of the Go provider, and the stacks of
SovereignCloudStack."""

DOWNLOAD: Final = ("spec", "resource", "content", "download")

_CLUSTER_TEMPLATE: Final = ("infrastructure.cluster.x-k8s.io", "OpenStackClusterTemplate")

_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.")

_MAX_NAME: Final = 253
"""Length of the name of an object in Kubernetes."""


def _truth(value: str) -> bool:
    return {"true": True, "yes": True, "false": False, "no": False}[value.lower()]


_PROPERTIES: Final[dict[str, tuple[tuple[str, ...], Callable[[str], object]]]] = {
    "architecture": (("architecture",), str),
    "hypervisor_type": (("hypervisorType",), str),
    "os_distro": (("operatingSystem", "distro"), str),
    "os_version": (("operatingSystem", "version"), str),
    "hw_cpu_sockets": (("hardware", "cpuSockets"), int),
    "hw_cpu_cores": (("hardware", "cpuCores"), int),
    "hw_cpu_threads": (("hardware", "cpuThreads"), int),
    "hw_cpu_policy": (("hardware", "cpuPolicy"), str),
    "hw_cpu_thread_policy": (("hardware", "cpuThreadPolicy"), str),
    "hw_cdrom_bus": (("hardware", "cdromBus"), str),
    "hw_disk_bus": (("hardware", "diskBus"), str),
    "hw_scsi_model": (("hardware", "scsiModel"), str),
    "hw_vif_model": (("hardware", "vifModel"), str),
    "hw_rng_model": (("hardware", "rngModel"), str),
    "hw_qemu_guest_agent": (("hardware", "qemuGuestAgent"), _truth),
}
"""Properties of Glance that ORC has, with the field of ORC and the type of its value."""


def orc_images(images: NodeImages | None, class_objects: Iterable[Manifest]) -> list[Manifest]:
    """Return the Images to apply with the objects of a class, which may contain Images themselves.

    An entry with the name of an Image of the class is left out: the author has written that Image for ORC. The Images
    use the credentials of the OpenStackClusterTemplate of the class: they belong into the project of its machines.

    Raises:
        SpecError: Two entries have one name, or no object can have the name of an entry.
    """
    if images is None:
        return []
    objects = list(class_objects)
    group, kind = IMAGE_KIND
    taken = {name for one in objects if is_image(one) for name in (text(one, "metadata", "name"), image_name(one))}
    names: set[str] = set()
    found = []
    for at, image in enumerate(images.open_stack_node_images):
        shown = image.create_opts.name
        name = object_name(shown)
        if not name or name in names:
            cause = f"an earlier image also becomes Image {name}" if name else "write at least one letter of ASCII"
            place = f"node-images.yaml: openStackNodeImages[{at}].createOpts.name"
            raise SpecError("InvalidNodeImages", f"{place} is {shown!r}: {cause}{': change one name' if name else ''}")
        names.add(name)
        if not taken & {name, shown}:
            spec = {"cloudCredentialsRef": _credentials(objects), **_spec(image)}
            found.append({"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return found


def object_name(name: str) -> str:
    """Return the name of the object for an image: its own name where that is possible; empty if it has no letters."""
    spaced = "".join(letter if letter in _LETTERS else " " for letter in name.lower()[:_MAX_NAME])
    return ".".join(filter(None, ("-".join(label.split()) for label in spaced.split("."))))


def is_image(manifest: Manifest) -> bool:
    """Return whether an object is an Image of ORC."""
    return _group_kind(manifest) == IMAGE_KIND


def image_name(image: Manifest) -> str:
    """Return the name of an Image in the cloud."""
    return text(image, "spec", "resource", "name") or text(image, "metadata", "name")


def with_live_url(image: Manifest, live: Manifest) -> Manifest:
    """Return an Image with the URL of the live one if one hash verifies both, because ORC never changes a URL."""
    wanted, found = mapping(image, *DOWNLOAD), mapping(live, *DOWNLOAD)
    if not mapping(wanted, "hash") or mapping(wanted, "hash") != mapping(found, "hash"):
        return image
    changed = copy.deepcopy(image)
    mapping(changed, *DOWNLOAD)["url"] = text(found, "url")
    return changed


def unverified_images(manifests: Iterable[Manifest]) -> list[str]:
    """Return the names of the Images that are downloaded without a hash: nobody notices another content."""
    images = [one for one in manifests if is_image(one) and mapping(one, *DOWNLOAD)]
    return [text(one, "metadata", "name") for one in images if not text(one, *DOWNLOAD, "hash", "value")]


def ignored_fields(images: Sequence[OpenStackImage]) -> list[tuple[str | int, ...]]:
    """Return the paths of fields that have no effect, because ORC has none for them."""
    found: list[tuple[str | int, ...]] = []
    for at, image in enumerate(images):
        place, options = ("openStackNodeImages", at, "createOpts"), image.create_opts
        if options.os_hidden:
            found.append((*place, "os_hidden"))
        _, unknown = _translated(options)
        found += [(*place, "properties", name) for name in unknown]
    return found


def _spec(image: OpenStackImage) -> Manifest:
    options = image.create_opts
    if options.id:
        return {"managementPolicy": "unmanaged", "import": {"id": options.id}}
    download: Manifest = {"url": image.url}
    if image.checksum:
        algorithm, _, value = image.checksum.partition(":")
        download["hash"] = {"algorithm": algorithm, "value": value}
    content = {"containerFormat": options.container_format, "diskFormat": options.disk_format, "download": download}
    resource = {
        "name": options.name,
        "visibility": options.visibility,
        "tags": list(dict.fromkeys(options.tags)),
        "protected": options.protected,
        "properties": _translated(options)[0],
    }
    spec: Manifest = {
        "managementPolicy": "managed",
        "resource": {key: value for key, value in resource.items() if value} | {"content": content},
    }
    # ORC cannot delete a protected image: without this, the deletion of the release would wait for ever.
    return {**spec, "managedOptions": {"onDelete": "detach"}} if options.protected else spec


def _translated(options: ImageOptions) -> tuple[Manifest, list[str]]:
    """Return the properties as ORC has them, and the names of those it does not have."""
    sizes = {"minDiskGB": options.min_disk, "minMemoryMB": options.min_ram}
    found: Manifest = {field: size for field, size in sizes.items() if size}
    unknown = []
    for name, value in options.properties.items():
        try:
            (*section, field), parse = _PROPERTIES[name]
            parsed = parse(value)
        except (KeyError, ValueError):
            unknown.append(name)
        else:
            (found.setdefault(section[0], {}) if section else found)[field] = parsed
    return found, unknown


def _credentials(class_objects: Iterable[Manifest]) -> Manifest:
    """Return the credentials that the class names for its clusters, or the default."""
    for one in class_objects:
        reference = mapping(one, "spec", "template", "spec", "identityRef")
        if _group_kind(one) == _CLUSTER_TEMPLATE and text(reference, "name"):
            cloud = text(reference, "cloudName") or DEFAULT_CLOUD
            return {"secretName": text(reference, "name"), "cloudName": cloud}
    return {"secretName": DEFAULT_CLOUD, "cloudName": DEFAULT_CLOUD}


def _group_kind(manifest: Manifest) -> tuple[str, str]:
    return split_api_version(text(manifest, "apiVersion"))[0], text(manifest, "kind")
