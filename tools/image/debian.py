"""Python and its libraries out of Debian packages: the lowest layer, without a shell or a package manager."""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from tools.image.layers import Directory, Entry, File, Layer, Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SUITE = "trixie"
"""Debian 13: the stable release whose Python has wheels of all dependencies."""

DISTRIBUTION = "debian-13"
PYTHON = "3.13"
INTERPRETER = f"/usr/bin/python{PYTHON}"

USER = 65532
"""Id of the user ``nonroot`` and of its group, as in the image of the Go operator."""

CACHE = "var/cache/cluster-stacks"
"""Directory of the cache, where no volume is mounted."""

PACKAGES = (
    "base-files",
    "ca-certificates",
    "libc6",
    "libgcc-s1",
    "libpython3.13-stdlib",
    "libstdc++6",  # of cel-expr-python
    "netbase",
    "python3.13-minimal",
    "tzdata",  # CEL and templates of charts know time zones
)

_KEPT = re.compile(
    r"""
    usr/bin/python3\.13
    | usr/lib/python3\.13/(?!(?:
        _pyrepl | config- | ensurepip | idlelib | lib2to3 | pydoc_data | sitecustomize | test | tkinter | turtledemo
        | venv
        | lib-dynload/(?:_ctypes_test | _curses | _dbm | _gdbm | _sqlite3 | _test | _tkinter | _xx | readline | xx)
      ).*).+
    | usr/lib/[^/]+-linux-gnu/(?:
        ld-linux-[^/]+
        | lib(?:anl | c | dl | m | nss_dns | nss_files | pthread | resolv | rt | util)\.so\.\d+
        | lib(?:bz2 | crypto | expat | ffi | gcc_s | lzma | ssl | stdc\+\+ | uuid | z | zstd)\.so\..+
      )
    | (?:bin | lib | lib64 | sbin)
    | usr/lib(?:64)?/ld-linux-[^/]+
    | (?:etc | usr/lib)/os-release
    | etc/(?:debian_version | protocols | services)
    | (?:etc/ssl | usr/lib/ssl)/(?:cert\.pem | certs | openssl\.cnf)
    | usr/share/(?:common-licenses | zoneinfo)/.+
    """,
    re.VERBOSE,
)
"""Paths of packages that go into the image: the interpreter, what its modules and the wheels load, data they read."""

_LICENSE = re.compile(r"usr/share/doc/[^/]+(?:/copyright)?")
_CERTIFICATE = re.compile(r"usr/share/ca-certificates/mozilla/[^/]+\.crt")


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package.

    Args:
        name: Its name.
        version: Its version.
        architecture: ``amd64``, ``arm64`` or ``all``.
        sha256: Of the package file, in hex.
        control: Its control file, as dpkg keeps it.
        files: All of its files.
    """

    name: str
    version: str
    architecture: str
    sha256: str
    control: str
    files: Layer


def require_programs() -> None:
    """Check for the programs that are not Python packages.

    Raises:
        SpecError: One is missing; the message says what to install.
    """
    wanted = {"mmdebstrap": "mmdebstrap", "dpkg-deb": "dpkg", "unshare": "util-linux"}
    if missing := sorted(package for program, package in wanted.items() if shutil.which(program) is None):
        raise SpecError(
            "ProgramMissing",
            f"the image cannot be built: {', '.join(missing)} is not installed; on Debian run "
            f"'apt-get install {' '.join(missing)}', on Ubuntu add debian-archive-keyring to it; "
            "elsewhere build in a container of Debian",
        )


def download(architecture: str, folder: Path, mirrors: Sequence[str]) -> list[Package]:
    """Fetch the packages and what they depend on, verified by apt with the keys of Debian; runs none of their scripts.

    Args:
        architecture: ``amd64`` or ``arm64``.
        folder: An empty directory for the package files.
        mirrors: Addresses or lines of apt's sources.list; none for Debian's own servers, with security updates.

    Raises:
        SpecError: mmdebstrap fails; it has printed why.
    """
    command = [
        *("mmdebstrap", "--quiet", "--variant=extract", "--format=null", f"--architectures={architecture}"),
        *(f"--include={','.join(PACKAGES)}", f"--extract-hook=copy-out /var/cache/apt/archives {folder}"),
        *(SUITE, "/dev/null", *mirrors),
    ]
    if subprocess.run(command, check=False).returncode:
        raise SpecError("DownloadFailed", "the Debian packages cannot be fetched: mmdebstrap says above why")
    return [_read(path) for path in sorted(folder.rglob("*.deb"))]


def _read(path: Path) -> Package:
    control = subprocess.run(["dpkg-deb", "--field", path], check=True, capture_output=True, text=True).stdout
    plain = subprocess.run(["dpkg-deb", "--fsys-tarfile", path], check=True, capture_output=True).stdout
    name, version, architecture = (_field(control, key) for key in ("Package", "Version", "Architecture"))
    digest = sha256(path.read_bytes()).hexdigest()
    return Package(name, version, architecture, digest, control, _files(plain))


def _field(control: str, key: str) -> str:
    found = re.search(rf"^{key}: (.+)$", control, re.MULTILINE)
    if found is None:
        raise ValueError(f"a control file has no {key}")
    return found[1]


def _files(plain: bytes) -> Layer:
    files: Layer = {}
    with tarfile.open(fileobj=io.BytesIO(plain)) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if member.issym():
                files[name] = Link(member.linkname)
            elif member.islnk():
                target = os.path.relpath(member.linkname.removeprefix("./"), os.path.dirname(name))  # noqa: PTH120 - a path in an archive
                files[name] = Link(target)
            elif (content := tar.extractfile(member)) is not None:
                files[name] = File(content.read(), executable=bool(member.mode & 0o111))
    return files


def is_kept(path: str) -> bool:
    """Whether a file of a package goes into the image."""
    return _KEPT.fullmatch(path) is not None


def used(packages: Iterable[Package]) -> list[Package]:
    """Return the packages that the image has files of, apart from their licenses."""
    return [
        package for package in packages if any(is_kept(path) or _CERTIFICATE.fullmatch(path) for path in package.files)
    ]


def base_layer(packages: Sequence[Package]) -> Layer:
    """Choose the files of the packages, and add what their scripts would have made."""
    layer: Layer = {}
    for package in packages:
        layer |= {path: entry for path, entry in package.files.items() if is_kept(path) or _LICENSE.fullmatch(path)}
    for package in used(packages):
        # Scanners of images without dpkg look for the control files here, as in distroless images.
        layer[f"var/lib/dpkg/status.d/{package.name}"] = File(package.control.encode())
    return layer | _made(packages)


def _made(packages: Sequence[Package]) -> dict[str, Entry]:
    certificates = {
        path: entry.content
        for package in packages
        for path, entry in package.files.items()
        if _CERTIFICATE.fullmatch(path) and isinstance(entry, File)
    }
    bundle = b"".join(certificates[path].rstrip() + b"\n" for path in sorted(certificates))
    return {
        "etc/ssl/certs/ca-certificates.crt": File(bundle),
        "etc/passwd": File(
            b"root:x:0:0:root:/:/usr/sbin/nologin\n"
            b"nonroot:x:%d:%d:nonroot:/home/nonroot:/usr/sbin/nologin\n" % (USER, USER)
        ),
        "etc/group": File(b"root:x:0:\nnonroot:x:%d:\n" % USER),
        "etc/nsswitch.conf": File(b"hosts: files dns\n"),
        "etc/localtime": Link("/usr/share/zoneinfo/Etc/UTC"),
        "usr/sbin": Directory(),
        "proc": Directory(),
        "sys": Directory(),
        "dev": Directory(),
        "releases": Directory(),
        "tmp": Directory(0o1777),
        "home/nonroot": Directory(0o700, USER),
        CACHE: Directory(0o700, USER),
    }
