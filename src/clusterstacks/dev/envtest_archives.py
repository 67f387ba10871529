"""The archives of test binaries that the Kubernetes project publishes ("envtest"): etcd, kube-apiserver, kubectl.

Fetched where the network allows it, because it saves minutes of compiling. Upstream description:
https://book.kubebuilder.io/reference/envtest.html
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import tarfile
import tempfile
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterstacks.dev.toolchain import TOOLS, version_of
from clusterstacks.model.yaml import YamlError, load

if TYPE_CHECKING:
    from collections.abc import Callable

INDEX = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
CONTAINED = ("etcd", "kube-apiserver", "kubectl")
DEADLINE_SECONDS = 4.0
"""Timeout of a connection and of each read; without an answer the binaries are built."""
INDEX_BYTES = 8 << 20
ARCHIVE_BYTES = 512 << 20
MEMBER_BYTES = 512 << 20
"""Bounds on what is accepted; the index has 0.2 MB, the archives about 70 MB, their largest member about 110 MB."""
SUFFIX = ".published"


def fetch_published(cache: Path, report: Callable[[str], None]) -> None:
    """Fetch the newest fitting published binaries into the cache as ``<name>-<version>.published``.

    A failure is reported in one line and never raised: the binaries are built instead.
    """
    try:
        found = newest_fitting(load(_read(INDEX, INDEX_BYTES), name=INDEX), _platform())
        if found is None:
            return
        address, digest = found
        report(f"fetching {address.rpartition('/')[2]}")
        unpack(_read(address, ARCHIVE_BYTES), digest, cache)
    except (OSError, ValueError, tarfile.TarError, YamlError) as error:
        report(
            f"cannot use the published binaries of {INDEX.split('/')[2]} ({_first_line(error)}): building them instead"
        )


def newest_fitting(index: Any, machine: str) -> tuple[str, str] | None:  # noqa: ANN401 - foreign YAML
    """Return address and sha512 of the newest archive with a fitting kube-apiserver; None when the index has none."""
    server = TOOLS["kube-apiserver"]
    releases = (index or {}).get("releases") or {}
    fitting = sorted((_numbers(version), version) for version in releases if server.fits(version))
    for _, version in reversed(fitting):
        entry = releases[version].get(f"envtest-{version}-{machine}.tar.gz")
        if entry and str(entry.get("selfLink", "")).startswith("https://") and entry.get("hash"):
            return entry["selfLink"], entry["hash"]
    return None


def unpack(archive: bytes, sha512: str, cache: Path) -> None:
    """Verify an archive and extract its programs into the cache; ValueError if the checksum or a size is wrong."""
    if hashlib.sha512(archive).hexdigest() != sha512:
        raise ValueError("the archive does not have the checksum of the index")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix=".published.") as staging:
        packed = Path(staging) / "archive.tar.gz"
        packed.write_bytes(archive)
        with tarfile.open(packed) as tar:
            for member in tar:
                name = Path(member.name).name
                if member.isfile() and name in CONTAINED and member.size <= MEMBER_BYTES:
                    _keep(tar, member, Path(staging) / name, cache)


def _keep(tar: tarfile.TarFile, member: tarfile.TarInfo, staged: Path, cache: Path) -> None:
    source = tar.extractfile(member)
    if source is None:
        return
    with staged.open("wb") as target:
        shutil.copyfileobj(source, target)
    staged.chmod(0o755)
    tool = TOOLS[staged.name]
    version = version_of(tool, staged)
    if tool.fits(version):
        staged.replace(cache / f"{staged.name}-{version}{SUFFIX}")


def _read(address: str, limit: int) -> bytes:
    with urllib.request.urlopen(address, timeout=DEADLINE_SECONDS) as answer:  # noqa: S310 - https, checked or constant
        content: bytes = answer.read(limit + 1)
    if len(content) > limit:
        raise ValueError(f"{address} is larger than {limit} bytes")
    return content


def _platform() -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.lstrip("v").split(".") if part.isdigit())


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
