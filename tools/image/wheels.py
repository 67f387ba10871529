"""The locked wheels and the wheel of this project, as layers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from clusterstacks.model.errors import SpecError
from tools.image.debian import INTERPRETER, PYTHON
from tools.image.layers import File, Layer, Link

PROJECT = Path(__file__).parents[2]
SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
"""Where Debian's Python looks for packages that Debian did not bring."""

PLATFORMS = {"amd64": "x86_64-manylinux_2_28", "arm64": "aarch64-manylinux_2_28"}
"""What wheels may need of the image (PEP 600): Debian 13 has glibc 2.41."""

PROGRAMS = {
    "manager": "clusterstacks.operator.main",  # the path of the Go operator, by which it knows its flags
    "usr/bin/cluster-stack-operator": "clusterstacks.operator.main",
}
"""Programs of the image, and the modules whose ``main`` they call."""

LARGE = 1_000_000
"""From how many bytes on equal files are stored once (arbitrary: libraries, of which wheels hold copies)."""

_DROPPED = re.compile(
    r"""
    (?:bazel-project | bin | cel_expr_python/ext)/.+      # tests and build files of cel-expr-python; programs
    | share/man/.+
    | clusterstacks/(?:csctl | dev | testing)/.+          # the operator needs no csctl, local environment and pytest
    | \.lock
    | (?:.+/)?(?:__pycache__ | tests?)/.+
    | .+\.dist-info/(?:INSTALLER | RECORD | REQUESTED | direct_url\.json | uv_[^/]+\.json)
    | .+\.(?:c | cpp | h | hpp | pxd | pyi | pyx)
    """,
    re.VERBOSE,
)
"""Files of wheels that nothing in the image reads."""


def is_dropped(path: str) -> bool:
    """Whether a file of a wheel stays out of the image."""
    return _DROPPED.fullmatch(path) is not None


def locked_layer(architecture: str, work: Path) -> Layer:
    """Install the dependencies at the versions and with the hashes of ``uv.lock``.

    Raises:
        SpecError: uv fails; it has printed why.
    """
    requirements, folder = work / "requirements.txt", work / "locked"
    _uv("export", "--frozen", "--no-dev", "--all-extras", "--no-emit-project", "--project", PROJECT, "-o", requirements)
    _install(architecture, folder, "--require-hashes", "-r", requirements)
    return _tree(folder)


def own_layer(architecture: str, work: Path) -> Layer:
    """Build the wheel of this project, install it, and add its programs.

    Raises:
        SpecError: uv fails; it has printed why.
    """
    _install(architecture, work / "own", "--no-deps", wheel_of_project(work / "wheel"))
    return _tree(work / "own") | {path: _program(module) for path, module in PROGRAMS.items()}


def wheel_of_project(folder: Path) -> Path:
    """Build the wheel of this project into a folder.

    Raises:
        SpecError: uv fails; it has printed why.
    """
    # With the build backend of this environment: an isolated build would resolve one without the hashes of uv.lock.
    _uv("build", "--wheel", "--no-build-isolation", "--python", sys.executable, "--out-dir", folder, PROJECT)
    (wheel,) = folder.glob("*.whl")
    return wheel


def _program(module: str) -> File:
    # -I: neither the environment nor the working directory may add code. -B: the image is read-only.
    return File(f"#!{INTERPRETER} -IB\nfrom {module} import main\n\nmain()\n".encode(), executable=True)


def _install(architecture: str, folder: Path, *what: str | Path) -> None:
    target = ("--python-platform", PLATFORMS[architecture], "--python-version", PYTHON, "--target", folder)
    # The image's own interpreter compiles them: see bytecode.
    _uv("pip", "install", *target, "--only-binary", ":all:", "--link-mode", "copy", "--no-compile-bytecode", *what)


def _uv(*arguments: str | Path) -> None:
    uv = Path(sys.prefix, "bin", "uv")
    environment = {
        "UV_SYSTEM_CERTS": "1",
        **os.environ,
        "SOURCE_DATE_EPOCH": "315532800",
    }  # 1980, the first year of zip
    if subprocess.run([uv, "--quiet", *arguments], check=False, env=environment).returncode:
        raise SpecError("InstallationFailed", f"uv {arguments[0]} failed and says above why")


def _tree(folder: Path) -> Layer:
    """Read installed wheels; equal libraries of one directory become links, because wheels cannot hold any."""
    layer: Layer = {}
    first: dict[tuple[Path, bytes], str] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or is_dropped(name):
            continue
        content = path.read_bytes()
        same = (
            first.setdefault((path.parent, sha256(content).digest()), path.name) if len(content) > LARGE else path.name
        )
        layer[f"{SITE}/{name}"] = File(content) if same == path.name else Link(same)
    return layer
