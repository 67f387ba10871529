"""Pages for authors whose commands need no cluster."""

from __future__ import annotations

import subprocess
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.support.running.doc_pages import Page, environ_of_reader

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", ["how-to/install-csctl.md", "how-to/use-an-editor.md"])
def test_commands_of_the_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    Page.read(page).run(tmp_path, environ_of_reader(tmp_path / "kubeconfig"))


def test_programs_of_the_local_environment_are_found(tmp_path: Path) -> None:
    page = Page.read("how-to/local-binaries.md", {".venv/bin/csctl": "csctl"})

    (printed,) = page.run(tmp_path, environ_of_reader(tmp_path / "kubeconfig"))

    assert "kube-apiserver" in printed


def test_node_images_are_listed_built_and_released_as_the_page_shows(tmp_path: Path) -> None:
    page, environ = Page.read("how-to/publish-node-images.md"), environ_of_reader(tmp_path / "kubeconfig")
    subprocess.run(["csctl", "init", "openstack/demo/1-35"], cwd=tmp_path, env=environ, check=True)
    stack = tmp_path / "providers/openstack/demo/1-35"
    for template in stack.glob("cluster-class/templates/*.yaml"):
        template.write_text(template.read_text().replace("To be filled in", ""))
    (stack / "node-images").mkdir()
    (listed, published), (script, _) = page.others["yaml"], page.others["sh"]
    (stack / "node-images/config.yaml").write_text(listed)
    (stack / "node-images/build").write_text(script)

    page.run(tmp_path, environ)

    entry = yaml.safe_load(published)
    (stack / "node-images/config.yaml").write_text(listed.partition("- imageDir")[0] + published)
    (stack / "node-images" / entry[0]["url"].removeprefix("artifact:")).write_bytes(b"image")
    subprocess.run(
        ["csctl", "create", stack, "--remote", "none", "-d", "published"], cwd=tmp_path, env=environ, check=True
    )
    assert (tmp_path / "published/node-images" / sha256(b"image").hexdigest()).read_bytes() == b"image"
