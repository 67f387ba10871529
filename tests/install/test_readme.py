"""README: the operator is built, pushed to a registry and installed on a real node, by the commands of the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.running.doc_pages import CHECKOUT, INSTALLATION, README, Block, Page, environ_of_reader
from tests.support.running.node_cluster import FIRST, NAME
from tests.support.servers.registries import running_registry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.running.node_cluster import NodeCluster

pytestmark = pytest.mark.timeout(1800)
SECONDS = 600
"""Time for the commands of a block on a busy machine; 'csctl install --wait' takes half of it at most."""
REMOVE = Block("csctl uninstall --delete-crds --delete-namespace\n")


@pytest.fixture
def host(node: NodeCluster, tmp_path: Path) -> Iterator[str]:
    """The registry of the node at an address of this machine, where csctl needs no option for plain HTTP."""
    (tmp_path / "storage").symlink_to(node.registry.storage)
    with running_registry(tmp_path) as registry:
        node.serve_images_of(registry.host)
        yield registry.host


@pytest.mark.regression("U-33")
def test_the_commands_of_the_readme_install_the_operator(node: NodeCluster, host: str, tmp_path: Path) -> None:
    page = Page.read(README, {"registry.example.org": host}, section=INSTALLATION)
    _, push, install = page.blocks  # the first one has built the image of all tests
    administrator = environ_of_reader(node.state.kubeconfig)
    directory = tmp_path / "directory"
    directory.mkdir()

    (pushed,) = page.part([push]).run(CHECKOUT, administrator, seconds=SECONDS)
    page.part([install]).run(directory, administrator, seconds=SECONDS)

    assert page.others == {}
    assert f"{host}/kaas/{NAME}:{FIRST}@sha256:" in pushed
    pods = node.pods()
    assert [one["status"]["phase"] for one in pods] == ["Running", "Running"]
    assert {one["spec"]["containers"][0]["image"] for one in pods} == {f"{host}/kaas/{NAME}:{FIRST}"}
    works = Block("csctl install --check\n", "...\nwebhooks ... ok ... reachable by the API server\n")
    page.part([works, REMOVE]).run(directory, administrator, seconds=SECONDS)
