"""Finds the stack directories of a repository, and the releases that each of them is for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from clusterstacks.csctl.building.packaging import other_versions
from clusterstacks.csctl.building.pinning import exact_versions, with_addon_versions
from clusterstacks.csctl.building.settings import CSCTL, STACK, StackSettings, is_stack, open_minor, read_settings
from clusterstacks.csctl.building.source_tree import TAGS, fill_tags, hash_tree, read_tree
from clusterstacks.model.errors import DependencyError, SpecError, error_context
from clusterstacks.model.versions import InvalidVersion, KubernetesMinor, KubernetesVersion
from clusterstacks.release.errors import SourceBroken

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from clusterstacks.model.files.hashes import Hashes
    from clusterstacks.net.http.client import HTTPClient

PROVIDERS: Final = "providers"
_LEVELS: Final = 3
"""Provider, stack and Kubernetes minor."""

STABLE_VERSIONS: Final = "https://dl.k8s.io/release/"
"""Files with the newest patch of each Kubernetes minor (https://kubernetes.io/releases/download/)."""

_MAX_VERSION_BYTES: Final = 100

NewestPatch: TypeAlias = Callable[[KubernetesMinor], Awaitable[KubernetesVersion]]
"""Returns the newest patch of a Kubernetes minor."""


@dataclass(frozen=True, slots=True)
class StackDirectory:
    """One release to be built: a stack directory and one of its Kubernetes versions."""

    root: Path
    """Absolute."""
    tree: Mapping[str, bytes] = field(repr=False)
    settings: StackSettings
    others: tuple[KubernetesVersion, ...] = ()
    """The other Kubernetes versions that the directory names."""

    @property
    def hashes(self) -> Hashes:
        """The hashes of the source; SpecError if an addon whose version the settings list is missing."""
        if not (exact := exact_versions(self.settings)):
            return hash_tree(self.tree)
        filled = fill_tags(self.tree, dict.fromkeys(TAGS, "v0"))
        # If the charts name these versions already, the hash of their directory is enough.
        pinned = with_addon_versions(filled, self.settings) != filled
        return hash_tree(self.tree, exact if pinned else None)


async def discover_stacks(
    directory: Path, output: Path, *, kubernetes: str, all_minors: bool, newest: NewestPatch | None
) -> tuple[StackDirectory, ...]:
    """Read all stacks of a directory, which is a stack directory or a repository of them.

    ``output`` is the directory of the releases, ``kubernetes`` a minor such as ``1-35`` or ``1.35``, empty for no
    selection. With ``all_minors``, which ``kubernetes`` implies, there is one stack for each minor of stack.yaml and
    versions.yaml. ``newest`` completes the version of a stack that names only a minor; None without network.

    Raises:
        SpecError: A directory is not a valid stack, or no stack is for ``kubernetes``.
        DependencyError: The newest patch cannot be read.
    """
    listed = all_minors or bool(kubernetes)
    found: list[StackDirectory] = []
    patches: dict[KubernetesMinor, KubernetesVersion] = {}
    for root in await asyncio.to_thread(find_stacks, directory):
        with error_context(shown_path(root.absolute())):
            tree = await asyncio.to_thread(read_stack, root, output)
            minor = open_minor(tree, listed=listed)
            if minor and minor not in patches and newest is not None:
                patches[minor] = await newest(minor)
            found += stacks_of(root, tree, patches, listed=listed)
    return selected(found, kubernetes)


def find_stacks(directory: Path) -> tuple[Path, ...]:
    """Return the directory itself if it is a stack, otherwise all stacks below it, in order.

    The stacks of a repository are in ``providers/<provider>/<stack>[/<major>-<minor>]``. The directory ``providers``
    may be missing. Hidden directories and links are skipped, and so are directories inside a stack. Raises SourceBroken
    if there is no stack.
    """
    try:
        providers = directory / PROVIDERS
        found = tuple(_stacks_below(providers if providers.is_dir() and not _is_stack(directory) else directory))
    except OSError as error:
        raise SourceBroken(error.filename or directory, f"cannot be read: {error.strerror}") from None
    if not found:
        raise SourceBroken(
            directory,
            f"is not a stack and contains none: expected a {CSCTL} or {STACK} in it or in {PROVIDERS}/PROVIDER/STACK",
        )
    return found


def read_stack(root: Path, output: Path) -> dict[str, bytes]:
    """Read the files of a stack directory; refuse an ``output`` inside of it, which would change its hash."""
    if output.resolve().is_relative_to(root.resolve()):
        raise SpecError(
            "OutputInSource",
            f"{output} is inside the stack directory {root} and would be part of the source: "
            "choose a directory outside with -d, or run csctl in the root of the repository",
        )
    return read_tree(root)


def stacks_of(
    root: Path,
    tree: Mapping[str, bytes],
    patches: Mapping[KubernetesMinor, KubernetesVersion] | None = None,
    *,
    listed: bool = False,
) -> tuple[StackDirectory, ...]:
    """Return the releases of one stack directory; see :func:`~clusterstacks.csctl.building.settings.read_settings`."""
    found = read_settings(tree, patches, listed=listed)
    return tuple(StackDirectory(root.absolute(), tree, one, other_versions(found, one)) for one in found)


def selected(stacks: Iterable[StackDirectory], kubernetes: str) -> tuple[StackDirectory, ...]:
    """Return the stacks for one Kubernetes minor such as ``1-35`` or ``1.35``; all of them if it is empty.

    Raises SpecError if the minor is not valid, no stack is for it, or two stacks have the same release names.
    """
    known = tuple(stacks)
    minor = KubernetesMinor.parse(kubernetes.replace("-", ".")) if kubernetes else None
    found = tuple(one for one in known if minor in (None, one.settings.kubernetes.series))
    if not found:
        minors = ", ".join(sorted({str(one.settings.kubernetes.series) for one in known}))
        raise SpecError("KubernetesUnknown", f"no stack is for Kubernetes {minor}: --kubernetes takes one of {minors}")
    roots: dict[str, Path] = {}
    for stack in found:
        series = stack.settings.series
        if series in roots:
            problem = f"{roots[series]} and {stack.root} both build releases of {series}"
            raise SpecError("StackTwice", f"{problem}: remove one of them, or choose one of the directories")
        roots[series] = stack.root
    return found


async def newest_patch(web: HTTPClient, minor: KubernetesMinor, base: str = STABLE_VERSIONS) -> KubernetesVersion:
    """Read the newest patch of a minor from the Kubernetes project."""
    url = f"{base}stable-{minor}.txt"
    unknown = f"the newest patch of Kubernetes {minor} is unknown"
    remedy = f"write the patch of {minor} into stack.yaml, or try again"
    try:
        answer = await web.read(url, limit=_MAX_VERSION_BYTES)
        version = KubernetesVersion.parse(answer.body.decode(errors="replace").strip())
    except (InvalidVersion, DependencyError) as error:
        raise DependencyError("SourceUnavailable", f"{unknown}: {error.message}; {remedy}") from None
    if version.series != minor:
        raise DependencyError("SourceUnavailable", f"{unknown}: {url} contains {version}; {remedy}")
    return version


def shown_path(path: Path) -> str:
    """Return a path for messages: relative if it is below the working directory."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)


def _stacks_below(directory: Path, levels: int = _LEVELS) -> Iterator[Path]:
    if _is_stack(directory):
        yield directory
    elif levels:
        for inner in sorted(directory.iterdir()):
            if inner.is_dir() and not inner.is_symlink() and not inner.name.startswith("."):
                yield from _stacks_below(inner, levels - 1)


def _is_stack(directory: Path) -> bool:
    return is_stack({path.name for path in directory.iterdir()})
