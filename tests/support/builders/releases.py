"""Small release directories, a source that can wait or fail, and malformed archives."""

from __future__ import annotations

import asyncio
import io
import tarfile
import zlib
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.model.digests import content_digest
from clusterstacks.model.names import parse_release
from clusterstacks.release.charts.archive import write_archive
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound
from clusterstacks.release.release_source import EnvelopeKind, Evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName

STAGED = parse_release("local-tiny-1-35-v2")
SINGLE = parse_release("local-tiny-1-35-v3")
GZIP = 31

METADATA = """\
apiVersion: metadata.clusterstack.x-k8s.io/v1alpha1
versions:
  clusterStack: {version}
  kubernetes: v1.35.4
  components:
    clusterAddon: v1
    nodeImage: v1
"""
CONFIG = """\
addonStages:
  AfterControlPlaneInitialized:
    - name: cni
      action: apply
    - name: csi
      action: apply
"""


def chart(name: str, **files: str) -> dict[str, bytes]:
    """The files of a chart."""
    texts = {"Chart.yaml": f"apiVersion: v2\nname: {name}\nversion: v1\n", "values.yaml": "a: 1\n", **files}
    return {path: text.encode() for path, text in texts.items()}


def below(directory: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{directory}/{path}": content for path, content in files.items()}


def staged_release(name: ReleaseName = STAGED) -> dict[str, bytes]:
    """The files of a release with stages; its addon version is older than its own."""
    addons = below("cni", chart("cni", **{"overwrite.yaml": "values: {{ .Cluster.metadata.name }}\n"}))
    addons |= below("csi", chart("csi"))
    return {
        "metadata.yaml": METADATA.format(version=name.version.dot).encode(),
        "hashes.json": b'{"clusterStack": "abcdefghij"}',
        "clusteraddon.yaml": CONFIG.encode(),
        f"{name.series}-cluster-class-{name.version.dot}.tgz": class_archive(name),
        f"{name.series}-cluster-addon-v1.tgz": write_archive(addons),
    }


def single_release(name: ReleaseName = SINGLE) -> dict[str, bytes]:
    """The files of a release in the single-chart layout, without hashes.json."""
    return {
        "metadata.yaml": METADATA.format(version=name.version.dot).encode(),
        "cluster-addon-values.yaml": b"values: |\n  a: {{ .Cluster.metadata.name }}\n",
        f"{name.series}-cluster-class-{name.version.dot}.tgz": class_archive(name),
        f"{name.series}-cluster-addon-v1.tgz": write_archive(below("tiny-addon", chart("tiny-addon"))),
    }


def class_archive(name: ReleaseName) -> bytes:
    top = f"{name.series}-cluster-class"
    return write_archive(below(top, chart(top)))


def write_release(directory: Path, files: Mapping[str, bytes]) -> Path:
    """Write a release that appears complete, as authors publish it."""
    hidden = directory.with_name(f".{directory.name}")
    hidden.mkdir(parents=True)
    for name, content in files.items():
        (hidden / name).write_bytes(content)
    return hidden.rename(directory)


def read_release(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


class FakeSource:
    """Holds releases in memory and counts how often each was fetched.

    While ``gate`` is not set every fetch waits for it, and ``arrived`` counts those that came; ``failure`` is raised
    once, by the next fetch.
    """

    def __init__(self, releases: Mapping[ReleaseName, Mapping[str, bytes]]) -> None:
        self.releases = {name: dict(files) for name, files in releases.items()}
        self.fetched: list[ReleaseName] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Semaphore(0)
        self.failure: Exception | None = None

    async def list(self) -> tuple[str, ...]:
        return tuple(sorted(name.release for name in self.releases))

    async def digest(self, name: ReleaseName) -> str:
        if name not in self.releases:
            raise ReleaseNotFound(name, "the fake source")
        return content_digest((file, sha256(content).hexdigest()) for file, content in self.releases[name].items())

    async def evidence(self, name: ReleaseName, kind: EnvelopeKind = EnvelopeKind.SIGNATURE) -> Evidence:  # noqa: ARG002
        if name not in self.releases:
            raise ReleaseNotFound(name, "the fake source")
        return Evidence()

    async def read(self, name: ReleaseName, files: Collection[str], limit: int) -> dict[str, bytes]:
        if name not in self.releases:
            raise ReleaseNotFound(name, "the fake source")
        there = self.releases[name]
        if large := [file for file in files if len(there.get(file, b"")) > limit]:
            raise ReleaseBroken(name, large[0], f"is larger than {limit} bytes")
        return {file: there[file] for file in files if file in there}

    async def fetch(self, name: ReleaseName, into: Path) -> None:
        self.fetched.append(name)
        self.arrived.release()
        await self.gate.wait()
        failure, self.failure = self.failure, None
        if failure is not None:
            raise failure
        if name not in self.releases:
            raise ReleaseNotFound(name, "the fake source")
        for file, content in self.releases[name].items():
            (into / file).write_bytes(content)


def gzipped(tar: bytes) -> bytes:
    return zlib.compress(tar, wbits=GZIP)


def tar_of(*members: tuple[str, bytes], change: Callable[[tarfile.TarInfo], None] | None = None) -> bytes:
    """A tar stream of files whose headers ``change`` may modify before they are written."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in members:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            if change is not None:
                change(member)
            tar.addfile(member, io.BytesIO(content))
    return stream.getvalue()
