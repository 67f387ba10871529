"""Uploads a blob (distribution-spec 1.1, "Pushing blobs"): in one request when it is small, else in parts.

After a lost connection the upload continues at the offset that the registry reports. If the registry does not know the
upload any more (docker's registry after part of a part), the blob is sent again.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING

from yarl import URL

from clusterstacks.net.http.errors import AnswerRefused, ServerUnavailable
from clusterstacks.net.oci.session import PUSH, registry_error
from clusterstacks.net.oci.transfers import TransferRetries, read_pieces, silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from clusterstacks.net.http.response import HTTPResponse
    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.session import Session
    from clusterstacks.net.oci.transfers import TransferProgress

PART_BYTES = 32 * 1024 * 1024
"""Bytes per request, unless the registry requires more (arbitrary: the most that a broken connection repeats)."""

REPORTED_BYTES = 128 * 1024
"""Bytes between two reports of the progress (arbitrary: a slow link sends them within seconds)."""

_MAX_PART_BYTES = 1024 * 1024 * 1024
_RANGE = re.compile(r"(?:bytes=)?0-(\d{1,18})")
_BINARY = {"Content-Type": "application/octet-stream"}
_CREATED, _ACCEPTED, _NO_CONTENT = 201, 202, 204
_UNKNOWN, _OUT_OF_STEP, _FAILING = 404, 416, 500


class UploadLost(ServerUnavailable):
    """The registry has lost the upload; the blob can be sent again."""


@dataclass(frozen=True, slots=True)
class Upload:
    """The upload of a blob; ``content`` are its bytes, or the file with them."""

    session: Session
    blob: Descriptor
    content: bytes | Path
    progress: TransferProgress

    async def run(self) -> None:
        """Send the blob; an OSError means that its file cannot be read."""
        retries = TransferRetries()
        while True:
            try:
                sending = await _Sending.begin(self, retries)
                await (sending.whole() if self.blob.size <= PART_BYTES else sending.in_parts())
            except ServerUnavailable as error:
                await retries.wait(0, error)
            else:
                return

    async def pieces(self, start: int, length: int) -> AsyncIterator[bytes]:
        """Yield a part of the blob and report the progress."""
        if isinstance(self.content, bytes):
            yield self.content[start : start + length]
            return
        done = start
        async for piece in read_pieces(self.content, start, length):
            for begin in range(0, len(piece), REPORTED_BYTES):
                part = piece[begin : begin + REPORTED_BYTES]
                yield part
                done += len(part)
                self.progress(self.blob.title or self.blob.digest, done, self.blob.size)


class _Sending:
    """An upload session of the registry: its URL, which changes with every answer, and the received bytes."""

    def __init__(self, upload: Upload, retries: TransferRetries, answer: HTTPResponse) -> None:
        self._upload = upload
        self._retries = retries
        self._location = next_location(upload.session, answer)
        self._least = _least_part(answer)
        self._received = 0

    @classmethod
    async def begin(cls, upload: Upload, retries: TransferRetries) -> _Sending:
        async with upload.session.open("POST", "blobs/uploads/", access=PUSH, body=b"") as answer:
            if answer.status >= _FAILING:
                raise ServerUnavailable(answer.place, f"it answers with status {answer.status}")
            if answer.status != _ACCEPTED:
                raise await registry_error(answer)
            return cls(upload, retries, answer)

    async def whole(self) -> None:
        await self._finish(0, self._upload.blob.size)

    async def in_parts(self) -> None:
        """Send the blob in parts; after a failed part the registry reports its offset."""
        size = self._upload.blob.size
        while self._received < size:
            try:
                await self._send_part(min(max(PART_BYTES, self._least), size - self._received))
            except UploadLost:
                raise
            except ServerUnavailable as error:
                await self._retries.wait(self._received, error)
                async with self._upload.session.open("GET", self._location, access=PUSH) as answer:
                    await self._note(answer, 0)
        await self._finish(size, 0)

    async def _send_part(self, length: int) -> None:
        start = self._received
        headers = {**_BINARY, "Content-Range": f"{start}-{start + length - 1}"}
        async with self._upload.session.open(
            "PATCH",
            self._location,
            access=PUSH,
            headers=headers,
            body=lambda: self._upload.pieces(start, length),
            length=length,
        ) as answer:
            if answer.status == _OUT_OF_STEP:
                raise ServerUnavailable(answer.place, "it has another part of the upload than it reported")
            await self._note(answer, start + length - 1)

    async def _note(self, answer: HTTPResponse, assumed: int) -> None:
        """Read the next URL and the last received byte from an answer; ``assumed`` when it has none."""
        await _check(answer)
        if "Location" in answer.headers:
            self._location = next_location(self._upload.session, answer)
        match = _RANGE.fullmatch(answer.headers.get("Range", f"0-{assumed}"))
        end = int(match[1]) if match else -1
        if not 0 <= end < self._upload.blob.size:
            raise AnswerRefused(answer.place, "reports an invalid part of the upload")
        # "0-0" means empty: a single byte is never sent.
        self._received = end + 1 if end else 0
        self._least = max(self._least, _least_part(answer))

    async def _finish(self, start: int, length: int) -> None:
        upload = self._upload
        async with upload.session.open(
            "PUT",
            _with_digest(self._location, upload.blob.digest),
            access=PUSH,
            headers=_BINARY,
            body=(lambda: upload.pieces(start, length)) if length else b"",
            length=length,
        ) as answer:
            await _check(answer)


def _least_part(answer: HTTPResponse) -> int:
    text = answer.headers.get("OCI-Chunk-Min-Length", "")
    return min(int(text), _MAX_PART_BYTES) if text.isdecimal() and len(text) < 18 else 0


async def _check(answer: HTTPResponse) -> None:
    if answer.status == _UNKNOWN:
        raise UploadLost(answer.place, "it has lost the upload")
    if answer.status >= _FAILING:
        raise ServerUnavailable(answer.place, f"it answers with status {answer.status}")
    if answer.status not in (_CREATED, _ACCEPTED, _NO_CONTENT):
        raise await registry_error(answer)


def _with_digest(location: URL, digest: str) -> URL:
    # The query belongs to the registry and is returned unchanged.
    joint = "&" if location.raw_query_string else "?"
    return URL(f"{location}{joint}digest={digest}", encoded=True)


def next_location(session: Session, answer: HTTPResponse) -> URL:
    """Return the URL for the next request of an upload; raise AnswerRefused if it is missing or unsafe."""
    location = answer.headers.get("Location", "")
    if not location:
        raise AnswerRefused(answer.place, "does not name the URL of the upload")
    return session.location(answer.url, location)


async def digest_file(path: Path, progress: TransferProgress = silent) -> tuple[str, int]:
    """Return digest and size of a file, which is read in other threads."""
    size = (await asyncio.to_thread(path.stat)).st_size
    digest, done = sha256(), 0
    async for piece in read_pieces(path, 0, size):
        await asyncio.to_thread(digest.update, piece)
        progress(path.name, done := done + len(piece), size)
    return f"sha256:{digest.hexdigest()}", size
