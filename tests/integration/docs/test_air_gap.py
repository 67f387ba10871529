"""The commands of "install without internet access", with a registry on each side of the gap."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.binaries import resolve
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.credentials import RegistryCredentials
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from tests.support.builders.images import push_image
from tests.support.running.doc_pages import CHECKOUT, Page
from tests.support.servers.registries import PASSWORD, USERNAME

if TYPE_CHECKING:
    from tests.support.servers.registries import RegistryServer

COMMANDS = """
csctl init local/shop/1-35
cat > providers/local/shop/1-35/cluster-addon/info/templates/pod.yaml <<'YAML'
apiVersion: v1
kind: Pod
metadata: {{name: web, namespace: default}}
spec: {{containers: [{{name: web, image: "{image}"}}]}}
YAML
csctl create providers/local/shop/1-35 --remote none
csctl sign --new-key release.key
csctl sign .release/local-shop-1-35-v1 --key release.key
csctl push .release/local-shop-1-35-v1 {repository}
"""


def test_commands_of_the_page_carry_everything_to_the_isolated_side(
    tmp_path: Path, registry: RegistryServer, secure_registry: RegistryServer
) -> None:
    """The commands of crane run where it is installed; those of all other programs always."""
    connected, isolated = f"{registry.host}/docs/connected", f"{secure_registry.host}/docs/isolated"
    page = Page.read(
        "how-to/air-gap.md",
        {
            "registry.example.org/kaas/stacks:": f"{connected}/stacks:",
            "registry.example.org/kaas/cluster-stack-operator:": f"{connected}/cluster-stack-operator:",
            # A repository cannot contain the port that the connected registry has here.
            "mirror.example.net/kaas/$image": f"{isolated}/${{image#*/}}",
            "mirror.example.net/kaas": isolated,
            "mirror.example.net": secure_registry.host,
        },
    )
    (tmp_path / "ca.crt").write_text(secure_registry.ca)
    (tmp_path / "password").write_text(PASSWORD)
    shutil.copytree(CHECKOUT / "charts", tmp_path / "charts")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(resolve(["helm"])["helm"].path)
    programs = [str(tmp_path / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    environ = {"HOME": str(tmp_path), "PATH": os.pathsep.join(programs), "SSL_CERT_FILE": str(tmp_path / "ca.crt")}
    operator = asyncio.run(push_image(registry, "docs/connected/cluster-stack-operator", "v1"))
    web = asyncio.run(push_image(registry, "docs/connected/web", "1.0"))
    script = COMMANDS.format(repository=f"{connected}/stacks", image=f"{connected}/web:1.0")
    subprocess.run(["bash", "-euc", script], cwd=tmp_path, env=environ, check=True, capture_output=True)
    crane = shutil.which("crane")

    # The last block, the installation, is tested with those of the other installation pages.
    blocks = [one for one in page.blocks if "--export" not in one.commands and (crane or "crane" not in one.commands)]
    page.part(blocks).run(tmp_path, environ)

    listed = (tmp_path / "carried" / "images.txt").read_text().splitlines()
    assert listed[0] == f"{connected}/web:1.0"
    if crane:
        there = "docs/isolated/docs/connected"
        found = asyncio.run(digests(secure_registry, f"{there}/web:1.0", f"{there}/cluster-stack-operator:v1"))
        assert found == [web, operator]


async def digests(server: RegistryServer, *images: str) -> list[str | None]:
    """Return the digests of images in a registry with a user."""
    async with HTTPClient(ca=server.ca) as web:
        credentials = RegistryCredentials(USERNAME, PASSWORD)
        places = [image.rpartition(":") for image in images]
        return [await Registry(web, Reference(server.host, place), credentials).head(tag) for place, _, tag in places]
