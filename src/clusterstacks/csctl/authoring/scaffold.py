"""Scaffold of a new stack."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from datetime import date
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from clusterstacks.csctl.building.settings import CSCTL
from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import ReleaseName
from clusterstacks.model.versions import KubernetesMinor, KubernetesVersion, StackVersion

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

LOCAL = "local"
"""The provider of ``csctl dev``; its clusters have no machines."""

INFRASTRUCTURE = {
    "aws": ("AWS", "v1beta2"),
    "azure": ("Azure", "v1beta1"),
    "docker": ("Docker", "v1beta2"),
    "hetzner": ("Hetzner", "v1beta1"),
    "hcloud": ("Hetzner", "v1beta1"),
    "kubevirt": ("Kubevirt", "v1alpha1"),
    "metal3": ("Metal3", "v1beta1"),
    "openstack": ("OpenStack", "v1beta1"),
    "proxmox": ("Proxmox", "v1alpha1"),
    "vsphere": ("VSphere", "v1beta1"),
}
"""Prefix of the kinds of known providers, and the API version that they serve (source: their documentation)."""

_KNOWN_MINOR = 35
_KNOWN_RELEASE = date(2025, 12, 17)
_MONTHS_PER_MINOR = 4
"""Release date of Kubernetes 1.35, and three minors a year (https://kubernetes.io/releases)."""

IGNORED = "# Releases that csctl builds, and private keys.\n/.release/\n*.key\n"
"""Content of .gitignore for the root of a new repository."""

_GROUP = "infrastructure.cluster.x-k8s.io"
_PLACEHOLDER = re.compile(r"@(\w+)@")
_JOINED = "README.md"
"""The file to which each skeleton adds a part."""


@dataclass(frozen=True, slots=True)
class NewStack:
    """A stack to write: infrastructure provider, name, and the Kubernetes version of its clusters."""

    provider: str
    stack: str
    kubernetes: KubernetesVersion

    @classmethod
    def parse(cls, text: str, kubernetes: str = "") -> NewStack:
        """Read ``openstack/scs/1-35``; without a full version, use the first patch of the minor.

        Raises:
            SpecError: A part is not allowed in the name of a release, or the version has another minor.
        """
        parts = text.split("/")
        if len(parts) != 3:
            raise SpecError("InvalidName", f"{text!r} is not a valid stack name (expected PROVIDER/STACK/1-35)")
        minor = KubernetesMinor.parse(parts[2].replace("-", "."))
        version = KubernetesVersion.parse(kubernetes or f"{minor}.0")
        if version.series != minor:
            raise SpecError(
                "InvalidVersion", f"{version} is not a version of Kubernetes {minor} (expected for example v{minor}.4)"
            )
        ReleaseName(parts[0], parts[1], minor, StackVersion(1))
        return cls(parts[0], parts[1], version)

    def version_warning(self, today: date) -> str:
        """Return a warning if the Kubernetes version cannot exist yet, otherwise an empty text."""
        months = 12 * (today.year - _KNOWN_RELEASE.year) + today.month - _KNOWN_RELEASE.month
        newest = _KNOWN_MINOR + max(0, months // _MONTHS_PER_MINOR)
        if (self.kubernetes.major, self.kubernetes.minor) <= (1, newest + 1):
            return ""
        return (
            f"Kubernetes {self.kubernetes.series} is not expected to exist yet (the newest is about 1.{newest}): check "
            f"the number, or correct {CSCTL} and the name of the class chart"
        )

    @property
    def directory(self) -> Path:
        """The conventional directory of the stack in a repository."""
        return Path("providers", self.provider, self.stack, f"{self.kubernetes.major}-{self.kubernetes.minor}")

    def files(self) -> dict[str, str]:
        """Return the text of each file by its path below the stack directory."""
        kind = LOCAL if self.provider == LOCAL else "kubeadm"
        words = self._words()
        result: dict[str, str] = {}
        for skeleton in ("common", kind):
            for path, text in _below(resources.files(__package__).joinpath("skeletons", skeleton), PurePosixPath()):
                before = result.get(path, "") if path == _JOINED else ""
                result[path] = before + _PLACEHOLDER.sub(lambda word: words[word[1]], text)
        return result

    def _words(self) -> dict[str, str]:
        prefix, version = INFRASTRUCTURE.get(self.provider, (self.provider.capitalize(), "v1beta1"))
        series = self.kubernetes.series
        return {
            "provider": self.provider,
            "stack": self.stack,
            "kubernetes": self.kubernetes.text,
            "minor": str(series),
            "series": ReleaseName(self.provider, self.stack, series, StackVersion(1)).series,
            "infrastructure": f"{_GROUP}/{version}",
            "prefix": prefix,
        }


def write_new_files(files: dict[str, str], directory: Path) -> tuple[Path, ...]:
    """Write new files: all of them, or none if one exists or cannot be written."""
    places = {directory / path: text for path, text in files.items()}
    if existing := [place for place in places if os.path.lexists(place)]:
        what = (
            f"{existing[0]} and {len(existing) - 1} more already exist"
            if len(existing) > 1
            else f"{existing[0]} already exists"
        )
        raise SpecError("FileExists", f"{what}: name another directory, or remove the files")
    written: list[Path] = []
    try:
        for place, text in places.items():
            place.parent.mkdir(parents=True, exist_ok=True)
            with place.open("x", encoding="utf-8") as file:
                written.append(place)
                file.write(text)
    except BaseException:  # also Ctrl-C: the next attempt must not find half a stack
        for place in written:
            place.unlink()
        raise
    return tuple(written)


def _below(directory: Traversable, path: PurePosixPath) -> Iterator[tuple[str, str]]:
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _below(entry, path / entry.name)
        else:
            yield str(path / entry.name), entry.read_text(encoding="utf-8")
