"""Releases whose addons are one ConfigMap each, with stages at the hooks of an upgrade; the class is the demo's."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev.demo.scenario import stacks
from tests.support.builders.stacks import config_map, stage, templates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName

SOURCE, SOURCE_VERSION = "1-35", "v1.35.4"
"""The directory of the demo stack that is copied."""


@dataclass(frozen=True, kw_only=True)
class HookedStack:
    """A stack with one release for each Kubernetes version.

    Args:
        name: Its name.
        hooks: The stages of each hook.
        installed: The addons of a new cluster, in order.
        ranges: Returns the Kubernetes range of an addon in the release for a minor; None for a bundle.
    """

    name: str
    hooks: Mapping[str, Sequence[Mapping[str, Any]]]
    installed: Sequence[str]
    ranges: Callable[[str, int], str] | None = field(default=None)

    @property
    def addons(self) -> list[str]:
        """All addons."""
        return list(dict.fromkeys([*self.installed, *(one["name"] for hook in self.hooks.values() for one in hook)]))

    def build(self, version: str, scratch: Path, releases: Path, release: str = "v1") -> ReleaseName:
        """Build a release for a Kubernetes version; each ConfigMap names its minor and that of its rendering."""
        dashed = "-".join(version.removeprefix("v").split(".")[:2])
        source = scratch / dashed
        shutil.copytree(
            stacks() / "demo" / SOURCE, source, ignore=shutil.ignore_patterns("cluster-addon", "clusteraddon.yaml")
        )
        for path in ("csctl.yaml", "cluster-class/Chart.yaml"):
            text = (source / path).read_text().replace("demo", self.name)
            (source / path).write_text(text.replace(SOURCE, dashed).replace(SOURCE_VERSION, version))
        for addon in self.addons:
            _write_addon(source / "cluster-addon" / addon, addon, dashed)
        hooks = {"AfterControlPlaneInitialized": [stage(addon) for addon in self.installed], **self.hooks}
        config = {
            "apiVersion": "clusteraddonconfig.x-k8s.io/v1alpha1",
            "clusterAddonVersion": "clusteraddons.clusterstack.x-k8s.io/v1alpha1",
            "addonStages": {hook: list(stages) for hook, stages in hooks.items()},
        }
        (source / "clusteraddon.yaml").write_text(json.dumps(config))
        if self.ranges is not None:
            (source / "compatibility.yaml").write_text(json.dumps(self._ranges(int(dashed.split("-")[1]))))
        return build_release(source, releases, cluster_stack=release, cluster_addon="v1", node_image="v1")

    def _ranges(self, minor: int) -> dict[str, Any]:
        assert self.ranges is not None
        stated = [
            {"name": addon, "addon": addon, "version": f"1.{minor}.0", "kubernetes": self.ranges(addon, minor)}
            for addon in self.addons
        ]
        return {
            "apiVersion": "compatibility.clusterstack.x-k8s.io/v1alpha1",
            "kubernetes": f">=1.{minor - 1} <1.{minor + 1}",
            "components": stated,
        }


def _write_addon(chart: Path, addon: str, minor: str) -> None:
    content = config_map(addon, minor=minor, rendered="{{ .Capabilities.KubeVersion.Minor }}")
    files = {"Chart.yaml": f"apiVersion: v2\nname: {addon}\nversion: 1.0.0\n", **templates(content)}
    for name, text in files.items():
        (chart / name).parent.mkdir(parents=True, exist_ok=True)
        (chart / name).write_text(text)
