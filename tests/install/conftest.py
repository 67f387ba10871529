"""A real node with a registry and two builds of the operator's image, for all tests of the session."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import binaries, supervisor, teardown
from clusterstacks.dev.environment import EnvironmentSettings
from clusterstacks.dev.node import node_process
from clusterstacks.dev.node.host_requirements import require_host
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.errors import SpecError
from tests.support.builders.image_builds import built, relabelled
from tests.support.running.node_cluster import FIGURES, FIRST, IMAGE_HOST, SECOND, NodeCluster
from tests.support.servers.registries import RegistryMissing, running_registry
from tools.image.debian import require_programs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.image.pushing import Stored


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that the tests measured."""
    if FIGURES:
        terminalreporter.section("figures")
        for name, figure in FIGURES.items():
            terminalreporter.write_line(f"{name}: {figure}")


@pytest.fixture(scope="session")
def image() -> Stored:
    """Build the image of this checkout; skip where this machine cannot build it or run a node."""
    try:
        require_host()
        require_programs()
    except SpecError as error:
        pytest.skip(error.message)
    return built()


@pytest.fixture(scope="session")
def node(image: Stored, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """Run an environment with a node and without an operator, and push both builds of the image."""
    root = tmp_path_factory.mktemp("node")
    state, storage = StateDirectory(root / "state"), root / "registry"
    storage.mkdir()
    supervisor.detach(EnvironmentSettings(state=state, operator=False, node=True), _report)
    try:
        traces = node_process.read_traces(state)
        assert traces is not None
        with running_registry(storage, address=traces.network.host) as registry:
            cluster = NodeCluster(state, registry, binaries.resolve(["helm", "clusterctl"], report=_report), root)
            cluster.serve_images_of(IMAGE_HOST)
            cluster.push_image(image, FIRST)
            cluster.push_image(relabelled(image, root / SECOND, SECOND), SECOND)
            yield cluster
    except RegistryMissing as error:
        pytest.skip(str(error))
    finally:
        teardown.down(state, _report)
        shutil.rmtree(root, ignore_errors=True)


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
