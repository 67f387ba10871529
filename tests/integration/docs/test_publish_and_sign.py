"""The commands of "publish and sign releases", with real registries, a double of GitHub and a web server."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.support.fakes.github import OWNER, REPOSITORY, TOKEN, GitHubDouble
from tests.support.running.doc_pages import Page
from tests.support.servers.static_server import StaticServer

if TYPE_CHECKING:
    from tests.support.servers.registries import RegistryServer

PAGE = "how-to/publish-and-sign.md"
STACK = "local/shop/1-35"


@pytest.fixture
def author(tmp_path: Path, secure_registry: RegistryServer) -> dict[str, str]:
    """The environment after the tutorial and ``docker login``; the home directory has the stack."""
    login = base64.b64encode(f"{secure_registry.username}:{secure_registry.password}".encode()).decode()
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {secure_registry.host: {"auth": login}}}))
    (tmp_path / "ca.crt").write_text(secure_registry.ca)
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SSL_CERT_FILE": str(tmp_path / "ca.crt"),
    }
    subprocess.run(["csctl", "init", STACK], cwd=tmp_path, env=environ, check=True, capture_output=True)
    return environ


async def test_commands_of_the_page_print_the_documented_output(
    tmp_path: Path, author: dict[str, str], secure_registry: RegistryServer, registry: RegistryServer
) -> None:
    async with GitHubDouble.started() as github, StaticServer.started(tmp_path / "www") as server:
        page = Page.read(
            PAGE,
            {
                "registry.example.org/kaas/stacks": f"{secure_registry.host}/docs/publish",
                "registry.example.org": secure_registry.host,
                "mirror.example.net": f"{registry.host}/docs",
                "https://releases.example.org/stacks": server.url,
                "GIT_ORG_NAME=example-org GIT_REPOSITORY_NAME=cluster-stacks": f"GIT_ORG_NAME={OWNER} "
                f"GIT_REPOSITORY_NAME={REPOSITORY} GIT_API_URL={github.url}",
                "example-org/cluster-stacks": f"{OWNER}/{REPOSITORY}",
                "the-token": TOKEN,
            },
        )

        await asyncio.to_thread(page.run, tmp_path, author)

    assert (tmp_path / "images.txt").read_text() == "", "the stack names no image"


@pytest.mark.parametrize("way", ["unsigned", "signed"])
def test_documented_ci_steps_publish_every_stack(
    tmp_path: Path, author: dict[str, str], secure_registry: RegistryServer, way: str
) -> None:
    repository = f"{secure_registry.host}/docs/ci-{way}"
    page = Page.read(
        PAGE, {"registry.example.org/kaas/stacks": repository, "registry.example.org": secure_registry.host}
    )
    workflow, signing = (yaml.safe_load(text) for text in page.others["yaml"] if "csctl create" in text)
    job = workflow["jobs"]["release"]
    *steps, publishing = [step["run"] for step in job["steps"] if "run" in step]
    subprocess.run(["csctl", "sign", "--new-key", "key"], cwd=tmp_path, env=author, check=True, capture_output=True)
    settings = {
        **author,
        **job["env"],
        "OCI_USERNAME": secure_registry.username,
        "OCI_PASSWORD": secure_registry.password,
        "SIGNING_KEY": (tmp_path / "key").read_text(),
    }
    check = (
        f"csctl verify {repository}:local-shop-1-35-v1 --key key.pub"
        if way == "signed"
        else "csctl list | grep local-shop-1-35-v1"
    )

    # As GitHub runs them: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax, "shell".
    for script in (*steps, signing[0]["run"] if way == "signed" else publishing, check):
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=tmp_path,
            env=settings,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
