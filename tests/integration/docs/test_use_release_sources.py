"""The commands of "use release sources", with the real operator, API server, registry and kubectl."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from clusterstacks.dev.binaries import resolve
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION, SOURCE_CREDENTIALS_LABEL, Kind
from clusterstacks.model.kinds.source import SourceSpec
from clusterstacks.operator.settings import parse_settings
from tests.support.builders.remote_repositories import repository
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.running.doc_pages import Page
from tests.support.running.world import is_ready

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World
    from tests.support.servers.registries import RegistryServer

PAGE = "how-to/use-release-sources.md"
STACK = TinyStack("shop")


@pytest.fixture
def administrator(world: World, tmp_path: Path, secure_registry: RegistryServer) -> dict[str, str]:
    """An environment with a kubeconfig and ``docker login``; keys and CA are in the home directory."""
    login = base64.b64encode(f"{secure_registry.username}:{secure_registry.password}".encode()).decode()
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text(json.dumps({"auths": {secure_registry.host: {"auth": login}}}))
    (tmp_path / "ca.crt").write_text(secure_registry.ca)
    programs = [str(Path(sys.executable).parent), str(resolve(["kubectl"])["kubectl"].path.parent), os.environ["PATH"]]
    environ = {
        "HOME": str(tmp_path),
        "KUBECONFIG": str(world.management_kubeconfig),
        "PATH": os.pathsep.join(programs),
        "SSL_CERT_FILE": str(tmp_path / "ca.crt"),
    }
    csctl("sign", "--new-key", "release.key", environ=environ)
    return environ


def csctl(*arguments: str, environ: Mapping[str, str]) -> None:
    subprocess.run(["csctl", *arguments], cwd=environ["HOME"], env=environ, check=True, capture_output=True)


@pytest.mark.usefixtures("watchful")
async def test_commands_of_the_page_print_the_documented_output(
    world: World, administrator: dict[str, str], secure_registry: RegistryServer
) -> None:
    name, home = STACK.release("v1"), Path(administrator["HOME"])
    async with repository(world, secure_registry) as remote:
        page = Page.read(
            PAGE,
            {
                "registry.example.org/kaas/stacks": remote.place,
                "registry.example.org/kaas": remote.place.rpartition("/")[0],
                "registry.example.org": secure_registry.host,
                "team-a": world.namespace,
                "docker-username=author": f"docker-username={secure_registry.username}",
                "the-password": secure_registry.password,
            },
        )
        settings = parse_settings(_flags(page.others["sh"][1]))
        following, moved, replacing = page.blocks[:2], page.blocks[2:3], page.blocks[3:]
        await remote.publish(name, STACK.files("v1", {}))
        csctl("sign", f"{remote.place}:{name}", "--key", "release.key", environ=administrator)
        async with world.operator(allowed_sources=settings.allowed_sources):
            await asyncio.to_thread(page.part(following).run, home, administrator)

            await remote.replace(name, STACK.files("v1", {"cni": templates(config_map("other"))}))
            await asyncio.to_thread(page.part(moved).run, home, administrator)

            csctl("sign", f"{remote.place}:{name}", "--key", "release.key", environ=administrator)
            release = await world.get(Kind.CLUSTER_STACK_RELEASE, name.release)
            await world.delete(release)
            await world.until(
                Kind.CLUSTER_STACK_RELEASE, name.release, lambda one: is_ready(one) and digest(one) != digest(release)
            )

            await asyncio.to_thread(page.part(replacing).run, home, administrator)
            await world.release_ready(name)


def test_documented_operator_flags_are_accepted(tmp_path: Path) -> None:
    for file in ("ca.crt", "release.key.pub"):
        (tmp_path / file).write_text("PEM")
    own, others = Page.read(
        PAGE, {" ca.crt": f" {tmp_path}/ca.crt", " release.key.pub": f" {tmp_path}/release.key.pub"}
    ).others["sh"]

    settings = parse_settings(_flags(own))
    assert settings.source.oci is not None
    assert settings.source.oci.repository == "registry.example.org/kaas/stacks"
    assert settings.source.verification is not None
    assert parse_settings(_flags(others)).chart_repositories.allows("https://charts.example.org/stable")


def test_every_documented_source_is_allowed_by_the_documented_flags() -> None:
    page = Page.read(PAGE)
    allowed = parse_settings(_flags(page.others["sh"][1])).allowed_sources

    for document in map(yaml.safe_load, page.others["yaml"]):
        if document.get("kind") == "Secret":
            assert document["metadata"]["labels"] == {SOURCE_CREDENTIALS_LABEL: "true"}
            continue
        source = SourceSpec.model_validate(document)
        if source.github:
            assert allowed.allows(f"https://github.com/{source.github.owner}/{source.github.repository}")
        elif source.http:
            assert allowed.allows(source.http.url)
        else:
            assert source.directory is not None
            assert source.directory.path == "team-a"


def digest(release: Manifest) -> str:
    return str(release["metadata"]["annotations"][DIGEST_ANNOTATION])


def _flags(command: str) -> list[str]:
    program, *flags = shlex.split(command.replace("\\\n", ""))
    assert program == "cluster-stack-operator"
    return flags
