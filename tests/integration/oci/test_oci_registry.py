"""csctl and the registry client against a real registry: Debian's docker-registry."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.http.errors import CredentialsRefused, NotThere, ServerUnavailable
from clusterstacks.net.oci import blob_upload
from clusterstacks.net.oci.credentials import ANONYMOUS, RegistryCredentials
from clusterstacks.net.oci.descriptor import describe
from clusterstacks.net.oci.errors import ContentCorrupt
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.net.retry import RetryPolicy
from clusterstacks.release.charts.archive import write_archive
from clusterstacks.release.contents import read_contents
from clusterstacks.release.errors import ReleaseTaken
from clusterstacks.release.sources.oci_publish import publish
from clusterstacks.release.sources.oci_repository import OCISource
from clusterstacks.release.sources.oci_signatures import attach
from tests.support.builders.releases import (
    SINGLE,
    STAGED,
    chart,
    read_release,
    single_release,
    staged_release,
    write_release,
)
from tests.support.running.csctl import csctl_run
from tests.support.servers.cutting_proxy import CuttingProxy
from tests.support.servers.registries import running_registry

if TYPE_CHECKING:
    import subprocess
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.servers.registries import RegistryServer


EPOCH = datetime.fromtimestamp(0, UTC)
CONTENT = os.urandom(24 * 1024 * 1024)


@pytest.fixture
async def web() -> AsyncIterator[HTTPClient]:
    async with HTTPClient() as web:
        yield web


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return write_release(tmp_path / "built" / STAGED.release, staged_release())


def at(host: str, repository: str) -> Reference:
    return Reference(host, repository)


def csctl(*arguments: object, **environ: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    return csctl_run(*arguments, environ={**kept, **environ})


async def test_pushed_release_is_pulled_unchanged(
    registry: RegistryServer, web: HTTPClient, directory: Path, tmp_path: Path
) -> None:
    there = Registry(web, at(registry.host, "round/trip"))

    published = await publish(directory, there, EPOCH)
    again = await publish(directory, there, datetime.now(UTC))

    assert (published.new, again.new) == (True, False)
    assert again.reference == published.reference
    source = OCISource(there)
    assert await source.digest(STAGED) == read_contents(STAGED, directory).digest
    (tmp_path / "into").mkdir()
    await source.fetch(STAGED, tmp_path / "into")
    assert read_release(tmp_path / "into") == staged_release()
    (directory / "hashes.json").write_text("{}")
    with pytest.raises(ReleaseTaken):
        await publish(directory, there, EPOCH)


async def test_all_pages_of_a_list_are_read(
    registry: RegistryServer, web: HTTPClient, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clusterstacks.net.oci.registry.PAGE", 3)
    there = Registry(web, at(registry.host, "many/tags"))
    digest = (await publish(directory, there, EPOCH)).reference.digest
    manifest = await there.manifest(digest)
    for number in range(10):
        await there.push_manifest(manifest.raw, manifest.media_type, f"t{number}")

    assert await there.tags() == (STAGED.release, *(f"t{number}" for number in range(10)))


async def test_missing_repository_has_no_list(registry: RegistryServer, web: HTTPClient) -> None:
    with pytest.raises(NotThere):
        await Registry(web, at(registry.host, "not/there")).tags()


async def test_interrupted_download_is_resumed(registry: RegistryServer, web: HTTPClient, tmp_path: Path) -> None:
    there = Registry(web, at(registry.host, "cut/download"))
    await there.push_blob(CONTENT)
    async with CuttingProxy.started(registry.host) as proxy:
        proxy.cuts = [10_000_000, 9_000_000]

        await Registry(web, at(proxy.host, "cut/download")).blob(describe(CONTENT, "x"), tmp_path / "blob")

        assert (tmp_path / "blob").read_bytes() == CONTENT
        assert proxy.broken == 2
        # Without going on it would be len(CONTENT) + 19 MB; what sits in socket buffers at a cut is carried twice.
        assert proxy.carried < len(CONTENT) + 15_000_000


@pytest.mark.parametrize("part", [blob_upload.PART_BYTES, 8 * 1024 * 1024])
async def test_interrupted_upload_completes(
    registry: RegistryServer, web: HTTPClient, tmp_path: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob_upload, "PART_BYTES", part)
    content = os.urandom(len(CONTENT))
    (tmp_path / "blob").write_bytes(content)
    async with CuttingProxy.started(registry.host) as proxy:
        proxy.cuts = [10_000_000]

        digest = await Registry(web, at(proxy.host, "cut/upload")).push_blob(tmp_path / "blob")

        assert proxy.broken == 1
    there = Registry(web, at(registry.host, "cut/upload"))
    await there.blob(describe(content, "x"), tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == content
    assert describe(content, "x").digest == digest


async def test_damaged_blob_is_detected(
    registry: RegistryServer, web: HTTPClient, directory: Path, tmp_path: Path
) -> None:
    there = Registry(web, at(registry.host, "damaged/blob"))
    (directory / "more.bin").write_bytes(CONTENT)
    await publish(directory, there, EPOCH)
    digest = describe(CONTENT, "x").hex
    stored = registry.storage / "docker/registry/v2/blobs/sha256" / digest[:2] / digest / "data"
    stored.write_bytes(CONTENT[:-1] + bytes([CONTENT[-1] ^ 1]))

    (tmp_path / "into").mkdir()
    try:
        with pytest.raises(ContentCorrupt, match=digest):
            await OCISource(there).fetch(STAGED, tmp_path / "into")
        assert not (tmp_path / "into" / "more.bin").exists()
    finally:
        stored.write_bytes(CONTENT)


async def test_private_registry_requires_credentials(secure_registry: RegistryServer, directory: Path) -> None:
    place = at(secure_registry.host, "private/stacks")
    me = RegistryCredentials(secure_registry.username, secure_registry.password)
    async with HTTPClient(ca=secure_registry.ca) as web:
        assert (await publish(directory, Registry(web, place, me), EPOCH)).new

        for credentials in (ANONYMOUS, RegistryCredentials(secure_registry.username, "wrong")):
            with pytest.raises(CredentialsRefused) as caught:
                await Registry(web, place, credentials).tags()
            assert "wrong" not in str(caught.value)
            with pytest.raises(CredentialsRefused):
                await publish(directory, Registry(web, place, credentials), EPOCH)


async def test_registry_with_an_unknown_ca_is_not_trusted(secure_registry: RegistryServer, web: HTTPClient) -> None:
    with pytest.raises(ServerUnavailable, match="its CA"):
        await Registry(web, at(secure_registry.host, "private/stacks")).tags()


async def test_registry_is_used_again_after_an_outage(tmp_path: Path, directory: Path) -> None:
    with running_registry(tmp_path) as server:
        place = at(server.host, "back/again")
        async with HTTPClient(retries=RetryPolicy(attempts=1)) as web:
            await publish(directory, Registry(web, place), EPOCH)
            there = Registry(web, place)
            server.stop()

            with pytest.raises(ServerUnavailable):
                await there.tags()
            server.launch()

            assert await there.tags() == (STAGED.release,)


async def test_signatures_are_stored_in_registries_without_the_referrers_api(
    registry: RegistryServer, web: HTTPClient, directory: Path
) -> None:
    there = Registry(web, at(registry.host, "signed/stacks"))
    digest = (await publish(directory, there, EPOCH)).reference.digest

    await attach(there, digest, b'{"one": 1}')
    await attach(there, digest, b'{"two": 2}')
    await attach(there, digest, b'{"two": 2}')

    assert (await OCISource(there).evidence(STAGED)).envelopes == (b'{"one": 1}', b'{"two": 2}')


def test_csctl_pushes_lists_copies_and_pulls(
    registry: RegistryServer, secure_registry: RegistryServer, directory: Path, tmp_path: Path
) -> None:
    """From an open registry into a private one, as into an air-gapped site, with signatures."""
    write_release(directory.parent / SINGLE.release, single_release())
    (tmp_path / "ca.pem").write_text(secure_registry.ca)
    key = tmp_path / "key"
    assert csctl("sign", "--new-key", key).returncode == 0
    assert csctl("sign", directory, "--key", key).returncode == 0
    home = {"DOCKER_CONFIG": str(tmp_path)}
    secret = base64.b64encode(f"{secure_registry.username}:{secure_registry.password}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {secure_registry.host: {"auth": secret}}}))
    open_place, private = f"{registry.host}/csctl/stacks", f"{secure_registry.host}/csctl/stacks"

    for name in (STAGED, SINGLE):
        pushed = csctl("push", directory.parent / name.release, open_place)
        assert pushed.returncode == 0, pushed.stderr
        copied = csctl("copy", f"{open_place}:{name}", private, "--to-ca", tmp_path / "ca.pem", **home)
        assert copied.returncode == 0, copied.stderr
    listed = csctl("list", f"oci://{private}", "-o", "json", "--ca", tmp_path / "ca.pem", **home)
    pulled = csctl("pull", f"{private}:{STAGED}", "-o", tmp_path / "out", "--ca", tmp_path / "ca.pem", **home)

    assert [entry["release"] for entry in json.loads(listed.stdout)] == [STAGED.release, SINGLE.release]
    assert pulled.returncode == 0, pulled.stderr
    assert read_release(tmp_path / "out" / STAGED.release) == staged_release()
    verified = csctl("verify", tmp_path / "out" / STAGED.release, "--key", f"{key}.pub")
    assert verified.returncode == 0, verified.stderr


def test_csctl_lists_the_images_of_copied_releases(registry: RegistryServer, directory: Path, tmp_path: Path) -> None:
    """An air-gapped site needs the list to mirror images."""
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: r.example/cni:v1}]}\n"
    charts = {"cni": chart("cni", **{"templates/pod.yaml": pod}), "csi": chart("csi")}
    files = {f"{name}/{path}": content for name, held in charts.items() for path, content in held.items()}
    (directory / f"{STAGED.series}-cluster-addon-v1.tgz").write_bytes(write_archive(files))
    place = f"{registry.host}/images/stacks"
    csctl("push", directory, place)

    printed = csctl("copy", f"{place}:{STAGED}", f"{place}-2", "--images", "-")
    written = csctl("copy", f"{place}:{STAGED}", f"{place}-2", "--images", tmp_path / "images")

    assert printed.stdout == "r.example/cni:v1\n", printed.stderr
    assert (tmp_path / "images").read_text() == printed.stdout
    assert "already exists" in written.stdout


async def test_csctl_counts_tags_that_are_not_releases(
    registry: RegistryServer, web: HTTPClient, directory: Path
) -> None:
    place = at(registry.host, "foreign/stacks")
    there = Registry(web, place)
    manifest = await there.manifest((await publish(directory, there, EPOCH)).reference.digest)
    for tag in ("latest", f"sha256-{'a' * 64}.sig"):
        await there.push_manifest(manifest.raw, manifest.media_type, tag)

    listed = await asyncio.to_thread(csctl, "list", place)

    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["RELEASE", STAGED.release]
    assert listed.stderr == "1 other entry is not a release and was skipped\n"


def test_csctl_reads_the_variables_of_go_csctl(secure_registry: RegistryServer, directory: Path) -> None:
    ca = directory.parent / "ca.pem"
    ca.write_text(secure_registry.ca)
    environ = {
        "OCI_REGISTRY": secure_registry.host,
        "OCI_REPOSITORY": f"{secure_registry.host}/variables/stacks",
        "OCI_USERNAME": secure_registry.username,
        "OCI_PASSWORD": secure_registry.password,
    }

    pushed = csctl("push", directory, "--ca", ca, "-o", "json", **environ)
    listed = csctl("list", "--ca", ca, **environ)
    refused = csctl("list", "--ca", ca, **{**environ, "OCI_PASSWORD": "wrong"})

    assert json.loads(pushed.stdout)["new"] is True
    assert STAGED.release in listed.stdout
    assert refused.returncode == 1
    assert "credentials" in refused.stderr
    assert "wrong" not in refused.stderr


def test_csctl_reports_registry_errors(registry: RegistryServer, directory: Path) -> None:
    place = f"{registry.host}/wrong/stacks"
    csctl("push", directory, place)
    (directory / "hashes.json").write_text("{}")

    for arguments, code, text in [
        (("push", directory, place), 2, "higher version"),
        (("push", directory, f"{place}:{SINGLE}"), 2, "whose tag is its name"),
        (("push", directory.parent, place), 2, "is not a release directory: it has no metadata.yaml"),
        (("pull", f"{place}:{SINGLE}", "-o", directory.parent / "out"), 1, "publish it there"),
        (("pull", place), 2, "the release is missing"),
        (("copy", f"{place}:{SINGLE}", f"{place}-2"), 1, "does not exist"),
        (("copy", place, f"{place}-2"), 2, "the release is missing"),
        (("copy", f"{place}:{STAGED}", f"{place}-2:{SINGLE}"), 2, "the tag of a release is its name"),
        (("list", "registry.invalid/a"), 1, "its host name cannot be resolved"),
    ]:
        done = csctl(*arguments)
        assert (done.returncode, text in done.stderr) == (code, True), (arguments, done.stderr)
    assert not (directory.parent / "out" / SINGLE.release).exists()
