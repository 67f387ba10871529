"""One local environment with Keystone, Glance and ORC for all tests of a session, and a web server that misbehaves."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev import openstack, process_records, restart, supervisor, teardown
from clusterstacks.dev.demo.scenario import examples
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.yaml import dump, load
from tests.support.running.kubectl import Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

IMAGE = b"A node image.".ljust(1 << 20)


@dataclass(frozen=True, slots=True)
class Cloud:
    """The environment, with the official client of OpenStack."""

    state: StateDirectory
    releases: Path

    def client(self, *arguments: str) -> str:
        """Run the client as the user of the cloud."""
        client, clouds = openstack.client(self.state)
        environment = {"OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": openstack.CLOUD}
        return subprocess.run(
            [client, *arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def image(self, identity: str) -> dict[str, Any]:
        """Read an image of Glance."""
        found: dict[str, Any] = json.loads(self.client("image", "show", identity, "--format=json"))
        return found

    def images(self) -> list[str]:
        """List the ids of all images of Glance."""
        return [one["ID"] for one in json.loads(self.client("image", "list", "--format=json"))]


@dataclass(frozen=True, slots=True)
class Tenant:
    """A namespace with a ClusterStack, each of whose releases has the same node image."""

    cloud: Cloud
    name: str
    kubectl: Kubectl

    def add_secret(self, *, password: str = "") -> None:
        """Write the Secret with the clouds.yaml of the environment, or with another password."""
        clouds = load((self.cloud.state.root / "openstack/clouds.yaml").read_bytes())
        if password:
            clouds["clouds"][openstack.CLOUD]["auth"]["password"] = password
        metadata = {"name": openstack.CLOUD}
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "stringData": {"clouds.yaml": dump(clouds)},
        }
        self.kubectl("apply", "-f-", manifest=secret)

    def publish(self, version: str, url: str, sha256: str, scratch: Path, *, image: str = "") -> None:
        """Build a release whose class chart has an Image with this URL and hash."""
        values = {"image": {"name": image or self.name, "url": url, "sha256": sha256}}
        stack = examples() / "stacks" / "openstack"
        overlay = scratch / f"{self.name}-{version}"
        (overlay / "cluster-class").mkdir(parents=True)
        for path in ("csctl.yaml", "cluster-class/Chart.yaml"):
            text = (stack / path).read_text().replace("openstack-demo", f"openstack-{self.name}")
            (overlay / path).write_text(text.replace("clusterStackName: demo", f"clusterStackName: {self.name}"))
        (overlay / "cluster-class/values.yaml").write_text(dump(values))
        versions = {"cluster_stack": version, "cluster_addon": version, "node_image": version}
        build_release(stack, self.cloud.releases, **versions, changes=overlay)

    def create_listed(self, images: Mapping[str, str | Path], sha256: str, scratch: Path) -> None:
        """Create v1 as an author does, with node-images.yaml: images by name, with a URL and this hash, or as files."""
        stack = shutil.copytree(examples() / "stacks" / "openstack", scratch / self.name)
        (stack / "cluster-class/templates/image.yaml").unlink()
        for file in ("cluster-class/Chart.yaml", "csctl.yaml"):
            text = (stack / file).read_text().replace("openstack-demo", f"openstack-{self.name}")
            (stack / file).write_text(text.replace("clusterStackName: demo", f"clusterStackName: {self.name}"))
        entries = []
        for name, image in images.items():
            options = {"name": name, "disk_format": "raw", "container_format": "bare"}
            entry = {"url": f"artifact:{name}", "createOpts": options}
            if isinstance(image, Path):
                (stack / "node-images" / name).hardlink_to(image)
            else:
                entry |= {"url": image, "checksum": f"sha256:{sha256}"}
            entries.append(entry)
        api = "openstack.infrastructure.clusterstack.x-k8s.io/v1alpha1"
        (stack / "node-images/config.yaml").write_text(dump({"apiVersion": api, "openStackNodeImages": entries}))
        csctl = Path(sys.executable).with_name("csctl")
        subprocess.run([csctl, "create", stack, "--remote=none", f"--output={self.cloud.releases}"], check=True)

    def subscribe(self, *versions: str, **spec: object) -> None:
        """Offer these versions."""
        self.kubectl("apply", "-f-", manifest=self.stack(*versions, **spec))

    def stack(self, *versions: str, **spec: object) -> dict[str, Any]:
        """Return the ClusterStack that offers these versions, without a provider object unless ``spec`` has one."""
        spec = {
            "provider": "openstack",
            "name": self.name,
            "kubernetesVersion": "1.35",
            "channel": "stable",
            "versions": list(versions),
            **(spec or {"noProvider": True}),
        }
        kinds = {"apiVersion": "clusterstack.x-k8s.io/v1alpha1", "kind": "ClusterStack"}
        return {**kinds, "metadata": {"name": self.name}, "spec": spec}

    def condition(self, kind: str, version: str = "v1") -> dict[str, Any]:
        """Read a condition of a release; empty without one."""
        found = self.kubectl.get("clusterstackreleases")["items"]
        name = f"openstack-{self.name}-1-35-{version}"
        conditions = [one for item in found if item["metadata"]["name"] == name for one in conditions_of(item)]
        return next((one for one in conditions if one["type"] == kind), {})

    def image(self, name: str = "") -> dict[str, Any]:
        """Read an Image, by default that of the class."""
        return self.kubectl.get("images.openstack.k-orc.cloud", name or self.name)

    async def says(self, kind: str, words: str, seconds: float = 60) -> str:
        """Wait until the message of a condition contains these words, and return it."""

        async def look() -> str:
            seen = self.condition(kind)
            assert words in seen.get("message", ""), seen
            return str(seen["message"])

        return await eventually(look, seconds=seconds, about=f"{words!r} of {self.name}")

    async def ready(self, version: str = "v1", seconds: float = 90) -> None:
        """Wait until a release is ready."""

        async def look() -> bool:
            seen = self.condition("Ready", version)
            assert seen.get("status") == "True", seen
            return True

        await eventually(look, seconds=seconds, about=f"Ready of {self.name}")


def conditions_of(item: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = item.get("status", {}).get("conditions", [])
    return found


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    root = tmp_path_factory.mktemp("openstack")
    releases = root / "releases"
    releases.mkdir()
    state = StateDirectory(root / "state")
    supervisor.detach(EnvironmentSettings(state=state, releases=releases, openstack=True), print)
    try:
        yield Cloud(state, releases)
    finally:
        teardown.down(state, print)


@contextmanager
def without_operator(cloud: Cloud) -> Iterator[list[str]]:
    """End the operator of the environment until the end of the context; yield its arguments."""
    record = process_records.read(cloud.state.records, "operator")
    assert record
    arguments = Path(f"/proc/{record.pid}/cmdline").read_text().split("\0")[3:-1]  # after python -m MODULE
    process_records.end([record])
    yield arguments
    restart.ask(cloud.state, restart.RestartRequest("operator"))


class Origin(http.server.ThreadingHTTPServer):
    """A web server with the image at /image and half of it at /truncated, whose /late is missing at first.

    /moved redirects to the image, and /slow sends a byte of it a second.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.files = {"/image": IMAGE, "/slow": IMAGE, "/truncated": IMAGE[: len(IMAGE) // 2]}
        self.ends = threading.Event()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Origin

    def do_GET(self) -> None:
        content = self.server.files.get(self.path)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", f"{self.server.url}/image")
        else:
            self.send_response(200 if content else 404)
        self.end_headers()  # without Content-Length only the end of the connection ends the file
        with suppress(ConnectionError):
            for start in range(len(IMAGE) if self.path == "/slow" else 0):
                self.wfile.write(IMAGE[start : start + 1])
                if self.server.ends.wait(1):
                    return
            self.wfile.write(content or b"<h1>Not found</h1>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def origin() -> Iterator[Origin]:
    with Origin() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.ends.set()
            server.shutdown()
            thread.join()


@pytest.fixture
def tenant(cloud: Cloud) -> Iterator[Callable[[str], Tenant]]:
    """Create namespaces by their names; at the end of the test, their releases are gone with their images."""
    made: list[Tenant] = []

    def make(name: str) -> Tenant:
        kubectl = Kubectl(cloud.state.kubeconfig, name)
        kubectl("create", "namespace", name)
        made.append(Tenant(cloud, name, kubectl))
        return made[-1]

    yield make
    for one in made:
        one.kubectl("delete", "clusterstacks", "--all", "--timeout=120s")
        one.kubectl("wait", "--for=delete", "images.openstack.k-orc.cloud", "--all", "--timeout=120s")
