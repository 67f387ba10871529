"""README: every command is run by a test, and csctl is installed by a user who has nothing but uv or pipx."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.running.doc_pages import CHECKOUT, INSTALLATION, README, Block, Page, environ_of_reader

if TYPE_CHECKING:
    from tests.support.servers.registries import RegistryServer

PAGE = Page.read(README, section="Install csctl")
QUICK_START, CLUSTER, STACK = "Quick start: two commands", "Your first cluster", "Your first stack"
"""Sections of README."""
LONGEST = 900
"""Words of a page for two minutes."""
PIPX = "pipx==1.18.4"
SECONDS = 900
"""Time for one installation on a busy machine; pip takes 40 s of CPU."""
UV = Path(sys.executable).with_name("uv")


@pytest.fixture
def user(tmp_path: Path) -> dict[str, str]:
    """The environment of a user with uv and pipx; their caches are those of this machine."""
    home, programs = tmp_path / "home", tmp_path / "programs"
    home.mkdir()
    programs.mkdir()
    (programs / "uv").symlink_to(UV)
    caches = {"UV_CACHE_DIR": str(Path.home() / ".cache/uv"), "PIP_CACHE_DIR": str(Path.home() / ".cache/pip")}
    own = ("XDG_", "UV_TOOL_", "PIPX_", "VIRTUAL_ENV", "PYTHON")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    others = [one for one in environ["PATH"].split(os.pathsep) if one != str(Path(sys.executable).parent)]
    path = os.pathsep.join([str(home / ".local/bin"), str(programs), *others])
    quick = {"UV_SYSTEM_CERTS": "1", "PIP_COMPILE": "0"}
    environ = {**quick, **environ, **caches, "HOME": str(home), "PATH": path}
    there = {**environ, "UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(programs)}
    subprocess.run([UV, "tool", "install", "--quiet", PIPX], env=there, check=True)
    return environ


@pytest.mark.regression("U-33")
def test_every_command_of_the_readme_is_run_by_a_test() -> None:
    demo, checks = Page.read(README, section=QUICK_START).blocks  # tests/e2e/test_tutorial.py runs the demo
    cluster = Page.read(README, section=CLUSTER).blocks
    stack, install = (Page.read(README, section=name).blocks for name in (STACK, INSTALLATION))  # tests/install

    assert Page.read(README).blocks == (demo, checks, *PAGE.blocks, *cluster, *stack, *install)
    assert checks.commands in (CHECKOUT / ".ci/run").read_text().splitlines(keepends=True)
    run = Page.read("how-to/answer-a-refusal.md").blocks  # by tests/e2e/test_how_tos.py
    assert {one.commands for one in cluster} <= {one.commands for one in run}


def test_readme_can_be_read_in_two_minutes() -> None:
    assert len((CHECKOUT / README.removeprefix("../")).read_text().split()) <= LONGEST


@pytest.mark.regression("U-1")
@pytest.mark.regression("U-2")
@pytest.mark.regression("U-3")
def test_a_first_stack_is_built_signed_and_published(tmp_path: Path, registry: RegistryServer) -> None:
    page = Page.read(README, {"registry.example.org": registry.host}, section=STACK)

    (told,) = page.run(tmp_path, {**environ_of_reader(tmp_path / "kubeconfig"), "HOME": str(tmp_path)})

    assert "local-shop-1-35-v1 is signed by release.key.pub" in told


@pytest.mark.regression("U-33")
def test_csctl_can_be_installed_with_uv_and_with_pipx() -> None:
    assert [block.commands.split()[0] for block in PAGE.blocks] == ["uv", "pipx"]
    assert PAGE.others == {}


@pytest.mark.regression("U-33")
@pytest.mark.timeout(2 * SECONDS)
@pytest.mark.parametrize("block", PAGE.blocks, ids=lambda block: block.commands.split()[0])
def test_an_installed_csctl_runs_and_is_a_plugin_of_kubectl(block: Block, user: dict[str, str]) -> None:
    PAGE.part([block]).run(CHECKOUT, user, seconds=SECONDS)

    for program in ("csctl", "kubectl-clusterstacks"):
        command = (Path(user["HOME"], ".local/bin", program), "version", "--client")
        done = subprocess.run(command, env=user, capture_output=True, text=True, check=True)
        assert done.stdout.startswith("csctl version: ")
