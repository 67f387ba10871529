"""Downloads a blob to disk, resumed after a lost connection and verified, or reads a part of it."""

from __future__ import annotations

import asyncio
import re
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.net.http.errors import AnswerRefused, ServerUnavailable, store_unavailable
from clusterstacks.net.http.messages import PIECE_BYTES
from clusterstacks.net.oci.errors import ContentCorrupt
from clusterstacks.net.oci.session import registry_error
from clusterstacks.net.oci.transfers import TransferRetries

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator
    from pathlib import Path
    from typing import BinaryIO

    from clusterstacks.net.http.response import HTTPResponse
    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.session import Session
    from clusterstacks.net.oci.transfers import TransferProgress

_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-\d{1,18}/(?:\d{1,18}|\*)")
_WHOLE, _PART, _NO_SUCH_PART = 200, 206, 416


async def download(session: Session, blob: Descriptor, into: Path, progress: TransferProgress) -> None:
    """Write a blob to a new file, which is removed after a failure; see ``Registry.blob``."""
    with _new_file(into) as file:
        partial = _Partial(blob, f"{session.reference.place}@{blob.digest}", file)
        await _fill(session, partial, progress)
        partial.verify()


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Open a new file that is removed when the block fails."""
    try:
        with path.open("xb") as file:
            try:
                yield file
            except BaseException:
                path.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise store_unavailable(path.parent, error) from None


async def _fill(session: Session, partial: _Partial, progress: TransferProgress) -> None:
    retries = TransferRetries()
    while not partial.complete:
        headers = {"Range": f"bytes={partial.size}-"} if partial.size else {}
        try:
            async with session.open("GET", f"blobs/{partial.blob.digest}", headers=headers) as answer:
                if answer.status in (_WHOLE, _PART):
                    partial.accept(answer)
                    await _drain(answer, partial, progress)
                else:
                    await _judge(answer, partial)
        except ServerUnavailable as error:
            await retries.wait(partial.size, error)


async def _judge(answer: HTTPResponse, partial: _Partial) -> None:
    if answer.status != _NO_SUCH_PART or not partial.size:
        raise await registry_error(answer)
    partial.restart()
    raise ServerUnavailable(answer.place, "the download does not continue where it stopped")


async def _drain(answer: HTTPResponse, partial: _Partial, progress: TransferProgress) -> None:
    buffer = bytearray()
    try:
        async for piece in answer.chunks():
            buffer += piece
            if len(buffer) >= PIECE_BYTES:
                # Digesting and writing a piece takes milliseconds, so other tasks run in between.
                full, buffer = buffer, bytearray()
                await asyncio.to_thread(partial.add, full)
            progress(partial.blob.title or partial.blob.digest, partial.size + len(buffer), partial.blob.size)
    finally:
        partial.add(buffer)
    if not partial.complete:
        raise ServerUnavailable(answer.place, f"the download ended after {partial.size} of {partial.blob.size} bytes")


async def read_part(session: Session, digest: str, start: int, length: int) -> AsyncGenerator[bytes]:
    """Yield a part of a blob as it arrives, unverified; see ``Registry.blob_part``."""
    headers = {"Range": f"bytes={start}-{start + length - 1}"}
    async with session.open("GET", f"blobs/{digest}", headers=headers) as answer:
        content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if answer.status == _WHOLE:
            skipped = start  # the registry has no ranges
        elif answer.status == _PART and content_range is not None and int(content_range[1]) == start:
            skipped = 0
        else:
            raise await registry_error(answer)
        left = length
        async for piece in answer.chunks():
            part = piece[skipped : skipped + left]
            skipped -= min(skipped, len(piece))
            left -= len(part)
            if part:
                yield part
            if not left:
                return
        raise ServerUnavailable(answer.place, f"{left} bytes of a part of the blob are missing")


class _Partial:
    """An incomplete file with the digest of its content."""

    def __init__(self, blob: Descriptor, place: str, file: BinaryIO) -> None:
        self.blob = blob
        self.size = 0
        self._place = place
        self._file = file
        self._digest = sha256()

    @property
    def complete(self) -> bool:
        return self.size == self.blob.size

    def accept(self, answer: HTTPResponse) -> None:
        """Prepare for a body that continues or restarts the file."""
        if answer.status == _WHOLE:
            self.restart()
            return
        content_range = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range", ""))
        if content_range is None or int(content_range[1]) != self.size:
            raise AnswerRefused(answer.place, "answered with another part than requested")

    def restart(self) -> None:
        self._file.seek(0)
        self._file.truncate()
        self.size, self._digest = 0, sha256()

    def add(self, piece: bytes | bytearray) -> None:
        if self.size + len(piece) > self.blob.size:
            raise AnswerRefused(self._place, f"has more than the {self.blob.size} bytes in its manifest")
        self._digest.update(piece)
        self._file.write(piece)
        self.size += len(piece)

    def verify(self) -> None:
        self._file.flush()
        digest = f"sha256:{self._digest.hexdigest()}"
        if digest != self.blob.digest:
            raise ContentCorrupt(self._place, expected=self.blob.digest, found=digest)
