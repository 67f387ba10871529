from __future__ import annotations

import hashlib
import io
import tarfile
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import envtest_archives
from clusterstacks.dev.toolchain import TOOLS

if TYPE_CHECKING:
    from pathlib import Path

MINOR = ".".join(TOOLS["kube-apiserver"].version.split(".")[:2])


def archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("controller-tools/envtest/kubectl")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    return buffer.getvalue()


def index(*versions: str, scheme: str = "https") -> dict[str, object]:
    return {
        "releases": {
            version: {
                f"envtest-{version}-linux-amd64.tar.gz": {
                    "hash": "0f",
                    "selfLink": f"{scheme}://example.invalid/{version}",
                }
            }
            for version in versions
        }
    }


def test_newest_patch_of_the_minor_is_selected() -> None:
    found = envtest_archives.newest_fitting(index("v1.2.0", f"{MINOR}.2", f"{MINOR}.10", "v1.99.0"), "linux-amd64")

    assert found == (f"https://example.invalid/{MINOR}.10", "0f")


@pytest.mark.parametrize("broken", [None, {}, {"releases": None}, index("v1.2.0"), index(f"{MINOR}.1", scheme="http")])
def test_index_without_a_suitable_archive_gives_none(broken: object) -> None:
    assert envtest_archives.newest_fitting(broken, "linux-amd64") is None


def test_only_expected_regular_files_are_extracted(tmp_path: Path) -> None:
    packed = archive(
        {
            "controller-tools/envtest/etcd": b"#!/bin/sh\necho etcd Version: 2.0.0\n",
            "controller-tools/envtest/kube-apiserver": f"#!/bin/sh\necho Kubernetes {MINOR}.9\n".encode(),
            "../../evil": b"x",
        }
    )

    envtest_archives.unpack(packed, hashlib.sha512(packed).hexdigest(), tmp_path)

    assert [path.name for path in tmp_path.iterdir()] == [f"kube-apiserver-{MINOR}.9.published"]


def test_archive_with_a_wrong_checksum_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="checksum"):
        envtest_archives.unpack(archive({}), "00", tmp_path)
