"""Releases of a minimal stack, distinguished by one word: a class and addon charts with given templates."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterstacks.model.names import ReleaseName
from clusterstacks.model.versions import KubernetesMinor, StackVersion
from clusterstacks.release.charts.archive import write_archive
from tests.support.builders.releases import below

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

PROVIDER = "local"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io/v1beta2"
KUBERNETES = "v1.35.4"


def config_map(name: str, /, **content: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": content}


def templates(*manifests: Mapping[str, Any], **files: str) -> dict[str, str]:
    """The files of an addon chart that renders these objects; JSON is YAML."""
    return {"templates/all.yaml": "\n---\n".join(json.dumps(one) for one in manifests), **files}


def stage(addon: str, action: str = "apply", **checks: Any) -> dict[str, Any]:
    return {"name": addon, "action": action, **checks}


@dataclass(frozen=True)
class TinyStack:
    """A stack whose word is part of every name."""

    word: str
    minor: str = "1.35"
    provider: str = PROVIDER

    def release(self, version: str) -> ReleaseName:
        return ReleaseName(self.provider, self.word, KubernetesMinor.parse(self.minor), StackVersion.parse(version))

    def object(self, version: str) -> dict[str, Any]:
        """Return the template of the class in the infrastructure group."""
        name = self.release(version).class_name
        template = {"spec": {"template": {"spec": {"size": 1}}}}
        return {"apiVersion": INFRASTRUCTURE, "kind": "TinyClusterTemplate", "metadata": {"name": name}, **template}

    def cluster_class(self, version: str) -> dict[str, Any]:
        name = self.release(version).class_name
        return {
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "ClusterClass",
            "metadata": {"name": name},
            "spec": {"infrastructure": {"templateRef": {"kind": "TinyClusterTemplate", "name": name}}},
        }

    def class_objects(self, version: str) -> list[dict[str, Any]]:
        return [self.cluster_class(version), self.object(version)]

    def files(
        self,
        version: str,
        addons: Mapping[str, Mapping[str, str]],
        *,
        hooks: Mapping[str, Any] | None = None,
        class_objects: list[dict[str, Any]] | None = None,
        class_files: Mapping[str, str] | None = None,
        addon_version: str = "",
        kubernetes: str = KUBERNETES,
        health: Sequence[Mapping[str, str]] = (),
    ) -> dict[str, bytes]:
        """The files of a release with stages.

        Args:
            version: The release's, in dot form.
            addons: Files of the addon charts by addon.
            hooks: Stages by hook; every addon is applied after the control plane where none are given.
            class_objects: What the class chart renders; class and template where none are given.
            class_files: Laid over the files of the class chart.
            addon_version: As the release's where none is given.
            kubernetes: In metadata.yaml.
            health: The rules of clusteraddon.yaml for the health of kinds.
        """
        name = self.release(version)
        stages = {"AfterControlPlaneInitialized": [stage(addon) for addon in addons]} if hooks is None else hooks
        addon = addon_version or version
        rendered = class_objects or self.class_objects(version)
        packed = {path: content for chart in addons for path, content in _chart(chart, chart, addons[chart]).items()}
        return {
            **self._common(version, addon, kubernetes, templates(*rendered, **(class_files or {}))),
            "clusteraddon.yaml": json.dumps({"addonStages": stages, **({"health": health} if health else {})}).encode(),
            f"{name.series}-cluster-addon-{addon}.tgz": write_archive(packed or {"README": b"no addons"}),
        }

    def single_files(
        self, version: str, addon: Mapping[str, str], *, values: str = "", addon_version: str = ""
    ) -> dict[str, bytes]:
        """Return the files of a release in the single-chart layout."""
        series = self.release(version).series
        chart = addon_version or version
        return {
            **self._common(version, chart, KUBERNETES, templates(*self.class_objects(version))),
            "cluster-addon-values.yaml": values.encode(),
            f"{series}-cluster-addon-{chart}.tgz": write_archive(_chart("addons", "addons", addon)),
        }

    def _common(self, version: str, addon: str, kubernetes: str, chart: Mapping[str, str]) -> dict[str, bytes]:
        name = self.release(version)
        top = f"{name.series}-cluster-class"
        components = {"clusterAddon": addon, "nodeImage": "v1"}
        metadata = {
            "apiVersion": "metadata.clusterstack.x-k8s.io/v1alpha1",
            "versions": {"clusterStack": version, "kubernetes": kubernetes, "components": components},
        }
        return {
            "metadata.yaml": json.dumps(metadata).encode(),
            f"{top}-{version}.tgz": write_archive(_chart(top, top, chart)),
        }

    def manifest(self, namespace: str, *versions: str, **spec: Any) -> dict[str, Any]:
        """Return the ClusterStack that lists these versions and follows no channel."""
        plain = {
            "provider": self.provider,
            "name": self.word,
            "kubernetesVersion": self.minor,
            "noProvider": True,
            "autoSubscribe": False,
            "channel": "custom",
            "versions": list(versions),
        }
        return {
            "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
            "kind": "ClusterStack",
            "metadata": {"name": self.word, "namespace": namespace},
            "spec": {**plain, **spec},
        }


def publish(root: Path, name: ReleaseName, files: Mapping[str, bytes]) -> Path:
    """Move a complete release into the operator's directory; replaces one of the same name."""
    directory, hidden = root / name.release, root / f".{name.release}"
    hidden.mkdir(parents=True)
    for file, content in files.items():
        (hidden / file).write_bytes(content)
    shutil.rmtree(directory, ignore_errors=True)
    hidden.rename(directory)
    return directory


def _chart(directory: str, name: str, files: Mapping[str, str]) -> dict[str, bytes]:
    texts = {"Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: 1.0.0\n", **files}
    return below(directory, {path: text.encode() for path, text in texts.items()})
