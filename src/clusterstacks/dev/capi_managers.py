"""Cluster API's managers and ORC: their CRDs and webhooks, adapted to run without cert-manager and Services.

They are read from the Go module at run time and cached beside the binaries, so that Go is needed only once; this
project does not contain them.
"""

from __future__ import annotations

import base64
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev import binaries, go_build, toolchain
from clusterstacks.dev.contract_labels import stated_labels
from clusterstacks.model.yaml import load, load_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from clusterstacks.model.objects import Manifest

LABELS = "kustomization.yaml"
"""File with the contract labels of a manager's CRDs, in the module and in the cache."""
WEBHOOKS, ROLE = "webhooks.yaml", "role.yaml"


@dataclass(frozen=True, slots=True)
class Manager:
    """One manager of Cluster API, or ORC."""

    name: str
    """Name in ``csctl dev status``."""
    program: str
    """Its key in ``toolchain.TOOLS``."""
    config: Path
    """Directory of its manifests in the module; those of Cluster API since v1.14."""


ORC = Manager("orc", toolchain.ORC, Path("config"))
"""The OpenStack Resource Controller, which has no webhooks."""
CORE = Manager("cluster-api", toolchain.CORE, Path("core") / "config")
PROVIDERS = {
    "kubeadm": (
        Manager("kubeadm-bootstrap", toolchain.KUBEADM_BOOTSTRAP, Path("bootstrap") / "kubeadm" / "config"),
        Manager("kubeadm-control-plane", toolchain.KUBEADM_CONTROL_PLANE, Path("controlplane") / "kubeadm" / "config"),
    )
}
"""Providers for ``--with``; a manager follows those whose kinds it uses."""


def chosen(providers: Iterable[str]) -> tuple[Manager, ...]:
    """Return the managers of an environment with these providers in start order."""
    return (CORE, *(manager for name in dict.fromkeys(providers) for manager in PROVIDERS[name]))


def programs_of(managers: Iterable[Manager]) -> tuple[str, ...]:
    """Return the programs of an environment with these managers."""
    return tuple(dict.fromkeys((*toolchain.ALWAYS, *(manager.program for manager in managers))))


def manifests(
    manager: Manager, *, report: Callable[[str], None] = binaries.silent, environ: Mapping[str, str] = os.environ
) -> Path:
    """Return the directory with a manager's ``crds/*.yaml``, ``webhooks.yaml`` and ``role.yaml`` in its version."""
    tool = toolchain.TOOLS[manager.program]
    name = f"{manager.name}-{tool.version}-manifests"
    assets = [Path(environ[variable]) for variable in binaries.ASSET_VARIABLES if environ.get(variable)]
    cache = binaries.cache_directory(environ)
    for directory in (*assets, cache):
        if (directory / name).is_dir():
            return directory / name
    module = module_cache(environ) / f"{tool.module}@{tool.version}"
    if not (module / manager.config).is_dir():
        report(f"downloading the manifests of {manager.name} {tool.version}")
        cache.mkdir(parents=True, exist_ok=True)
        module = go_build.find_go(cache, report).module_directory(tool.folder, tool.module)
    keep(module / manager.config, cache / name)
    return cache / name


def module_cache(environ: Mapping[str, str]) -> Path:
    """Return Go's module cache without running Go."""
    if environ.get("GOMODCACHE"):
        return Path(environ["GOMODCACHE"])
    home = Path(environ.get("HOME") or Path.home())
    first = (environ.get("GOPATH") or str(home / "go")).split(os.pathsep)[0]
    return Path(first) / "pkg" / "mod"


def keep(config: Path, target: Path) -> None:
    """Copy the needed files of the module's ``config`` directory; the target is complete or absent."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as staging:
        staged = Path(staging) / "manifests"
        (staged / "crds").mkdir(parents=True)
        # copyfile, because the module cache is read-only
        for path in (config / "crd" / "bases").glob("*.yaml"):
            shutil.copyfile(path, staged / "crds" / path.name)
        others = {f"crd/{LABELS}": LABELS, "webhook/manifests.yaml": WEBHOOKS, "rbac/role.yaml": ROLE}
        for source, name in others.items():
            if (config / source).exists():
                shutil.copyfile(config / source, staged / name)
        if not target.is_dir():
            staged.replace(target)


def definitions(directory: Path, webhook_url: str, authority: bytes) -> list[Manifest]:
    """Read the CRDs with their contract labels; the manager at ``webhook_url`` converts their objects."""
    conversion = {
        "strategy": "Webhook",
        "webhook": {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"url": f"{webhook_url}/convert", "caBundle": _base64(authority)},
        },
    }
    labels = _labels(directory / LABELS)
    return [
        {
            **crd,
            "metadata": {**crd["metadata"], "labels": {**crd["metadata"].get("labels", {}), **labels}},
            "spec": {**crd["spec"], "conversion": conversion},
        }
        for crd in read_definitions(directory)
    ]


def definition_names(directory: Path) -> frozenset[str]:
    """Return the names of a manager's CRDs."""
    return frozenset(crd["metadata"]["name"] for crd in read_definitions(directory))


def webhook_configurations(manager: Manager, directory: Path, webhook_url: str, authority: bytes) -> list[Manifest]:
    """Read a manager's webhook configurations with ``webhook_url`` in place of its Service."""
    return [
        {
            **configuration,
            "metadata": {"name": f"{manager.name}-{configuration['metadata']['name']}"},
            "webhooks": [_pointed(webhook, webhook_url, authority) for webhook in configuration["webhooks"]],
        }
        for configuration in load_all((directory / WEBHOOKS).read_bytes())
        if configuration
    ]


def read_definitions(directory: Path) -> list[Manifest]:
    """Read a manager's CRDs as they are in its module."""
    return [load(path.read_bytes()) for path in sorted((directory / "crds").glob("*.yaml"))]


def _labels(path: Path) -> dict[str, str]:
    # The file is missing in caches of earlier versions, for the core manager, which needs no labels.
    return stated_labels(load(path.read_bytes())) if path.exists() else {}


def _pointed(webhook: Manifest, url: str, authority: bytes) -> Manifest:
    path = webhook["clientConfig"]["service"]["path"]
    return {**webhook, "clientConfig": {"url": f"{url}{path}", "caBundle": _base64(authority)}}


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
