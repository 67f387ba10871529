"""The steps of a build, in order."""

from __future__ import annotations

import itertools
import os
import platform
import shutil
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.errors import SpecError
from clusterstacks.release.signing.attestation import SBOM, write_statement
from clusterstacks.release.signing.envelope import PAYLOAD_TYPE
from tools.image import debian
from tools.image.bytecode import compiled
from tools.image.layers import archive, lay_out
from tools.image.layout import NAME, Layout, Origin
from tools.image.provenance import provenance
from tools.image.sbom import bill_of_materials, bundled, components, wheels_of
from tools.image.wheels import PLATFORMS, PROJECT, locked_layer, own_layer, wheel_of_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

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
        components: How many components the list of the first architecture has.
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
    referrers: list[Descriptor] = []
    sizes: dict[str, int] = {}
    listed: dict[str, list[dict[str, Any]]] = {}
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
            packages = debian.used(shared.packages(architecture))
            listed[architecture] = contents(layers.values(), lock, packages)
            sbom = bill_of_materials(NAME, origin.version, listed[architecture])
            referrers.append(layout.add_sbom(images[architecture], sbom))
    index = layout.add_index(images)
    statement = provenance(
        [(NAME, one.digest) for one in (index, *images.values())],
        origin,
        {"architectures": list(architectures), "mirrors": list(mirrors)},
        itertools.chain(*listed.values()),
    )
    referrers.append(layout.add_referrer(index, statement, PAYLOAD_TYPE, "provenance.intoto.json"))
    layout.finish(index, referrers, origin.version)
    return Built(index.digest, sizes, len(listed[architectures[0]]))


def contents(layers: Iterable[Layer], lock: Mapping[str, Any], packages: Sequence[Package]) -> list[dict[str, Any]]:
    """List what is in layers, for an SBOM."""
    wheels = [wheel for layer in layers for wheel in wheels_of(layer, lock)]
    return components(wheels, packages, [one for layer in layers for one in bundled(layer)])


def build_wheel(folder: Path) -> Path:
    """Build the wheel of this project, with its SBOM and its provenance beside it; return the wheel.

    The SBOM lists the locked wheels for this machine, because the wheel itself contains no code of others.

    Raises:
        SpecError: uv fails; it has printed why.
    """
    origin, lock = origin_of(PROJECT), tomllib.loads((PROJECT / "uv.lock").read_text())
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheel-") as work:
        listed = contents([locked_layer(machine(), Path(work))], lock, ())
        wheel = Path(shutil.copy(wheel_of_project(Path(work, "wheel")), folder))
    subject = (wheel.name, sha256_digest(wheel.read_bytes()))
    sbom = bill_of_materials(wheel.name, origin.version, listed, kind="library")
    beside(wheel, "sbom.json").write_bytes(write_statement(SBOM, [subject], orjson.loads(sbom)))
    beside(wheel, "provenance.json").write_bytes(provenance([subject], origin, {}, listed))
    return wheel


def beside(wheel: Path, suffix: str) -> Path:
    """Return the file about a wheel with a suffix."""
    return wheel.with_name(f"{wheel.name}.{suffix}")


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
