"""Runs csctl create with a real registry and a fake of the GitHub API as remotes."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.sources.oci_publish import publish
from tests.support.builders.stack_directories import copied
from tests.support.fakes.github import OWNER, REPOSITORY, TOKEN, GitHubDouble

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer


class Author:
    """An author with one stack and the variables of a remote."""

    def __init__(self, root: Path, *options: str, **environ: str) -> None:
        self.root = root
        self.stack = copied("single", root)
        self.options = options
        self.environ = environ

    async def create(self, *options: str) -> tuple[int, str, str]:
        kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
        arguments = ("create", str(self.stack), *self.options, *options)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "clusterstacks.csctl.main",
            *arguments,
            cwd=self.root,
            env={**kept, "HOME": str(self.root), **self.environ},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await process.communicate()
        return process.returncode or 0, out.decode().strip().rpartition("/")[2], err.decode()

    async def releases_follow_each_other(self) -> None:
        """Publish twice with a change in between; the first release determines the versions of the second."""
        assert (await self.create("--publish"))[:2] == (0, "local-single-1-33-v1")
        code, _, err = await self.create("--publish")
        assert (code, err.splitlines()[-1][:50]) == (3, "Error: nothing changed since local-single-1-33-v1:")

        (self.stack / "cluster-addon/values.yaml").write_text("replicas: 2\n")
        code, name, err = await self.create("--publish")
        assert (code, name) == (0, "local-single-1-33-v2"), err
        assert "  clusterAddon v1 -> v2: cluster-addon/values.yaml changed\n" in err
        assert "local-single-1-33-v2 is published in " in err

    async def published_content_stays(self) -> None:
        """Publish other content as v2, which exists already."""
        (self.stack / "cluster-class/values.yaml").write_text("other: true\n")
        versions = [f"--{one}-version=v2" for one in ("cluster-stack", "cluster-addon", "node-image")]

        code, name, err = await self.create("--publish", "--mode", "custom", *versions)

        assert (code, name) == (2, "local-single-1-33-v2")
        assert "other" in err.splitlines()[-1]


async def test_create_reads_and_publishes_to_a_private_registry(
    tmp_path: Path, secure_registry: RegistryServer
) -> None:
    ca = tmp_path / "ca.crt"
    ca.write_text(secure_registry.ca)
    login = {"OCI_USERNAME": secure_registry.username, "OCI_PASSWORD": secure_registry.password}
    author = Author(
        tmp_path,
        "--remote=oci",
        f"--ca={ca}",
        OCI_REGISTRY=secure_registry.host,
        OCI_REPOSITORY=f"{secure_registry.host}/create/private",
        **login,
    )

    await author.releases_follow_each_other()
    await author.published_content_stays()


async def test_betas_and_stable_releases_share_a_repository(tmp_path: Path, registry: RegistryServer) -> None:
    author = Author(tmp_path, "--remote=oci", OCI_REGISTRY=registry.host, OCI_REPOSITORY="create/betas")

    names = []
    for mode in ("beta", "stable", "beta", "beta", "stable"):
        with (author.stack / "cluster-class/values.yaml").open("a") as file:
            file.write("# next\n")
        code, name, err = await author.create("--publish", "--mode", mode)
        assert code == 0, err
        names.append(name.removeprefix("local-single-1-33-"))

    assert names == ["v0-beta-1", "v1", "v2-beta-1", "v2-beta-2", "v2"]


@pytest.mark.regression("DROP-M1")
async def test_existing_tag_of_the_same_source_is_not_changed(tmp_path: Path, registry: RegistryServer) -> None:
    author = Author(tmp_path, "--remote=oci", "--mode=hash", OCI_REGISTRY=registry.host, OCI_REPOSITORY="create/hash")
    code, name, err = await author.create()
    assert code == 0, err
    metadata = tmp_path / ".release" / name / "metadata.yaml"
    metadata.write_text(f"# as csctl written in Go has it, in other bytes\n{metadata.read_text()}")
    place = f"{registry.host}/create/hash"
    async with HTTPClient() as web:
        await publish(metadata.parent, Registry(web, Reference.parse(place), plain_http=True), datetime.now(UTC))

    code, name, err = await author.create("--publish")

    assert (code, name) == (0, metadata.parent.name)
    assert f"{name} is already published in oci://{place}, built from the same source" in err


@pytest.mark.regression("DROP-L9")
async def test_missing_repository_counts_as_empty(tmp_path: Path, registry: RegistryServer) -> None:
    author = Author(tmp_path, OCI_REGISTRY=registry.host, OCI_REPOSITORY="create/new")

    code, name, err = await author.create()

    assert (code, name) == (0, "local-single-1-33-v1"), err
    assert err.startswith("remote oci, because OCI_REGISTRY is set")


@pytest.mark.regression("D42")
async def test_registry_failure_is_an_error_and_nothing_is_built(tmp_path: Path) -> None:
    author = Author(tmp_path, "--remote=oci", OCI_REGISTRY="127.0.0.1:1", OCI_REPOSITORY="create/down")

    code, name, err = await author.create("--publish")

    assert (code, name) == (1, "")
    assert "127.0.0.1:1" in err
    assert not (tmp_path / ".release").exists()


async def test_create_reads_and_publishes_to_github(tmp_path: Path) -> None:
    async with GitHubDouble.started() as github:
        author = Author(
            tmp_path,
            GIT_PROVIDER="github",
            GIT_ORG_NAME=OWNER,
            GIT_REPOSITORY_NAME=REPOSITORY,
            GIT_ACCESS_TOKEN=TOKEN,
            GIT_API_URL=github.url,
        )

        await author.releases_follow_each_other()
        await author.published_content_stays()

        assert {release.tag for release in github.releases} == {"local-single-1-33-v1", "local-single-1-33-v2"}
