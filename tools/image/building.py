"""The steps of a build, in order."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from tools.image import debian
from tools.image.bytecode import compiled
from tools.image.layers import archive, lay_out
from tools.image.layout import NAME, Layout, Origin
from tools.image.sbom import bill_of_materials, wheels_of
from tools.image.wheels import PLATFORMS, PROJECT, locked_layer, own_layer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from clusterstacks.net.oci.descriptor import Descriptor
    from tools.image.debian import Package
    from tools.image.layers import Layer

ARCHITECTURES = tuple(PLATFORMS)
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Built:
    """An image that was built.

    Args:
        digest: Of its index.
        sizes: Compressed bytes of the layers, by architecture.
        components: How many wheels and Debian packages the list of the first architecture has.
    """

    digest: str
    sizes: dict[str, int]
    components: int


@dataclass(slots=True)
class _Build:
    """What the architectures of one build share.

    Args:
        work: A directory for files that are not part of the result.
        mirrors: As :func:`debian.download` takes them.
    """

    work: Path
    mirrors: Sequence[str]
    _packages: dict[str, list[Package]] = field(default_factory=dict)

    def packages(self, architecture: str) -> list[Package]:
        if architecture not in self._packages:
            folder = self.work / f"debian-{architecture}"
            folder.mkdir()
            self._packages[architecture] = debian.download(architecture, folder, self.mirrors)
        return self._packages[architecture]

    def layers(self, architecture: str) -> dict[str, Layer]:
        work = self.work / architecture
        work.mkdir()
        layers = {
            f"Debian packages of {debian.SUITE}": debian.base_layer(self.packages(architecture)),
            "wheels of uv.lock": locked_layer(architecture, work),
            "cluster-stacks": own_layer(architecture, work),
        }
        root = work / "root"
        lay_out(debian.base_layer(self.packages(machine())), root)
        return {what: layer | compiled(layer, root) for what, layer in layers.items()}


def machine() -> str:
    """Return the architecture of this machine, in Debian's words.

    Raises:
        SpecError: There are no images for it, so their interpreter does not run here.
    """
    found = _MACHINES.get(platform.machine())
    if found is None:
        known = " and ".join(ARCHITECTURES)
        raise SpecError("ArchitectureUnknown", f"images are built on {known}, not on {platform.machine()}")
    return found


def build(architectures: Sequence[str], folder: Path, mirrors: Sequence[str], report: Callable[[str], None]) -> Built:
    """Build the image and write its layout.

    Args:
        architectures: For which machines; their bytecode is made on this one.
        folder: Where the layout goes.
        mirrors: As :func:`debian.download` takes them.
        report: Gets a line for each step.

    Raises:
        SpecError: A program is missing or fails.
    """
    debian.require_programs()
    machine()
    origin, lock = origin_of(PROJECT), tomllib.loads((PROJECT / "uv.lock").read_text())
    layout = Layout(folder)
    images: dict[str, Descriptor] = {}
    sboms: list[Descriptor] = []
    sizes: dict[str, int] = {}
    components = 0
    with tempfile.TemporaryDirectory(prefix="image-") as work:
        shared = _Build(Path(work), mirrors)
        for architecture in architectures:
            layers = shared.layers(architecture)
            packed = {}
            for what, layer in layers.items():
                packed[what] = archive(layer)
                megabytes = f"{len(packed[what].content) / 1e6:.1f} MB, unpacked {packed[what].size / 1e6:.1f} MB"
                report(f"{architecture}: {what}: {megabytes}")
            images[architecture] = layout.add_image(architecture, packed, origin)
            sizes[architecture] = sum(len(one.content) for one in packed.values())
            wheels = [wheel for layer in layers.values() for wheel in wheels_of(layer, lock)]
            packages = debian.used(shared.packages(architecture))
            sboms.append(
                layout.add_sbom(images[architecture], bill_of_materials(NAME, origin.version, wheels, packages))
            )
            components = components or len(wheels) + len(packages)
    return Built(layout.finish(images, sboms, origin.version).digest, sizes, components)


def origin_of(project: Path) -> Origin:
    """Read version and commit of a checkout; ``SOURCE_DATE_EPOCH`` overrides the time of the commit."""
    version = str(tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"])
    commit = _git(project, "log", "-1", "--format=%H %ct").split()
    revision, time = commit or ("", "0")
    if revision and _git(project, "status", "--porcelain"):
        revision += "-dirty"
    return Origin(version, int(os.environ.get("SOURCE_DATE_EPOCH", time)), revision)


def _git(project: Path, *arguments: str) -> str:
    command = ["git", "-C", str(project), *arguments]
    try:
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()
    except FileNotFoundError:
        return ""
