"""Archives of charts on this machine's disk, by digest, and which digest a version of a chart had.

Any number of processes may use one directory: files appear whole under their final names, and what is read is verified.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.charts.lockfile import archive_name
from clusterstacks.domain.errors import DependencyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


class ChartCacheUnavailable(DependencyError):
    """The disk below the cache of charts refuses to work."""

    def __init__(self, root: Path, error: OSError) -> None:
        reason = error.strerror or str(error)
        super().__init__("ChartCacheUnavailable", f"the cache of charts in {root} cannot be used: {reason}; look at it")


@dataclass(frozen=True, slots=True)
class Shelf:
    """The cache of charts.

    Args:
        root: Its directory, made when something is kept; None to keep nothing.
    """

    root: Path | None

    def read(self, digest: str) -> bytes | None:
        """Return the archive of a digest; None when it is not there, or not whole."""
        if self.root is None or not _DIGEST.fullmatch(digest):
            return None
        try:
            content = self._archive(self.root, digest).read_bytes()
        except OSError:
            return None
        return content if f"sha256:{sha256(content).hexdigest()}" == digest else None

    def digest(self, repository: str, name: str, version: str) -> str:
        """Return the digest a version of a chart had when it was kept; empty when it was not."""
        return dict(self._known(repository, name)).get(version, "")

    def versions(self, repository: str, name: str) -> tuple[str, ...]:
        """Name the versions of a chart that are kept."""
        return tuple(version for version, _ in self._known(repository, name))

    def keep(self, repository: str, name: str, version: str, content: bytes) -> None:
        """Keep an archive.

        Raises:
            ChartCacheUnavailable: The disk refuses.
        """
        if self.root is None:
            return
        digest = f"sha256:{sha256(content).hexdigest()}"
        note = {"repository": repository, "name": name, "version": version, "digest": digest}
        place = self._notes(self.root, repository, name) / f"{sha256(version.encode()).hexdigest()}.json"
        try:
            _write(self._archive(self.root, digest), content)
            # The note comes last: what it names is there.
            _write(place, json.dumps(note, sort_keys=True).encode())
        except OSError as error:
            raise ChartCacheUnavailable(self.root, error) from None

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
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(target)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
