"""The container images that rendered objects name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api.untyped import mapping, mappings, text
from clusterstacks.domain.objects import split_api_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from clusterstacks.domain.objects import Manifest

_POD_SPECS: dict[tuple[str, str], tuple[str, ...]] = {
    ("", "Pod"): ("spec",),
    ("", "PodTemplate"): ("template", "spec"),
    ("", "ReplicationController"): ("spec", "template", "spec"),
    ("apps", "DaemonSet"): ("spec", "template", "spec"),
    ("apps", "Deployment"): ("spec", "template", "spec"),
    ("apps", "ReplicaSet"): ("spec", "template", "spec"),
    ("apps", "StatefulSet"): ("spec", "template", "spec"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
    ("batch", "Job"): ("spec", "template", "spec"),
}


def images_of(manifests: Iterable[Manifest]) -> tuple[str, ...]:
    """Name the images that pods of these objects need, sorted, each once.

    Images that an operator in the cluster picks from a custom resource are not seen: their field is nowhere told.
    """
    return tuple(sorted({image for manifest in manifests for image in images_in(manifest)}))


def images_in(manifest: Manifest) -> Iterator[str]:
    """Give the images of one object, in the order they stand there."""
    group, _ = split_api_version(text(manifest, "apiVersion"))
    path = _POD_SPECS.get((group, text(manifest, "kind")))
    if path is None:
        return
    spec = mapping(manifest, *path)
    for containers in ("initContainers", "containers", "ephemeralContainers"):
        for container in mappings(spec, containers):
            if image := text(container, "image"):
                yield image
    for volume in mappings(spec, "volumes"):
        if reference := text(volume, "image", "reference"):
            yield reference
