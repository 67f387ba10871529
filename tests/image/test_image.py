"""The container image as a whole: built twice, unpacked, and started with another root directory.

``make test-image`` runs this; it needs root and mmdebstrap, and takes some minutes.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.oci.descriptor import digest_of
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.oci.registry import Registry
from clusterstacks.release.sources.signature_store import write_new_key
from tests.support.running.csctl import csctl_run
from tests.support.running.doc_pages import VERSION
from tools.image.building import beside, build, build_wheel, machine, origin_of
from tools.image.bytecode import enter
from tools.image.debian import require_programs
from tools.image.layers import File, archive
from tools.image.pushing import Stored, open_layout
from tools.image.sbom import MEDIA_TYPE
from tools.image.wheels import PROJECT, wheel_of_project

if TYPE_CHECKING:
    from tests.support.servers.registries import RegistryServer

MAX_COMPRESSED_BYTES = 75_000_000
"""Largest image of one architecture (issue 15)."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Stored:
    try:
        require_programs()
    except SpecError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("image") / "layout"
    build([machine()], folder, [], print)
    return open_layout(folder)


@pytest.fixture(scope="module")
def root(stored: Stored, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.geteuid():
        pytest.skip("only root may unpack the image with its owners")
    folder = tmp_path_factory.mktemp("root")
    folder.chmod(0o755)  # the programs run as another user
    (image,) = stored.index.manifests
    for layer in stored.manifest(image).layers:
        with tarfile.open(stored.content(layer)) as tar:
            tar.extractall(folder, filter="fully_trusted")
    return folder


def run(root: Path, *command: str) -> str:
    user = ["--setuid", "65532", "--setgid", "65532"]
    begun = subprocess.run([*enter(root), *user, *command], capture_output=True, text=True, check=False, env={})
    assert begun.returncode == 0, begun.stderr
    return begun.stdout


def python(root: Path, program: str) -> str:
    return run(root, "/usr/bin/python3.13", "-IB", "-c", program).strip()


def test_two_builds_give_the_same_digest(stored: Stored, tmp_path: Path) -> None:
    zone, mask = {"TZ": "Pacific/Auckland", "LC_ALL": "C"}, 'umask 077; exec "$@"'
    command = ["sh", "-c", mask, "sh", sys.executable, "-m", "tools.image", "build", str(tmp_path), "--arch", machine()]
    subprocess.run(command, check=True, env=os.environ | zone, cwd=Path(__file__).parents[2])

    assert open_layout(tmp_path).index.digest == stored.index.digest
    assert [one.digest for one in open_layout(tmp_path).referrers] == [one.digest for one in stored.referrers]


def test_the_image_is_small_and_runs_as_an_ordinary_user(stored: Stored) -> None:
    (image,) = stored.index.manifests
    manifest = stored.manifest(image)
    config = orjson.loads(stored.content(manifest.config).read_bytes())["config"]

    assert sum(layer.size for layer in manifest.layers) <= MAX_COMPRESSED_BYTES
    assert config["User"] == "65532:65532"
    assert config["Env"] == ["PATH=/usr/bin", "MALLOC_TRIM_THRESHOLD_=131072"]


def test_the_image_has_neither_a_shell_nor_privileged_programs_nor_broken_links(root: Path) -> None:
    programs = {path.name for path in (root / "usr" / "bin").iterdir()}
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    links = [path for path in root.rglob("*") if path.is_symlink()]

    assert programs == {"python3.13", "cluster-stack-operator"}
    assert not list((root / "usr" / "sbin").iterdir())
    assert not [path for path in files if path.stat().st_mode & 0o6000 or path.stat().st_mode & 0o022]
    assert not [path for path in links if not _target(root, path).exists()]


def _target(root: Path, link: Path) -> Path:
    """Follow a link one step, as if ``root`` were the root directory; the next link is looked at on its own."""
    target = link.readlink()
    return root / target.relative_to("/") if target.is_absolute() else link.parent / target


def test_only_the_directories_that_need_it_belong_to_the_user(root: Path) -> None:
    owned = {str(path.relative_to(root)) for path in root.rglob("*") if path.lstat().st_uid == 65532}

    assert owned == {"home/nonroot", "var/cache/cluster-stacks"}


def test_all_modules_are_compiled_and_none_is_checked_or_written_again(root: Path) -> None:
    modules = list(root.rglob("*.py"))
    missing = [one for one in modules if not (one.parent / "__pycache__" / f"{one.stem}.cpython-313.pyc").is_file()]
    flags = {path.read_bytes()[4:8] for path in root.rglob("*.pyc")}

    # The configuration of a compiler is a file of the other architecture's own; only extensions are built with it.
    assert [one.name for one in missing if not one.name.startswith("_sysconfigdata")] == []
    assert flags == {b"\x01\x00\x00\x00"}, "PEP 552: hash-based and not checked"


@pytest.mark.parametrize("program", ["/manager", "/usr/bin/cluster-stack-operator"])
def test_a_program_of_the_image_starts(root: Path, program: str) -> None:
    assert VERSION in run(root, program, "--version")


def test_the_image_has_the_rooms_of_the_operator_only(root: Path) -> None:
    (package,) = root.rglob("dist-packages/clusterstacks")
    rooms = {path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"}

    assert rooms == {"model", "net", "runtime", "release", "plan", "deliver", "operator"}


def test_started_as_manager_it_takes_the_flags_of_the_go_operator(root: Path) -> None:
    assert "/tmp/downloads" in python(
        root,
        "import runpy, sys; sys.argv = ['/manager', '-log-level', 'info']\n"
        "from clusterstacks.operator.settings import parse_settings\n"
        "print(parse_settings(sys.argv[1:], {}, program=sys.argv[0]).release_dir)",
    )


def test_native_libraries_time_zones_and_certificates_are_there(root: Path) -> None:
    names = (
        "helm_python, cel_expr_python, uvloop, orjson, pydantic_core, cryptography.hazmat.bindings._rust, yaml._yaml, "
        "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    )
    certificates = python(
        root,
        f"import {names}, bz2, ctypes, lzma, ssl, uuid, xml.parsers.expat, zoneinfo\n"
        "zoneinfo.ZoneInfo('Europe/Berlin'); print(len(ssl.create_default_context().get_ca_certs()))",
    )

    assert int(certificates) > 100


def test_a_render_worker_starts_with_helm_and_cel(root: Path) -> None:
    null = root / "dev" / "null"  # a container has one
    null.touch()
    try:
        said = python(
            root,
            "import asyncio\n"
            "from clusterstacks.deliver.render.worker_pool import WorkerProcess\n"
            "async def main():\n"
            "    worker = await WorkerProcess.start(768 << 20)\n"
            "    await worker.ready()\n"
            "    await worker.stop()\n"
            "    print('ready')\n"
            "asyncio.run(main())",
        )
    finally:
        null.unlink()

    assert said == "ready"


def test_the_sbom_lists_all_locked_wheels_with_hashes_and_the_debian_packages(stored: Stored) -> None:
    sbom, _ = stored.referrers
    document = orjson.loads(stored.content(sbom.layers[0]).read_bytes())
    components = {one["purl"]: one for one in document["components"]}
    export = [
        "export",
        "--quiet",
        "--frozen",
        "--no-dev",
        "--all-extras",
        "--no-emit-project",
        "--no-hashes",
        "--no-annotate",
        "--no-header",
    ]
    listed = subprocess.run(
        [Path(sys.prefix, "bin", "uv"), *export],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    ).stdout
    locked = {
        f"pkg:pypi/{found[1]}@{found[2]}"
        for line in listed.splitlines()
        if (found := re.fullmatch(r"(\S+?)==(\S+)", line))
    }

    assert sbom.artifact_type == MEDIA_TYPE
    assert len(locked) > 10
    assert locked <= components.keys()
    fetched = {purl: one for purl, one in components.items() if purl.startswith(("pkg:pypi/", "pkg:deb/"))}
    assert all(one.get("hashes") for purl, one in fetched.items() if not purl.startswith("pkg:pypi/cluster-stacks@"))
    assert all(one.get("licenses") for purl, one in fetched.items() if purl.startswith("pkg:pypi/"))
    assert any(purl.startswith("pkg:deb/debian/libc6@") for purl in components)


def test_the_sbom_lists_the_go_modules_of_helm_and_the_crates_of_wheels(stored: Stored) -> None:
    sbom, _ = stored.referrers
    components = {one["purl"]: one for one in orjson.loads(stored.content(sbom.layers[0]).read_bytes())["components"]}
    (helm,) = (one for purl, one in components.items() if purl.startswith("pkg:golang/helm.sh/helm/"))

    assert helm["properties"][0]["value"].startswith("h1:")
    assert any(purl.startswith("pkg:golang/stdlib@") for purl in components)
    assert any(purl.startswith("pkg:cargo/") for purl in components)


def test_the_provenance_is_about_this_image_and_names_what_was_fetched_for_it(stored: Stored) -> None:
    sbom, provenance = stored.referrers
    statement = orjson.loads(stored.content(provenance.layers[0]).read_bytes())
    dependencies = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    components = orjson.loads(stored.content(sbom.layers[0]).read_bytes())["components"]
    hashes = {one["purl"]: one["hashes"][0]["content"] for one in components if one.get("hashes")}
    fetched = {purl: digest for purl, digest in hashes.items() if purl.startswith(("pkg:pypi/", "pkg:deb/"))}

    assert statement["predicateType"] == "https://slsa.dev/provenance/v1"
    assert {f"sha256:{one['digest']['sha256']}" for one in statement["subject"]} == {
        stored.index.digest,
        *(image.digest for image in stored.index.manifests),
    }
    assert dependencies[0]["uri"] == f"git+https://github.com/OWNER/cluster-stacks@{origin_of(PROJECT).revision}"
    assert {one["uri"]: one["digest"]["sha256"] for one in dependencies[1:]} == fetched


def test_the_wheel_is_the_same_in_each_build_and_gets_its_own_sbom_and_provenance(tmp_path: Path) -> None:
    wheel = build_wheel(tmp_path / "1")

    assert wheel.read_bytes() == wheel_of_project(tmp_path / "2").read_bytes()
    for what in ("sbom.json", "provenance.json"):
        (subject,) = orjson.loads(beside(wheel, what).read_bytes())["subject"]
        assert subject == {"name": wheel.name, "digest": {"sha256": sha256(wheel.read_bytes()).hexdigest()}}


async def test_the_pushed_image_is_verified_and_no_longer_after_a_layer_was_changed(
    stored: Stored, registry: RegistryServer, tmp_path: Path
) -> None:
    write_new_key(tmp_path / "key")
    place = f"{registry.host}/image/operator"
    command = [sys.executable, "-m", "tools.image", "push", place, "--layout", str(stored.folder)]
    command += ["--key", str(tmp_path / "key")]
    await asyncio.to_thread(subprocess.run, command, check=True, cwd=PROJECT)

    def verified(reference: str) -> int:
        environ = {"PATH": os.environ["PATH"]}
        return csctl_run("verify", reference, "--key", tmp_path / "key.pub", environ=environ).returncode

    assert verified(f"{place}:{stored.tag}") == 0
    (image,) = stored.index.manifests
    manifest, index = orjson.loads(stored.manifest(image).raw), orjson.loads(stored.index.raw)
    layer = archive({"usr/bin/cluster-stack-operator": File(b"#!/usr/bin/evil", executable=True)}).content
    manifest["layers"][-1] |= {"digest": digest_of(layer), "size": len(layer)}
    changed = orjson.dumps(manifest)
    index["manifests"][0] |= {"digest": digest_of(changed), "size": len(changed)}
    async with HTTPClient(plain_http=True) as web:
        there = Registry(web, Reference.parse(place), plain_http=True)
        await there.push_blob(layer)
        await there.push_manifest(changed, image.media_type)
        await there.push_manifest(orjson.dumps(index), stored.index.media_type, stored.tag)
    assert verified(f"{place}:{stored.tag}") == 3
    assert verified(f"{place}@{stored.index.digest}") == 0
