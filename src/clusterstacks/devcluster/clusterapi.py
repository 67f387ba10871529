"""Cluster API's own definitions and webhooks, made to work without cert-manager and Services.

They are read from the Go module at run time and kept beside the binaries, so that Go is needed only once; nothing of
them is part of this project.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.api.yaml import load, load_all
from clusterstacks.devcluster import binaries, golang
from clusterstacks.devcluster.programs import CLUSTER_API

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from clusterstacks.domain.objects import Manifest

CONFIG = Path("core") / "config"
"""Where the core manager's manifests lie in the module since v1.14."""


def manifests(*, report: Callable[[str], None] = binaries.silent, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the directory with ``crds/*.yaml`` and ``webhooks.yaml`` of the pinned Cluster API version.

    Raises:
        DependencyError: they are nowhere on this machine and cannot be downloaded.
    """
    version = golang.cluster_api_version()
    name = f"cluster-api-{version}-manifests"
    assets = [Path(environ[variable]) for variable in binaries.ASSET_VARIABLES if environ.get(variable)]
    cache = binaries.cache_directory(environ)
    for directory in (*assets, cache):
        if (directory / name).is_dir():
            return directory / name
    module = module_cache(environ) / f"{CLUSTER_API}@{version}"
    if not (module / CONFIG).is_dir():
        report(f"downloading the manifests of Cluster API {version}")
        cache.mkdir(parents=True, exist_ok=True)
        module = golang.find_go(cache, report).module_directory("cluster-api", CLUSTER_API)
    keep(module / CONFIG, cache / name)
    return cache / name


def module_cache(environ: Mapping[str, str]) -> Path:
    """Return where Go keeps downloaded modules, without asking Go."""
    if environ.get("GOMODCACHE"):
        return Path(environ["GOMODCACHE"])
    home = Path(environ.get("HOME") or Path.home())
    first = (environ.get("GOPATH") or str(home / "go")).split(os.pathsep)[0]
    return Path(first) / "pkg" / "mod"


def keep(config: Path, target: Path) -> None:
    """Copy what is needed out of the module's ``config`` directory; the target is whole or absent."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as staging:
        staged = Path(staging) / "manifests"
        (staged / "crds").mkdir(parents=True)
        for path in (config / "crd" / "bases").glob("*.yaml"):
            shutil.copyfile(path, staged / "crds" / path.name)  # copyfile: the module cache is read-only
        shutil.copyfile(config / "webhook" / "manifests.yaml", staged / "webhooks.yaml")
        if not target.is_dir():
            staged.replace(target)


def definitions(directory: Path, webhook_url: str, authority: bytes) -> list[Manifest]:
    """Read the CustomResourceDefinitions, converted by the manager at ``webhook_url``."""
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": f"{webhook_url}/convert", "caBundle": _base64(authority)},
        },
    }
    found = [load(path.read_bytes()) for path in sorted((directory / "crds").glob("*.yaml"))]
    return [{**crd, "spec": {**crd["spec"], "conversion": conversion}} for crd in found]


def webhook_configurations(directory: Path, webhook_url: str, authority: bytes) -> list[Manifest]:
    """Read the two webhook configurations, pointed at the manager at ``webhook_url``."""
    return [
        {
            **configuration,
            "metadata": {"name": f"cluster-api-core-{configuration['metadata']['name']}"},
            "webhooks": [_pointed(webhook, webhook_url, authority) for webhook in configuration["webhooks"]],
        }
        for configuration in load_all((directory / "webhooks.yaml").read_bytes())
        if configuration
    ]


def _pointed(webhook: Manifest, url: str, authority: bytes) -> Manifest:
    path = webhook["clientConfig"]["service"]["path"]
    return {**webhook, "clientConfig": {"url": f"{url}{path}", "caBundle": _base64(authority)}}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
