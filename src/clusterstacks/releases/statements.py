"""What releases state about versions, read from directories that need to hold nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.api import yaml
from clusterstacks.domain.compatibility import FILE, parse_compatibility
from clusterstacks.domain.documents import Node
from clusterstacks.domain.names import InvalidName, ReleaseName, parse_release
from clusterstacks.domain.planning.world import Candidate
from clusterstacks.domain.versions import InvalidVersion, KubernetesVersion
from clusterstacks.releases.charts import MAX_DOCUMENT_BYTES
from clusterstacks.releases.errors import ReleaseBroken, SourceBroken
from clusterstacks.releases.release import METADATA

if TYPE_CHECKING:
    from pathlib import Path


def read_candidates(root: Path) -> tuple[Candidate, ...]:
    """Read ``metadata.yaml`` and ``compatibility.yaml`` of each release's directory below ``root``.

    Directories without ``metadata.yaml``, and those whose names are none of a release, are left out.

    Raises:
        SpecError: A file cannot be read; the message names release, file and field.
    """
    try:
        directories = sorted(path for path in root.iterdir() if path.is_dir() and (path / METADATA).is_file())
    except OSError as error:
        raise SourceBroken(root, f"cannot be read: {error.strerror}") from None
    return tuple(read_candidate(name, path) for path in directories if (name := _name(path.name)) is not None)


def read_candidate(name: ReleaseName, directory: Path) -> Candidate:
    """Read one release; raises as :func:`read_candidates`."""
    kubernetes = _kubernetes(name, directory)
    if not (directory / FILE).exists():
        return Candidate(name, kubernetes)
    stated = parse_compatibility(_document(name, directory, FILE), file=_label(name, FILE))
    return Candidate(name, kubernetes, stated)


def _name(text: str) -> ReleaseName | None:
    try:
        return parse_release(text)
    except InvalidName:
        return None


def _kubernetes(name: ReleaseName, directory: Path) -> KubernetesVersion:
    node = Node(_document(name, directory, METADATA), _label(name, METADATA)).child("versions").child("kubernetes")
    try:
        version = KubernetesVersion.parse(node.value)
    except InvalidVersion:
        raise node.refuse("write a full Kubernetes version like v1.34.7") from None
    if version.series != name.kubernetes:
        problem = f"is for Kubernetes {version}, the name says {name.kubernetes}"
        raise ReleaseBroken(name, METADATA, f"{problem}: publish the release under its own name")
    return version


def _document(name: ReleaseName, directory: Path, file: str) -> object:
    try:
        with (directory / file).open("rb") as reader:
            content = reader.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise ReleaseBroken(name, file, f"cannot be read: {error.strerror}") from None
    return yaml.load(content, name=_label(name, file), max_bytes=MAX_DOCUMENT_BYTES)


def _label(name: ReleaseName, file: str) -> str:
    return f"release {name}: {file}"
