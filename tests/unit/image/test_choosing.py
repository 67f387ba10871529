"""The files of Debian packages and wheels that go into the image."""

from __future__ import annotations

import shutil

import pytest

from clusterstacks.model.errors import SpecError
from tools.image.debian import Package, base_layer, is_kept, require_programs, used
from tools.image.layers import File, Layer, Link
from tools.image.wheels import is_dropped


def package(name: str, *files: str) -> Package:
    contents: Layer = {file: File(f"{name}\n".encode()) for file in files}
    return Package(name, "1", "amd64", "ab" * 32, f"Package: {name}\n", contents)


@pytest.mark.parametrize(
    "path",
    [
        "etc/services",
        "lib64",
        "usr/bin/python3.13",
        "usr/lib/aarch64-linux-gnu/ld-linux-aarch64.so.1",
        "usr/lib/ld-linux-aarch64.so.1",
        "usr/lib/os-release",
        "usr/lib/python3.13/asyncio/base_events.py",
        "usr/lib/python3.13/lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so",
        "usr/lib/ssl/cert.pem",
        "usr/lib/x86_64-linux-gnu/libc.so.6",
        "usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.33",
        "usr/lib64/ld-linux-x86-64.so.2",
        "usr/share/zoneinfo/Europe/Berlin",
    ],
)
def test_what_the_interpreter_and_the_wheels_need_is_kept(path: str) -> None:
    assert is_kept(path)


@pytest.mark.parametrize(
    "path",
    [
        "bin/sh",
        "usr/bin/dash",
        "usr/bin/mawk",
        "usr/bin/openssl",
        "usr/lib/python3.13/lib-dynload/_sqlite3.cpython-313-x86_64-linux-gnu.so",
        "usr/lib/python3.13/sitecustomize.py",
        "usr/lib/python3.13/test/support.py",
        "usr/lib/x86_64-linux-gnu/libsqlite3.so.0",
        "usr/share/man/man1/python3.13.1.gz",
    ],
)
def test_shells_programs_and_modules_without_their_library_stay_out(path: str) -> None:
    assert not is_kept(path)


@pytest.mark.parametrize(
    ("path", "dropped"),
    [
        ("aiohttp/_http_parser.pyx", True),
        ("aiohttp/client.py", False),
        ("bazel-project/tests/a.py", True),
        ("bin/uvicorn", True),
        ("clusterstacks/dev/examples/stack/.wh.agent-health.yaml", True),
        ("clusterstacks/dev/tools/etcd/go.mod", True),
        ("clusterstacks/operator/main.py", False),
        ("clusterstacks/testing/provider.py", True),
        ("yarl-1.dist-info/METADATA", False),
        ("yarl-1.dist-info/RECORD", True),
        ("yarl-1.dist-info/licenses/LICENSE", False),
    ],
)
def test_files_of_wheels_that_nothing_reads_are_dropped(path: str, *, dropped: bool) -> None:
    assert is_dropped(path) is dropped


def test_the_lowest_layer_has_certificates_in_one_file_a_user_and_the_packages_for_scanners() -> None:
    certificates = package("ca-certificates", "usr/share/ca-certificates/mozilla/B.crt", "usr/share/man/ca.8")
    terms = "usr/share/doc/base/copyright"
    layer = base_layer([certificates, package("base", terms, "bin/sh")])

    assert layer["etc/ssl/certs/ca-certificates.crt"] == File(b"ca-certificates\n")
    assert layer["etc/passwd"] == File(
        b"root:x:0:0:root:/:/usr/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/usr/sbin/nologin\n"
    )
    assert "var/lib/dpkg/status.d/ca-certificates" in layer
    assert "var/lib/dpkg/status.d/base" not in layer
    assert terms in layer
    assert "bin/sh" not in layer


def test_a_package_of_which_only_the_license_is_kept_is_not_listed() -> None:
    contents: Layer = {"usr/share/doc/libgcc-s1": Link("gcc-14-base")}
    assert used([Package("libgcc", "1", "amd64", "", "", contents)]) == []


def test_a_missing_program_is_named_with_the_package_that_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "mmdebstrap" else f"/usr/bin/{name}")

    with pytest.raises(SpecError, match="mmdebstrap is not installed; on Debian run 'apt-get install mmdebstrap'"):
        require_programs()
