"""1 GiB into a real Glance: by the official client, and by ORC from a web server and from the operator.

Time ends when the image is active, and for ORC when the release is ready. CPU and memory are those of the programs that
are named; Keystone, Glance, the web server and the API server are on the same machine.
"""

from __future__ import annotations

import hashlib
import http.server
import os
import tempfile
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.fleet import cpu_seconds
from benchmarks.processes import peak, run
from benchmarks.report import Figure, show
from clusterstacks.dev import openstack, process_records, supervisor, teardown
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.state_directory import StateDirectory
from tests.openstack.conftest import Cloud, Tenant
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from collections.abc import Iterator

RUNS = 3
SIZE = 1 << 30
PIECE = 1 << 20
SECONDS = 900
PROGRAMS = ("orc", "operator")


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def measure(cloud: Cloud, root: Path, url: str) -> Iterator[Figure]:
    """Upload the file in all ways, in turns; each image is deleted before the next one."""
    file, runs = root / "image", dict[tuple[str, str], list[float]]()
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    client, clouds = openstack.client(cloud.state)
    environ = {**os.environ, "OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": openstack.CLOUD}
    formats = ("--disk-format=raw", "--container-format=bare", f"--file={file}")
    for turn in range(RUNS):
        spent = run([client, "image", "create", f"image-{turn}", *formats], environ)
        cloud.client("image", "delete", f"image-{turn}")
        note(runs, "openstack image create", spent.seconds, client=(spent.cpu, spent.memory))
        for way, source in (("url", f"{url}/image"), ("artifact", file)):
            one = Tenant(cloud, f"{way}{turn}", Kubectl(cloud.state.kubeconfig, f"{way}{turn}", SECONDS))
            one.kubectl("create", "namespace", one.name)
            one.add_secret()
            one.create_listed({one.name: source}, digest, root)
            seconds, programs = released(one)
            note(runs, way, seconds, **programs)
            one.kubectl("delete", "clusterstack", one.name)
            one.kubectl("wait", "--for=delete", "images.openstack.k-orc.cloud", "--all", f"--timeout={SECONDS}s")
    for (what, unit), found in runs.items():
        yield Figure(what, found, unit)


def released(one: Tenant) -> tuple[float, dict[str, tuple[float, int]]]:
    """Offer the release until it is ready; return the time, and CPU time and highest memory of ORC and operator."""
    pids = {name: record.pid for name in PROGRAMS if (record := process_records.read(one.cloud.state.records, name))}
    before = {name: cpu_seconds(pid) for name, pid in pids.items()}
    for pid in pids.values():
        Path(f"/proc/{pid}/clear_refs").write_text("5")  # resets the highest memory
    began, release = time.monotonic(), f"clusterstackrelease/openstack-{one.name}-1-35-v1"
    one.subscribe("v1")
    one.kubectl("wait", "--for=create", release)
    one.kubectl("wait", "--for=condition=Ready", release, f"--timeout={SECONDS}s")
    seconds = time.monotonic() - began
    return seconds, {name: (cpu_seconds(pid) - before[name], peak(pid)) for name, pid in pids.items()}


def note(runs: dict[tuple[str, str], list[float]], way: str, seconds: float, **programs: tuple[float, int]) -> None:
    """Add one run; of each program the CPU time in seconds and the memory in bytes."""
    runs.setdefault((f"{way}: time", "s"), []).append(seconds)
    for program, (cpu, memory) in programs.items():
        runs.setdefault((f"{way}: CPU of {program}", "s"), []).append(cpu)
        runs.setdefault((f"{way}: memory of {program}", "MB"), []).append(memory / 1e6)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        with (root / "image").open("wb") as file:
            for _ in range(SIZE // PIECE):
                file.write(os.urandom(PIECE))
        (root / "releases").mkdir()
        state = StateDirectory(root / "state")
        supervisor.detach(EnvironmentSettings(state=state, releases=root / "releases", openstack=True), print)
        handler = partial(Silent, directory=directory)
        try:
            with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                url = f"http://127.0.0.1:{server.server_address[1]}"
                show("Node images", list(measure(Cloud(state, root / "releases"), root, url)))
                server.shutdown()
        finally:
            teardown.down(state, print)


if __name__ == "__main__":
    main()
