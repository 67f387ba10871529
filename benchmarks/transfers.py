"""Pushing and pulling against a real registry: a large blob, a large release, many small ones; time and memory.

Everything is on the loopback of one machine. A *plain copy* sends a file of the same size through one TCP connection to
another process, which writes it to a file. A *plain client* moves the same blobs to and from the registry by
``http.client``, one request after the other, and verifies nothing: what the registry allows. Each measurement is a
process of its own; memory is the most it had resident, from ``/proc``.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import sys
import tempfile
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.movers import PIECE_BYTES
from benchmarks.processes import Spent, run
from benchmarks.report import Figure, show
from clusterstacks.release.open import open_directory
from clusterstacks.release.sources.oci_artifact import compose, created_at
from tests.support.builders.releases import staged_release, write_release
from tests.support.builders.stacks import TinyStack
from tests.support.servers.registries import running_registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.support.servers.registries import RegistryServer

RUNS = 5
BLOB_BYTES = 500_000_000
FILE_BYTES = 58_000_000
"""Two of these and the charts are a release of 116 MB; 128 MiB are allowed."""
RELEASES = 200

Runs = dict[str, list[Spent]]
Commands = dict[str, list[str]]


def receive(listener: socket.socket, into: Path) -> None:
    """Take files, one after the other; runs in a process of its own."""
    while True:
        connection, _ = listener.accept()
        with connection, into.open("wb") as file:
            while piece := connection.recv(PIECE_BYTES):
                file.write(piece)
            connection.sendall(b"!")


@contextmanager
def receiver(into: Path) -> Iterator[int]:
    """Run the other end of the plain copy; gives its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = get_context("fork").Process(target=receive, args=(listener, into), daemon=True)
        process.start()
        try:
            yield listener.getsockname()[1]
        finally:
            process.terminate()
            process.join()


class Bench:
    """A registry, the other end of the plain copy, and room on disk."""

    def __init__(self, root: Path, registry: RegistryServer, port: int) -> None:
        self.root = root
        self.registry = registry
        self.port = port

    def blob(self, turn: int) -> Commands:
        """Return the movements of a large blob; every turn has another one."""
        file = self.root / "blob"
        file.write_bytes(os.urandom(PIECE_BYTES) * (BLOB_BYTES // PIECE_BYTES))
        digest = f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}"
        other = self.root / "other"
        other.write_bytes(file.read_bytes()[::-1])
        others = f"sha256:{hashlib.sha256(other.read_bytes()).hexdigest()}"
        place = f"{self.registry.host}/blob{turn}"
        size = str(file.stat().st_size)
        return {
            "plain copy": ["copy", str(file), str(self.port)],
            "plain client, push": ["plain_push_blob", place, str(other), others],
            "push": ["push_blob", place, str(file)],
            "plain client, pull": ["plain_pull_blob", place, str(self.root / "plain"), digest],
            "pull": ["pull_blob", place, str(self.root / "pulled"), digest, size],
        }

    def releases(self, turn: int) -> Commands:
        """Return the movements of many small releases."""
        releases, manifests = self.root / "releases", self.root / "manifests"
        for version in range(1, RELEASES + 1):
            name = TinyStack(f"tiny{turn}").release(f"v{version}")
            directory = write_release(releases / name.release, staged_release(name))
            (manifests / name.release).write_bytes(compose(open_directory(directory), created_at({})).raw)
        place, plain = f"{self.registry.host}/small{turn}", f"{self.registry.host}/plain{turn}"
        names = " ".join(sorted(path.name for path in releases.iterdir()))
        return {
            "plain client, push": ["plain_push_releases", plain, str(releases), str(manifests)],
            "push": ["push_releases", place, str(releases)],
            "plain client, pull": ["plain_pull_releases", place, str(self.root / "plain"), names],
            "pull": ["pull_releases", place, str(self.root / "pulled")],
        }

    def clear(self) -> None:
        for path in self.root.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        for name in ("releases", "manifests"):
            (self.root / name).mkdir()


def measure(bench: Bench) -> Iterator[Figure]:
    blobs, small, large = {}, {}, {}  # type: tuple[Runs, Runs, Runs]
    for turn in range(RUNS):
        for found, commands in ((blobs, bench.blob), (small, bench.releases)):
            bench.clear()
            for name, arguments in commands(turn).items():
                spent = run([sys.executable, "-m", "benchmarks.movers", *arguments])
                found.setdefault(name, []).append(spent)
        bench.clear()
        for name, command in csctl(bench, turn).items():
            large.setdefault(name, []).append(run(command))
    yield from figures(f"{BLOB_BYTES // 10**6} MB", blobs, BLOB_BYTES)
    yield from figures(f"{RELEASES} releases", small)
    for name, runs in large.items():
        yield Figure(f"{name}: time", [one.seconds for one in runs], "s")
        yield Figure(f"{name}: memory", [one.memory / 1e6 for one in runs], "MB")


def csctl(bench: Bench, turn: int) -> Commands:
    """Return the commands that move a release of nearly the allowed size."""
    name = TinyStack("large").release(f"v{turn + 1}")
    files = {f"node-image-{part}.raw": os.urandom(FILE_BYTES) for part in "ab"}
    directory = write_release(bench.root / "releases" / name.release, {**staged_release(name), **files})
    program, place = str(Path(sys.executable).with_name("csctl")), f"{bench.registry.host}/large"
    size = f"{2 * FILE_BYTES // 10**6} MB"
    return {
        f"csctl push of a release of {size}": [program, "push", str(directory), place],
        f"csctl pull of a release of {size}": [program, "pull", f"{place}:{name}", "-o", str(bench.root / "pulled")],
    }


def figures(what: str, runs: Mapping[str, list[Spent]], size: int = 0) -> Iterator[Figure]:
    seconds = {name: [float(one.printed) for one in spent] for name, spent in runs.items()}
    for name, spent in runs.items():
        yield Figure(f"{name}, {what}: time", seconds[name], "s")
        if size:
            yield Figure(f"{name}, {what}: throughput", [size / 1e6 / one for one in seconds[name]], "MB/s")
        yield Figure(f"{name}, {what}: CPU", [one.cpu for one in spent], "s")
        yield Figure(f"{name}, {what}: memory", [one.memory / 1e6 for one in spent], "MB")
    for direction in ("push", "pull"):
        for other in ("plain copy", f"plain client, {direction}"):
            if other in seconds:
                ratios = [ours / theirs for ours, theirs in zip(seconds[direction], seconds[other], strict=True)]
                yield Figure(f"{direction} against {other}, {what}: time", ratios, "x")


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        kept, work = Path(directory, "registry"), Path(directory, "work")
        kept.mkdir()
        work.mkdir()
        with running_registry(kept) as registry, receiver(Path(directory, "received")) as port:
            show("Pushing and pulling", list(measure(Bench(work, registry, port))))


if __name__ == "__main__":
    main()
