"""The recorded states of releases, and their way from and to etcd.

``tests/replay/recorded/VERSION/DEMO`` is what a demo of that version left behind: ``management.yaml`` and
``workload.yaml`` have the objects of the two clusters as etcd holds them, by key, and ``releases`` the operator's
release directory. ``tools.record`` writes them.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from clusterstacks.dev.loopback import request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.dev.etcd import EtcdAccess
    from clusterstacks.model.objects import Manifest

PROJECT: Final = Path(__file__).parents[1]
RELEASES: Final = PROJECT / "RELEASES"
RECORDED: Final = PROJECT / "tests" / "replay" / "recorded"
IN_JSON: Final = "--storage-media-type=application/json"
"""Flag of a kube-apiserver that stores its own kinds as JSON; without it they are protobuf, and it reads both."""
MANAGEMENT: Final = "management.yaml"
WORKLOAD: Final = "workload.yaml"


def commits(text: str) -> dict[str, str]:
    """Return the commit of each version in ``RELEASES``; lines that begin with # are comments."""
    return dict(line.split() for line in text.splitlines() if line and not line.startswith("#"))


@dataclass(frozen=True, slots=True)
class Recording:
    """The state after one demo; keys of objects are those of etcd without the prefix of the API server."""

    directory: Path

    @property
    def releases(self) -> Path:
        """The release directory."""
        return self.directory / "releases"

    def management(self) -> dict[str, Manifest]:
        """Read the objects of the management cluster."""
        return _read(self.directory / MANAGEMENT)

    def workload(self) -> dict[str, Manifest]:
        """Read the objects of the workload cluster."""
        return _read(self.directory / WORKLOAD)


def recordings(version: str) -> list[Recording]:
    """Return the recordings of a version."""
    return [Recording(path) for path in sorted((RECORDED / version).iterdir())]


def objects_in(etcd: EtcdAccess, prefix: str) -> dict[str, Manifest]:
    """Return the objects below a prefix, which are stored as JSON, in one revision."""
    found = _call(etcd, "range", {"key": _base64(f"{prefix}/"), "range_end": _base64(f"{prefix}0")})  # 0 follows /
    return {
        base64.b64decode(one["key"]).decode().removeprefix(prefix): json.loads(value)
        for one in found.get("kvs", [])
        if (value := base64.b64decode(one["value"])).startswith(b"{")
    }


def put_objects(etcd: EtcdAccess, prefix: str, objects: Mapping[str, Manifest]) -> None:
    """Store objects as they are: with uid, generation, owners, managed fields and finalizers."""
    for key, manifest in objects.items():
        _call(etcd, "put", {"key": _base64(f"{prefix}{key}"), "value": _base64(json.dumps(manifest))})


def _call(etcd: EtcdAccess, verb: str, question: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON
    status, answer = request(f"{etcd.url}/v3/kv/{verb}", context=etcd.context(), body=json.dumps(question).encode())
    if status != 200:
        raise RuntimeError(f"etcd refused {verb}: HTTP {status}: {answer.decode(errors='replace')}")
    return json.loads(answer)


def _read(path: Path) -> dict[str, Manifest]:
    found: dict[str, Manifest] = yaml.load(path.read_bytes(), yaml.CSafeLoader)
    return found


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
