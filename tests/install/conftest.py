"""A real node with a registry and two builds of the operator's image, for all tests of the session."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import binaries
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.errors import SpecError
from tests.support.builders.image_builds import built, relabelled
from tests.support.node.environment import running_node
from tests.support.node.host_requirements import require_host
from tests.support.running.node_cluster import FIGURES, FIRST, IMAGE_HOST, SECOND, NodeCluster
from tests.support.servers.registries import RegistryMissing, running_registry
from tools.image.debian import require_programs

if TYPE_CHECKING:
    from collections.abc import Iterator


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures that the tests measured."""
    if FIGURES:
        terminalreporter.section("figures")
        for name, figure in FIGURES.items():
            terminalreporter.write_line(f"{name}: {figure}")


@pytest.fixture(scope="session")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """Run a node, and push two builds of the image of this checkout; skip where this machine cannot do that.

    At the end it asserts that nothing is left on this machine.
    """
    root = tmp_path_factory.mktemp("node")
    state, storage = StateDirectory(root / "state"), root / "registry"
    storage.mkdir()
    try:
        host = require_host(binaries.cache_directory(), root)
        require_programs()
    except SpecError as error:
        pytest.skip(error.message)
    image = built()
    try:
        with (
            running_node(state, host, _report) as environment,
            running_registry(storage, address=environment.network.host) as registry,
        ):
            programs = binaries.resolve(["helm", "clusterctl"], report=_report)
            cluster = NodeCluster(environment, registry, programs, root)
            cluster.serve_images_of(IMAGE_HOST)
            cluster.push_image(image, FIRST)
            cluster.push_image(relabelled(image, root / SECOND, SECOND), SECOND)
            yield cluster
    except RegistryMissing as error:
        pytest.skip(str(error))
    assert environment.traces() == []
    shutil.rmtree(root)


def _report(line: str) -> None:
    sys.stderr.write(f"{line}\n")
