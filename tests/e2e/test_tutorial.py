"""The demo of README and the tutorials for users work as they are written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import teardown
from clusterstacks.dev.binaries import cache_directory, silent
from clusterstacks.dev.state_directory import StateDirectory
from tests.support.running.doc_pages import CHECKOUT, README, Page, checkout_of_reader, environ_of_reader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def environ_in(home: Path) -> dict[str, str]:
    """Return the variables of a reader with this home, and with the programs of the cache."""
    cache = str(cache_directory(os.environ).parents[1])
    return {**os.environ, "HOME": str(home), "XDG_CACHE_HOME": cache, "XDG_STATE_HOME": str(home)}


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory(tmp_path / "cluster-stacks" / "default")
    yield state
    teardown.down(state, silent)


def test_demo_of_the_readme_prints_what_is_shown(tmp_path: Path) -> None:
    page = Page.read(README, section="Quick start: two commands")
    checkout = checkout_of_reader(tmp_path / "checkout")
    try:
        page.part(page.blocks[:1]).run(checkout, {**os.environ, "XDG_STATE_HOME": str(tmp_path)}, seconds=500)
    finally:
        teardown.down(StateDirectory(tmp_path / "cluster-stacks" / "demo"), silent)


@pytest.mark.usefixtures("state")
def test_every_command_of_the_tutorial_does_what_is_written(tmp_path: Path) -> None:
    page = Page.read("tutorial/first-cluster.md")

    *printed, _ = page.run(CHECKOUT, environ_in(tmp_path), seconds=500)

    assert any("local-demo-1-35-v1" in text for text in printed), "the first release is built"
    assert "deployment.apps/demo-network-controller" in "".join(printed), "the addons are delivered"
    assert "demo-network-agent-health" not in printed[-1], "the second release has that Service no longer"
    assert "poddisruptionbudget.policy/demo-network-controller" in printed[-1]
    assert {path.name for path in tmp_path.iterdir()} <= {".kube"}, "only the cache of kubectl remains"


@pytest.mark.usefixtures("state")
def test_simulated_pods_become_healthy_fail_and_recover_as_it_is_written(tmp_path: Path) -> None:
    tutorial, pods = Page.read("tutorial/first-cluster.md"), Page.read("how-to/simulate-pods.md")
    begin, *rest = pods.blocks
    cluster = next(at for at, block in enumerate(tutorial.blocks) if "cluster.yaml" in block.commands)
    builds = next(at for at, block in enumerate(tutorial.blocks) if "csctl create" in block.commands)
    page = pods.part([begin, *tutorial.blocks[builds : cluster + 1], *rest, tutorial.blocks[-1]])

    *_, failing, _, _ = page.run(CHECKOUT, environ_in(tmp_path), seconds=500)

    assert "CrashLoopBackOff" in failing


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("state")
def test_every_command_of_the_tutorial_about_upgrades_does_what_is_written(tmp_path: Path) -> None:
    checkout = checkout_of_reader(tmp_path / "checkout")
    files = {*checkout.iterdir()}
    environ = {**environ_of_reader(checkout / "kubeconfig"), "XDG_STATE_HOME": str(tmp_path)}

    Page.read("tutorial/upgrade-a-cluster.md").run(checkout, environ, seconds=1200)

    assert [path.name for path in tmp_path.iterdir()] == ["checkout"]
    assert {*checkout.iterdir()} == files
