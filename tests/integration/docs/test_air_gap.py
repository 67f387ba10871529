"""The commands of "install without internet access", with a registry on each side of the gap."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.builders.image_layouts import push_image
from tests.support.running.doc_pages import Page
from tests.support.servers.registries import PASSWORD

if TYPE_CHECKING:
    from tests.support.servers.registries import RegistryServer

COMMANDS = """
csctl init local/shop/1-35
csctl create providers/local/shop/1-35 --remote none
csctl sign --new-key release.key
csctl sign .release/local-shop-1-35-v1 --key release.key
csctl push .release/local-shop-1-35-v1 {repository}
"""


def test_commands_of_the_page_carry_everything_to_the_isolated_side(
    tmp_path: Path, registry: RegistryServer, secure_registry: RegistryServer
) -> None:
    connected = f"{registry.host}/docs/connected"
    page = Page.read(
        "how-to/air-gap.md",
        {
            "registry.example.org/kaas/stacks:": f"{connected}/stacks:",
            "registry.example.org/kaas/cluster-stack-operator:": f"{connected}/cluster-stack-operator:",
            "mirror.example.net/kaas": f"{secure_registry.host}/docs/isolated",
            "mirror.example.net": secure_registry.host,
        },
    )
    (tmp_path / "ca.crt").write_text(secure_registry.ca)
    (tmp_path / "password").write_text(PASSWORD)
    environ = {
        "HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "SSL_CERT_FILE": str(tmp_path / "ca.crt"),
    }
    asyncio.run(push_image(registry, "docs/connected/cluster-stack-operator", "v1"))
    script = COMMANDS.format(repository=f"{connected}/stacks")
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, env=environ, check=True, capture_output=True)

    # The last block, the installation, is tested with those of the other installation pages.
    page.part([one for one in page.blocks if "--export" not in one.commands]).run(tmp_path, environ)
