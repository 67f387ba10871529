"""Stores chart archives on disk by digest, and the digest of each chart version.

Several processes may share a directory: files appear complete under their final names, and contents are verified when
they are read.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.errors import DependencyError
from clusterstacks.release.charts.lockfile import archive_name
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class DiskChartCache:
    """The chart cache in the directory ``root``, created on the first write; None to store nothing."""

    root: Path | None

    def read(self, digest: str) -> bytes | None:
        """Return the archive of a digest; None if it is missing or damaged."""
        if self.root is None or not _DIGEST.fullmatch(digest):
            return None
        try:
            content = self._archive(self.root, digest).read_bytes()
        except OSError:
            return None
        return content if sha256_digest(content) == digest else None

    def digest(self, repository: str, name: str, version: str) -> str:
        """Return the digest that a chart version had when it was stored; empty if it was not."""
        return dict(self._known(repository, name)).get(version, "")

    def versions(self, repository: str, name: str) -> tuple[str, ...]:
        """List the stored versions of a chart, in no particular order."""
        return tuple(version for version, _ in self._known(repository, name))

    def store(self, repository: str, name: str, version: str, content: bytes) -> None:
        """Store an archive under its digest, then the digest under its chart version."""
        if self.root is None:
            return
        digest = sha256_digest(content)
        note = {"repository": repository, "name": name, "version": version, "digest": digest}
        file = self._notes(self.root, repository, name) / f"{sha256(version.encode()).hexdigest()}.json"
        try:
            _write(self._archive(self.root, digest), content)
            # The record is written last, so its archive exists.
            _write(file, json.dumps(note, sort_keys=True).encode())
        except OSError as error:
            reason = error.strerror or str(error)
            problem = f"the chart cache in {self.root} cannot be used: {reason}; check the directory"
            raise DependencyError("ChartCacheUnavailable", problem) from None

    def _known(self, repository: str, name: str) -> Iterator[tuple[str, str]]:
        if self.root is None:
            return
        for file in sorted(self._notes(self.root, repository, name).glob("*.json")):
            with suppress(OSError, ValueError, RecursionError, KeyError, TypeError):
                note = json.loads(file.read_bytes())
                yield str(note["version"]), str(note["digest"])

    def _archive(self, root: Path, digest: str) -> Path:
        return root / "archives" / archive_name(digest)

    def _notes(self, root: Path, repository: str, name: str) -> Path:
        return root / "versions" / sha256(f"{repository}\n{name}".encode()).hexdigest()


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(target, content, mode=0o600)
