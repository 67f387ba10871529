"""Compatibility statements of releases, read from metadata.yaml and compatibility.yaml alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.model import yaml
from clusterstacks.model.documents import Node
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import FILE, parse_compatibility
from clusterstacks.model.names import ReleaseName, release_named
from clusterstacks.model.versions import InvalidVersion, KubernetesVersion
from clusterstacks.plan.compat.world import Candidate
from clusterstacks.release.charts.chart import MAX_DOCUMENT_BYTES
from clusterstacks.release.errors import ReleaseBroken, ReleaseNotFound, SourceBroken
from clusterstacks.release.release import METADATA
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from clusterstacks.release.release_source import ReleaseSource


def read_candidates(root: Path) -> tuple[Candidate, ...]:
    """Read ``metadata.yaml`` and ``compatibility.yaml`` of each release's directory below ``root``, or of ``root``.

    Directories without ``metadata.yaml`` or without the name of a release are skipped.

    Raises:
        SpecError: A file is not valid; the message contains release, file and field.
    """
    try:
        directories = sorted(path for path in (root, *root.iterdir()) if path.is_dir() and (path / METADATA).is_file())
    except OSError as error:
        raise SourceBroken(root, f"cannot be read: {error.strerror}") from None
    return tuple(read_candidate(name, path) for path in directories if (name := release_named(path.name)) is not None)


def read_candidate(name: ReleaseName, directory: Path) -> Candidate:
    """Read one release; raises as :func:`read_candidates`."""
    files = [METADATA, *([FILE] if (directory / FILE).exists() else [])]
    return _candidate(name, {file: _content(name, directory, file) for file in files})


async def fetch_candidates(
    source: ReleaseSource,
    names: Iterable[ReleaseName],
    found: Callable[[ReleaseName, Candidate | SpecError | ReleaseNotFound], None],
    *,
    at_once: int = 1,
) -> None:
    """Read the statements of published releases, the newest first, without downloading the rest of them.

    Signatures are not verified: no delivery may depend on the statements. ``found`` is called for each release with its
    statements, or with the error if it is broken or no longer there. If the source cannot be read, it was called for
    some releases.
    """

    async def fetch(name: ReleaseName) -> None:
        try:
            found(name, await fetch_candidate(source, name))
        except (SpecError, ReleaseNotFound) as error:
            found(name, error)

    await gather(fetch, sorted(names, reverse=True), at_once=at_once)


async def fetch_candidate(source: ReleaseSource, name: ReleaseName) -> Candidate:
    """Read the statements of one published release; raises as :func:`fetch_candidates`, also when a file is broken."""
    files = await source.read(name, (METADATA, FILE), MAX_DOCUMENT_BYTES)
    if METADATA not in files:
        raise ReleaseBroken(name, METADATA, "is missing; publish the release again")
    return _candidate(name, files)


def _candidate(name: ReleaseName, files: Mapping[str, bytes]) -> Candidate:
    kubernetes = _kubernetes(name, files[METADATA])
    if FILE not in files:
        return Candidate(name, kubernetes)
    stated = parse_compatibility(_document(name, FILE, files[FILE]), file=_label(name, FILE))
    return Candidate(name, kubernetes, stated)


def _kubernetes(name: ReleaseName, content: bytes) -> KubernetesVersion:
    node = Node(_document(name, METADATA, content), _label(name, METADATA)).child("versions").child("kubernetes")
    try:
        version = KubernetesVersion.parse(node.value)
    except InvalidVersion:
        raise node.refuse("expected a full Kubernetes version, for example v1.34.7") from None
    if version.series != name.kubernetes:
        problem = f"is for Kubernetes {version}, but the name of the release says {name.kubernetes}"
        raise ReleaseBroken(name, METADATA, f"{problem}; publish the release under its own name")
    return version


def _content(name: ReleaseName, directory: Path, file: str) -> bytes:
    try:
        with (directory / file).open("rb") as reader:
            return reader.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise ReleaseBroken(name, file, f"cannot be read: {error.strerror}") from None


def _document(name: ReleaseName, file: str, content: bytes) -> object:
    return yaml.load(content, name=_label(name, file), max_bytes=MAX_DOCUMENT_BYTES)


def _label(name: ReleaseName, file: str) -> str:
    return f"release {name}: {file}"
