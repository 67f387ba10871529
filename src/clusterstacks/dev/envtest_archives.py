"""The archives of test binaries that the Kubernetes project publishes ("envtest"): etcd, kube-apiserver, kubectl.

Fetched where the network allows it, because it saves minutes of compiling. Upstream description:
https://book.kubebuilder.io/reference/envtest.html
"""

from __future__ import annotations

import asyncio
import hashlib
import platform
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.toolchain import TOOLS, version_of
from clusterstacks.model.errors import ClusterStacksError
from clusterstacks.net.http.client import HTTPClient
from clusterstacks.net.retry import RetryPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "v1.36.2"
"""Version of the archive; a patch of the minor in ``tools/kubernetes/go.mod``."""
ARCHIVES = "https://github.com/kubernetes-sigs/controller-tools/releases/download"
SHA512 = {
    "linux-amd64": "ea743186c8a799f5cf8faf16969f86189d003cb7d130e0ac4b58789f1e5748dcf30ebe91c837a10d5ac415383da3e10b9e6"
    "4d65785c938c23e739781cfb76f08",
    "linux-arm64": "2d72ee985a8e262a3c57dc9f7f0fd891f6a8c7bf7ebaa2db6dc6d8eac8ae28181afe51c1f368b67756cdb40b10de9b20560"
    "9e1726e5f27f7c6d824dd9c6649ac",
}
"""Checksums by platform. Source: envtest-releases.yaml of kubernetes-sigs/controller-tools at commit
434758187dddcaf646276fbe2c2ba40ff4e859d5."""
CONTAINED = ("etcd", "kube-apiserver", "kubectl")
ARCHIVE_BYTES = 512 << 20
MEMBER_BYTES = 512 << 20
"""Bounds on what is accepted; the archives have about 70 MB, their largest member about 110 MB."""
SUFFIX = ".published"


def fetch_published(cache: Path, report: Callable[[str], None]) -> None:
    """Fetch the published binaries into the cache as ``<name>-<version>.published``.

    A failure is reported in one line and never raised: the binaries are built instead.
    """
    machine = _platform()
    if machine not in SHA512:
        return
    name = f"envtest-{VERSION}-{machine}.tar.gz"
    try:
        report(f"fetching {name}")
        unpack(asyncio.run(_read(f"{ARCHIVES}/envtest-{VERSION}/{name}")), SHA512[machine], cache)
    except (OSError, ValueError, tarfile.TarError, ClusterStacksError) as error:
        report(f"cannot use the published archive {name} ({_first_line(error)}): building its programs instead")


def unpack(archive: bytes, sha512: str, cache: Path) -> None:
    """Verify an archive and extract its programs into the cache; ValueError if the checksum or a size is wrong."""
    if hashlib.sha512(archive).hexdigest() != sha512:
        raise ValueError("it does not have the checksum that this version of csctl knows")
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


async def _read(address: str) -> bytes:
    """Read an archive within the deadline of a document, which includes redirects and all pauses of the server."""
    async with HTTPClient(retries=RetryPolicy(attempts=1)) as client:
        return (await client.read(address, limit=ARCHIVE_BYTES)).body


def _platform() -> str:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return f"{platform.system().lower()}-{machine}"


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
