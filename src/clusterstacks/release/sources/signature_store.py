"""Stores signatures and statements of stages beside release directories, and keys."""

from __future__ import annotations

import asyncio
import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING

from clusterstacks.model.errors import SpecError
from clusterstacks.release.release_source import EnvelopeKind
from clusterstacks.release.signing.envelope import parse_envelope
from clusterstacks.release.signing.errors import SignatureRefused, key_unusable
from clusterstacks.release.signing.keys import MAX_KEY_BYTES, new_key_pair
from clusterstacks.release.signing.statement import release_envelope
from clusterstacks.release.sources.directory import DirectorySource
from clusterstacks.runtime.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from clusterstacks.release.contents import Contents
    from clusterstacks.release.signing.envelope import Envelope
    from clusterstacks.release.signing.keys import PrivateKey

PUBLIC_SUFFIX = ".pub"

_RETRY_SECONDS = 0.02
"""Between two attempts at a lock that another signer holds (arbitrary; signing takes a few ms)."""


def signature_file(contents: Contents) -> Path:
    """Return the file with the signatures, beside the release's directory, because it is not part of the release."""
    return contents.root.with_name(EnvelopeKind.SIGNATURE.file(contents.release))


def stages_file(contents: Contents) -> Path:
    """Return the file with the statements of stages, beside the release's directory."""
    return contents.root.with_name(EnvelopeKind.STAGES.file(contents.release))


async def sign_beside(contents: Contents, key: PrivateKey) -> bool:
    """Add a signature to the file beside a release; False when the key signed it before and nothing changes.

    Concurrent signers wait for each other, so no signature is lost.

    Raises:
        SpecError: The file belongs to another release, or it is full.
    """
    lock = await _lock(contents.root)
    try:
        evidence = await DirectorySource(contents.root.parent).evidence(contents.release)
        begun = release_envelope(contents.release, contents.files, *evidence.envelopes)
        signed = begun.signed(key)
        if signed != begun:
            await asyncio.to_thread(replace_file, signature_file(contents), signed.text())
        return signed != begun
    finally:
        os.close(lock)


async def attest_beside(contents: Contents, envelope: Envelope) -> None:
    """Add the statement of a stage to the file beside a release; concurrent writers wait for each other.

    Raises:
        SpecError: The file is full.
    """
    file, lock = stages_file(contents), await _lock(contents.root)
    try:
        present = await DirectorySource(contents.root.parent).evidence(contents.release, EnvelopeKind.STAGES)
        content = stage_lines((*present.envelopes, envelope.text()))
        if len(content) > EnvelopeKind.STAGES.limit or not present.complete:
            raise SpecError("StatementsFull", f"{file} is full: remove the lines of stages that are not needed")
        await asyncio.to_thread(replace_file, file, content)
    finally:
        os.close(lock)


def stage_lines(envelopes: Iterable[bytes]) -> bytes:
    """Write valid envelopes once, each on one line."""
    lines: dict[bytes, None] = {}
    for text in envelopes:
        with suppress(SignatureRefused):
            lines[parse_envelope(text).text(indent=None)] = None
    return b"".join(lines)


def write_new_key(path: Path, password: bytes = b"") -> Path:
    """Create a key pair: the private key in ``path``, readable by its owner only, the public one in ``path.pub``.

    Return the file of the public key. A key is never overwritten (:class:`SpecError`).
    """
    private, public = new_key_pair(password)
    beside = path.with_name(f"{path.name}{PUBLIC_SUFFIX}")
    _create(beside, public, 0o644)
    try:
        _create(path, private, 0o600)
    except BaseException:
        beside.unlink()
        raise
    return beside


def read_key_file(path: Path) -> bytes:
    """Read a file with keys, up to just above the limit."""
    with path.open("rb") as file:
        return file.read(MAX_KEY_BYTES + 1)


async def _lock(directory: Path) -> int:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        # Not in a thread: waiting signers would take the threads that the working one needs.
        while not _locked(handle):  # noqa: ASYNC110 - another process does not report when it is done
            await asyncio.sleep(_RETRY_SECONDS)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _create(path: Path, content: bytes, mode: int) -> None:
    """Write a new file completely and sync it, or leave none."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    except FileExistsError:
        raise key_unusable(path, "already exists and is not overwritten: choose another name") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(handle)
    except OSError as error:
        path.unlink()
        raise OSError(
            error.errno, error.strerror, str(path)
        ) from None  # the error of a failed write does not name the file
