"""Cuts the answer of a watch into events.

aiohttp's own line reader gives up at half a megabyte, and objects reach several: the lines are cut here. An event that
cannot be read costs only itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp

from clusterstacks.api.bounded_json import Undecodable, decode
from clusterstacks.kube.errors import Unreachable
from clusterstacks.kube.failure_status import failure
from clusterstacks.kube.partial_json import decode_partial
from clusterstacks.kube.resources import Resource, WatchEvent

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import timedelta

    from clusterstacks.domain.objects import Manifest


class WatchBroken(Exception):  # never leaves the package
    """A stream that ended otherwise than between two lines; the text says how."""


async def lines(
    content: aiohttp.StreamReader, idle_timeout: timedelta, max_bytes: int
) -> AsyncGenerator[bytes | None, None]:
    """Yield the lines of a stream without their ends; None for one that is longer than ``max_bytes``.

    Raises:
        WatchBroken: Silent for ``idle_timeout``, or an end in the middle of a line.
    """
    begun = bytearray()
    size = 0
    while piece := await _next_piece(content, idle_timeout):
        first, *rest = piece.split(b"\n")
        size += len(first)
        if size <= max_bytes:
            begun += first
        else:
            begun.clear()
        if not rest:
            continue
        yield bytes(begun) if size <= max_bytes else None
        for line in rest[:-1]:
            yield line if len(line) <= max_bytes else None
        begun = bytearray(rest[-1])
        size = len(begun)
    if size:
        raise WatchBroken("the stream ended in the middle of an event")


async def _next_piece(content: aiohttp.StreamReader, idle_timeout: timedelta) -> bytes:
    try:
        async with asyncio.timeout(idle_timeout.total_seconds()):
            return await content.readany()
    except TimeoutError:
        raise WatchBroken(f"silent for {idle_timeout.total_seconds():g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise WatchBroken(f"the connection broke: {str(error) or type(error).__name__}") from None


async def event(line: bytes, resource: Resource, about: str, *, metadata_only: bool) -> WatchEvent:
    """Read one line.

    Raises:
        ClusterStacksError: The server's ERROR event as one of ``errors``; Unreachable for a line that is no event.
    """
    unreadable = ""
    try:
        document = decode(line)
    except Undecodable as error:
        if not error.excess:
            raise _no_event(about) from None
        document, unreadable = await _saved(line), str(error)
    try:
        kind, content = document["type"], document["object"]
    except (KeyError, TypeError):
        raise _no_event(about) from None
    if kind == "ERROR":
        raise _error_event(about, content, confidential=resource.confidential)
    if metadata_only:
        content = strip_to_metadata(content, resource)
    return WatchEvent(kind, content, unreadable)


async def _saved(line: bytes) -> Any:  # noqa: ANN401  # as ``decode``
    try:
        return await decode_partial(line, outer=1)
    except Undecodable:
        return {"type": "", "object": {}}


def _no_event(about: str) -> Unreachable:
    return Unreachable(f"{about}: the server sent a line that is no event")


def strip_to_metadata(item: Manifest, resource: Resource) -> Manifest:
    """Reduce to the metadata, under the kind's own name instead of PartialObjectMetadata."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": item.get("metadata") or {}}


def _error_event(about: str, status: Any, *, confidential: bool) -> Exception:  # noqa: ANN401  # whatever was sent
    body = status if isinstance(status, dict) else {}
    code = body.get("code")
    return failure(about, code if isinstance(code, int) else 500, body, confidential=confidential)
