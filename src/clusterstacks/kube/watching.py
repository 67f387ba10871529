"""Cut a watch's answer into events.

aiohttp's own line reader gives up at half a megabyte, and objects reach several: the lines are cut here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import orjson

from clusterstacks.kube.errors import Unreachable
from clusterstacks.kube.resources import Resource, WatchEvent
from clusterstacks.kube.status import failure

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from datetime import timedelta

    from clusterstacks.domain.objects import Manifest

MAX_LINE_BYTES = 32 * 1024 * 1024
"""Longest event (arbitrary; etcd holds 1.5 MB an object, which as JSON and in managedFields grows several times)."""


class Broken(Exception):  # never leaves the package
    """A stream that ended otherwise than between two lines; the text says how."""


async def lines(content: aiohttp.StreamReader, silence: timedelta) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a stream without their ends; one that is cut off by the end of the stream is an error.

    Raises:
        Broken: Silent for ``silence``, a line over ``MAX_LINE_BYTES``, or an end in the middle of a line.
    """
    begun = bytearray()
    while piece := await _next_piece(content, silence):
        first, *rest = piece.split(b"\n")
        begun += first
        if len(begun) > MAX_LINE_BYTES:
            raise Broken(f"an event is larger than {MAX_LINE_BYTES} bytes")
        if not rest:
            continue
        yield bytes(begun)
        for line in rest[:-1]:
            yield line
        begun = bytearray(rest[-1])
    if begun:
        raise Broken("the stream ended in the middle of an event")


async def _next_piece(content: aiohttp.StreamReader, silence: timedelta) -> bytes:
    try:
        async with asyncio.timeout(silence.total_seconds()):
            return await content.readany()
    except TimeoutError:
        raise Broken(f"silent for {silence.total_seconds():g} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise Broken(f"the connection broke: {str(error) or type(error).__name__}") from None


def event(line: bytes, resource: Resource, about: str, *, metadata_only: bool) -> WatchEvent:
    """Read one line.

    Raises:
        ClusterStacksError: The server's ERROR event as one of ``errors``; Unreachable for a line that is no event.
    """
    try:
        document = orjson.loads(line)
        kind, content = document["type"], document["object"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise Unreachable(f"{about}: the server sent a line that is no event") from None
    if kind == "ERROR":
        raise _error_event(about, content, confidential=resource.confidential)
    return WatchEvent(kind, bare(content, resource) if metadata_only else content)


def bare(item: Manifest, resource: Resource) -> Manifest:
    """Reduce to the metadata, under the kind's own name instead of PartialObjectMetadata."""
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": item.get("metadata") or {}}


def _error_event(about: str, status: Any, *, confidential: bool) -> Exception:  # noqa: ANN401  # whatever was sent
    body = status if isinstance(status, dict) else {}
    code = body.get("code")
    return failure(about, code if isinstance(code, int) else 500, body, confidential=confidential)
