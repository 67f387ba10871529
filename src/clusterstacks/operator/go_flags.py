"""The Go operator's command line: arguments and environment of its container start ours unchanged.

Its arguments have one dash or two, as Go's flag package takes them. Flags without a meaning here are accepted with a
notice, and none without one.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from clusterstacks.sources.kinds import DIRECTORY, GITHUB, KINDS, OCI

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusterstacks.sources.spec import SourceKind

PROGRAM: Final = "manager"
"""Name of the Go operator's program in its image: ``/manager``."""

RELEASE_DIR: Final = Path("/tmp/downloads")  # noqa: S108 - the path of the Go operator, where its volumes are mounted
"""Where the Go operator keeps releases."""

_TRUE: Final = frozenset({"1", "t", "true"})
_FALSE: Final = frozenset({"0", "f", "false"})
WITHOUT_MEANING: Final = {
    "qps": "requests are bounded by the number of concurrent reconciles, not by a rate",
    "burst": "requests are bounded by the number of concurrent reconciles, not by a rate",
    "hook-port": "this version serves no runtime hooks",
    "hook-cert-dir": "this version serves no runtime hooks",
}


def two_dashes(arguments: Iterable[str]) -> list[str]:
    """Write flags with two dashes; ``-h`` stays."""
    return [f"-{one}" if one[:1] == "-" and one[1:2].isalpha() and len(one) > 2 else one for one in arguments]


def started_as_manager(program: str) -> bool:
    """Tell whether the program was started by the Go operator's path."""
    return Path(program).name == PROGRAM


def add_go_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags that only the Go operator's Deployments still use."""
    for name in WITHOUT_MEANING:
        parser.add_argument(f"--{name}", nargs="?", const="true", default=None, help=argparse.SUPPRESS)
    parser.add_argument(
        "--local",
        type=boolean,
        nargs="?",
        const=True,
        default=False,
        metavar="true|false",
        help="the Go operator's name of --source directory, before which it goes",
    )


def notices(found: argparse.Namespace) -> tuple[str, ...]:
    """Name the flags that were given and have no effect."""
    return tuple(
        f"--{name} has no effect: {why}"
        for name, why in WITHOUT_MEANING.items()
        if getattr(found, name.replace("-", "_")) is not None
    )


def boolean(text: str) -> bool:
    """Read the value of a flag as Go's flag package does.

    Raises:
        argparse.ArgumentTypeError: It is neither true nor false.
    """
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is not true or false")


def source_kind(source: str, *, local: bool, environ: Mapping[str, str]) -> SourceKind[Any]:
    """Choose the source as the Go operator does, except that nothing set means the directory and not GitHub.

    Args:
        source: The flag; empty where it is not given.
        local: The flag ``--local``, which goes before ``--source``.
        environ: The environment; a variable that is set to nothing is not set.
    """
    if local:
        return DIRECTORY
    if source:
        return KINDS[source]
    if environ.get("GIT_ORG_NAME") or environ.get("GIT_REPOSITORY_NAME"):
        return GITHUB
    if environ.get("OCI_REGISTRY") or environ.get("OCI_REPOSITORY"):
        return OCI
    return DIRECTORY


def writable_directory(wanted: Path) -> Path:
    """Return ``wanted`` if it can be written, else a directory of this user below that of temporary files.

    The Go operator's Deployments mount no volume for a cache.

    Raises:
        OSError: There is no such directory either, or it belongs to another user.
    """
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=wanted):
            return wanted
    except OSError:
        fallback = Path(tempfile.gettempdir()) / f"cluster-stacks-{os.getuid()}"
        fallback.mkdir(mode=0o700, exist_ok=True)
        found = fallback.lstat()
        if fallback.is_symlink() or found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise PermissionError(13, "another user can write it", str(fallback)) from None
        return fallback
