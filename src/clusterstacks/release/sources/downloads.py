"""Downloads of release files: bounded, and compared with the size and digest that the source states."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.documents import shown
from clusterstacks.net.http.errors import SourceUnavailable, store_unavailable
from clusterstacks.release.errors import ReleaseBroken
from clusterstacks.release.release_source import MAX_FILE_BYTES, MAX_FILES, MAX_RELEASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from hashlib import _Hash
    from typing import IO

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.http.response import HTTPResponse

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_NAME_BYTES = 255
"""Longest file name on Linux."""


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """A file as a source lists it, before the download."""

    name: str
    digest: str = ""
    """``sha256:`` and 64 lower-case hex digits; empty when the source does not state it."""
    size: int | None = None
    """In bytes; None when the source does not state it."""

    @property
    def hex(self) -> str:
        """The digest without its ``sha256:``."""
        return self.digest.removeprefix("sha256:")


def check_files(release: ReleaseName, files: Sequence[ExpectedFile]) -> None:
    """Check before the download that a release of these files can be stored.

    Raises:
        ReleaseBroken: There are too many files, or a file is too large, listed twice or has an invalid name.
    """
    if len(files) > MAX_FILES:
        raise ReleaseBroken(
            release, shown(files[MAX_FILES].name), f"exceeds the limit of {MAX_FILES} files for a release"
        )
    seen: set[str] = set()
    total = 0
    for file in files:
        if not is_file_name(file.name) or file.name in seen:
            raise ReleaseBroken(release, shown(file.name), "is listed twice, or is not a valid file name")
        seen.add(file.name)
        total += _check_size(release, file)
    if total > MAX_RELEASE_BYTES:
        raise ReleaseBroken(release, "all files together", f"are larger than {MAX_RELEASE_BYTES} bytes")


def is_file_name(name: str) -> bool:
    """Return whether a name is a plain file name that stays in its directory and can be printed."""
    plain = name.isprintable() and not {"/", "\\"} & set(name)
    return plain and name not in {"", ".", ".."} and len(name.encode(errors="replace")) <= _MAX_NAME_BYTES


async def save_body(answer: HTTPResponse, file: ExpectedFile, into: Path, *, release: ReleaseName, room: int) -> int:
    """Write the body of an answer with a checked status into a new file ``into/<name>``; return its size in bytes.

    ``room`` is the number of bytes that remain of the release's limit.

    Raises:
        ReleaseBroken: The file is too large.
        SourceUnavailable: The connection was lost, or the content is not the expected one: it may be being replaced.
    """
    digest, size = sha256(), 0
    try:
        writer = await asyncio.to_thread(Path(into, file.name).open, "xb")
        try:
            async for piece in answer.chunks():
                size += len(piece)
                _check_growth(release, file, size, room)
                await asyncio.to_thread(_write_piece, writer, digest, piece)
        finally:
            await asyncio.to_thread(writer.close)
    except OSError as error:
        raise store_unavailable(into, error) from None
    _check_content(answer.place, file, f"sha256:{digest.hexdigest()}", size)
    return size


def check_content(place: str, file: ExpectedFile, content: bytes) -> None:
    """Compare the content of a file with the expected one; raises :class:`SourceUnavailable` if they differ."""
    _check_content(place, file, sha256_digest(content), len(content))


def _check_size(release: ReleaseName, file: ExpectedFile) -> int:
    if (file.size or 0) > MAX_FILE_BYTES:
        raise ReleaseBroken(release, file.name, f"is larger than {MAX_FILE_BYTES} bytes")
    return file.size or 0


def _check_growth(release: ReleaseName, file: ExpectedFile, size: int, room: int) -> None:
    if size > MAX_FILE_BYTES:
        raise ReleaseBroken(release, file.name, f"is larger than {MAX_FILE_BYTES} bytes")
    if size > room:
        raise ReleaseBroken(release, file.name, f"makes the release larger than {MAX_RELEASE_BYTES} bytes")


def _check_content(place: str, file: ExpectedFile, digest: str, size: int) -> None:
    if file.size is not None and size != file.size:
        raise SourceUnavailable(place, f"it has {size} bytes, but the source states {file.size}; publish it again")
    if file.digest and digest != file.digest:
        raise SourceUnavailable(place, f"its digest is {digest}, but the source states {file.digest}; publish it again")


def _write_piece(writer: IO[bytes], digest: _Hash, piece: bytes) -> None:
    digest.update(piece)
    writer.write(piece)
