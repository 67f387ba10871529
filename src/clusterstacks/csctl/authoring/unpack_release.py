"""Unpacks a release into the files of the stack that it was built from, so that lint can read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.csctl.building.settings import CSCTL
from clusterstacks.model import yaml
from clusterstacks.model.files.compatibility import FILE as COMPATIBILITY
from clusterstacks.release.release import ADDON_CONFIG, ADDON_VALUES, CLASS_CHART, addon_label

if TYPE_CHECKING:
    from clusterstacks.release.release import Release

_COPIED = (ADDON_CONFIG, ADDON_VALUES, COMPATIBILITY)


def stack_tree(release: Release) -> dict[str, bytes]:
    """Return the files of the charts, the settings that the release contains, and a csctl.yaml with its names.

    Files that a build uses but does not package, such as versions.yaml, are missing.
    """
    tree = {name: release.contents.read(name) for name in _COPIED if name in release.contents.files}
    tree[CSCTL] = _settings(release)
    labels = [CLASS_CHART, *(addon_label(name, staged=release.staged) for name in release.addons())]
    for label in labels:
        tree |= {f"{label}/{path}": content for path, content in release.chart_files(label).items()}
    return tree


def _settings(release: Release) -> bytes:
    name = release.name
    config = {
        "kubernetesVersion": release.metadata.kubernetes.text,
        "clusterStackName": name.stack,
        "provider": {"type": name.provider},
    }
    return yaml.dump({"apiVersion": "csctl.clusterstack.x-k8s.io/v1alpha1", "config": config}).encode()
