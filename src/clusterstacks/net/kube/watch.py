"""Splits the stream of a watch into events.

The line reader of aiohttp is limited to half a megabyte, but objects can be larger, so this module splits the lines. An
event that cannot be decoded does not end the watch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from clusterstacks.model.bounded_json import Undecodable, decode
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.kube.failure_status import status_error
from clusterstacks.net.kube.partial_json import decode_partial
from clusterstacks.net.kube.resources import Resource, WatchEvent
from clusterstacks.net.pool import FAILURES, broken
from clusterstacks.net.retry import RequestBroken

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import timedelta

    import aiohttp

    from clusterstacks.model.objects import Manifest


async def lines(
    content: aiohttp.StreamReader, idle_timeout: timedelta, max_bytes: int
) -> AsyncGenerator[bytes | None, None]:
    """Yield the lines of a stream without line breaks; None for a line longer than ``max_bytes``.

    Raises RequestBroken if the stream is idle for ``idle_timeout``, breaks, or ends in the middle of a line.
    """
    pending = bytearray()
    size = 0
    while piece := await _next_piece(content, idle_timeout):
        first, *rest = piece.split(b"\n")
        size += len(first)
        if size <= max_bytes:
            pending += first
        else:
            pending.clear()
        if not rest:
            continue
        yield bytes(pending) if size <= max_bytes else None
        for line in rest[:-1]:
            yield line if len(line) <= max_bytes else None
        pending = bytearray(rest[-1])
        size = len(pending)
    if size:
        raise RequestBroken("the stream ended in the middle of an event")


async def _next_piece(content: aiohttp.StreamReader, idle_timeout: timedelta) -> bytes:
    try:
        async with asyncio.timeout(idle_timeout.total_seconds()):
            return await content.readany()
    except TimeoutError:
        raise RequestBroken(f"no data for {idle_timeout.total_seconds():g} s") from None
    except FAILURES as error:
        raise broken(error) from None


async def event(line: bytes, resource: Resource, about: str, *, metadata_only: bool) -> WatchEvent:
    """Decode one line; raise an ERROR event as one of ``errors``, and Unreachable for any other text."""
    unreadable = ""
    try:
        document = decode(line)
    except Undecodable as error:
        if not error.excess:
            raise _not_an_event(about) from None
        document, unreadable = await _decode_partial_event(line), str(error)
    try:
        kind, content = document["type"], document["object"]
    except (KeyError, TypeError):
        raise _not_an_event(about) from None
    if kind == "ERROR":
        raise _error_event(about, content, confidential=resource.confidential)
    if not isinstance(content, dict):
        raise _not_an_event(about)
    if metadata_only:
        content = strip_to_metadata(content, resource)
    return WatchEvent(kind, content, unreadable)


async def _decode_partial_event(line: bytes) -> Any:  # noqa: ANN401  # as ``decode``
    try:
        return await decode_partial(line, outer=1)
    except Undecodable:
        return {"type": "", "object": {}}


def _not_an_event(about: str) -> Unreachable:
    return Unreachable(f"{about}: the server sent a line that is not a watch event")


def strip_to_metadata(item: Manifest, resource: Resource) -> Manifest:
    """Return only the metadata, with the apiVersion and kind of ``resource`` instead of PartialObjectMetadata."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": item.get("metadata") or {}}


def _error_event(about: str, status: Any, *, confidential: bool) -> Exception:  # noqa: ANN401  # any JSON value
    body = status if isinstance(status, dict) else {}
    code = body.get("code")
    return status_error(about, code if isinstance(code, int) else 500, body, confidential=confidential)
