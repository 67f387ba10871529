"""Files of a release as they come from a server: each bounded, counted and compared with what the source states."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from clusterstacks.domain.digests import sha256_digest
from clusterstacks.domain.documents import shown
from clusterstacks.http.errors import SourceUnavailable, StoreUnavailable
from clusterstacks.releases.errors import ReleaseBroken
from clusterstacks.releases.release_source import MAX_FILE_BYTES, MAX_FILES, MAX_RELEASE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from hashlib import _Hash
    from typing import IO

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.http.messages import HTTPResponse

DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MAX_NAME_BYTES = 255
"""Longest file name Linux stores."""


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """What a source says of a file before it is fetched.

    Args:
        name: How the file is called in the release.
        digest: ``sha256:`` and 64 lower-case hex digits; empty where the source does not say.
        size: In bytes; None where the source does not say.
    """

    name: str
    digest: str = ""
    size: int | None = None

    @property
    def hex(self) -> str:
        """The digest without its ``sha256:``."""
        return self.digest.removeprefix("sha256:")


def check_files(release: ReleaseName, files: Sequence[ExpectedFile]) -> None:
    """Check, before anything is fetched, that a release of these files can be stored.

    Raises:
        ReleaseBroken: There are too many, one is stated too large, or has a name that is none or is there twice.
    """
    if len(files) > MAX_FILES:
        raise ReleaseBroken(
            release, shown(files[MAX_FILES].name), f"is one more than the {MAX_FILES} files it may have"
        )
    seen: set[str] = set()
    total = 0
    for file in files:
        if not is_file_name(file.name) or file.name in seen:
            raise ReleaseBroken(release, shown(file.name), "is there twice, or is no name of a file")
        seen.add(file.name)
        total += _check_size(release, file)
    if total > MAX_RELEASE_BYTES:
        raise ReleaseBroken(release, "all files together", f"are larger than {MAX_RELEASE_BYTES} bytes")


def is_file_name(name: str) -> bool:
    """Tell whether a file of this name stays where it is put, and can be shown."""
    plain = name.isprintable() and not {"/", "\\"} & set(name)
    return plain and name not in {"", ".", ".."} and len(name.encode(errors="replace")) <= _MAX_NAME_BYTES


async def save_body(answer: HTTPResponse, file: ExpectedFile, into: Path, *, release: ReleaseName, room: int) -> int:
    """Write the body of an answer into ``into/<name>`` and return its size in bytes.

    Args:
        answer: Whose status was looked at.
        file: What its body must be.
        into: A directory that has no such file.
        release: For messages.
        room: How many bytes of the release's bound are left.

    Raises:
        ReleaseBroken: The file is too large.
        SourceUnavailable: The connection broke, or the content is not what was stated: it may be replaced right now.
        StoreUnavailable: The disk refuses.
    """
    digest, size = sha256(), 0
    try:
        writer = await asyncio.to_thread(Path(into, file.name).open, "xb")
        try:
            async for piece in answer.chunks():
                size += len(piece)
                _check_growth(release, file, size, room)
                await asyncio.to_thread(_take, writer, digest, piece)
        finally:
            await asyncio.to_thread(writer.close)
    except OSError as error:
        raise StoreUnavailable(into, error) from None
    _check_content(answer.place, file, f"sha256:{digest.hexdigest()}", size)
    return size


def check_content(place: str, file: ExpectedFile, content: bytes) -> None:
    """Compare a file that was read whole with what was stated of it.

    Raises:
        SourceUnavailable: It is something else.
    """
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
        raise SourceUnavailable(place, f"it has {size} bytes, but {file.size} are stated; publish it again")
    if file.digest and digest != file.digest:
        raise SourceUnavailable(place, f"it has the digest {digest}, but {file.digest} is stated; publish it again")


def _take(writer: IO[bytes], digest: _Hash, piece: bytes) -> None:
    digest.update(piece)
    writer.write(piece)
