"""Finding the stack directories of a repository, by ``providers/<provider>/<stack>[/<maj>-<min>]``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from clusterstacks.building.settings import CSCTL, STACK, is_stack
from clusterstacks.releases.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROVIDERS: Final = "providers"
_LEVELS: Final = 3
"""Provider, stack and Kubernetes minor."""


def find_stacks(directory: Path) -> tuple[Path, ...]:
    """Return the directory itself when it is that of a stack, else every stack below it, in order.

    A directory ``providers`` inside is where stacks are looked for when there is one. Hidden directories and links are
    passed over, and nothing is looked for inside a stack.

    Raises:
        SourceBroken: There is no stack, or a directory cannot be read.
    """
    try:
        providers = directory / PROVIDERS
        found = tuple(_below(providers if providers.is_dir() and not _is_stack(directory) else directory, _LEVELS))
    except OSError as error:
        raise SourceBroken(error.filename or directory, f"cannot be read: {error.strerror}") from None
    if not found:
        raise SourceBroken(
            directory,
            f"is no stack and holds none: a stack has {CSCTL} or {STACK} and lies in {PROVIDERS}/PROVIDER/STACK",
        )
    return found


def _below(directory: Path, levels: int) -> Iterator[Path]:
    if _is_stack(directory):
        yield directory
    elif levels:
        for inner in sorted(directory.iterdir()):
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _below(inner, levels - 1)


def _is_stack(directory: Path) -> bool:
    return is_stack({path.name for path in directory.iterdir()})
