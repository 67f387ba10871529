"""README: csctl is installed in the home of a user who has nothing but uv or pipx."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.doc_pages import CHECKOUT, README, Block, Page

PAGE = Page.read(README, section="Install csctl")
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
