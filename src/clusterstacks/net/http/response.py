"""A response of a web server or registry whose body is not read yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.net.http.errors import AnswerRefused, CredentialsRefused, NotThere, ServerUnavailable
from clusterstacks.net.http.messages import PIECE_BYTES, shown_url
from clusterstacks.net.pool import FAILURES, broken, read_body
from clusterstacks.net.retry import RequestBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp


class HTTPResponse:
    """A response; it must be released."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = response.headers
        self.url = str(response.url)
        """The URL after redirects; its query may contain a signature, so it must not be shown."""
        self.place = shown_url(response.url)
        """Name of the target in messages; by default, the URL without secrets."""

    def error(self) -> NotThere | CredentialsRefused | AnswerRefused:
        """Return the error for an unexpected status."""
        match self.status:
            case 404:
                return NotThere(self.place)
            case 401 | 403:
                return CredentialsRefused(self.place, self.status)
            case _:
                return AnswerRefused(self.place, f"responds with status {self.status}")

    async def read(self, limit: int) -> bytes:
        """Read the body; raise AnswerRefused if it exceeds ``limit`` bytes, ServerUnavailable if it is incomplete."""
        try:
            body = await read_body(self._response.content.iter_any(), limit)
        except RequestBroken as error:
            raise self._incomplete(error) from None
        if body is None:
            raise AnswerRefused(self.place, f"sent more than the {limit} bytes that are allowed here")
        return body

    async def chunks(self) -> AsyncIterator[bytes]:
        """Read the body in pieces of at most ``PIECE_BYTES``; raise ServerUnavailable if the connection is lost."""
        try:
            async for piece in self._response.content.iter_chunked(PIECE_BYTES):
                yield piece
        except FAILURES as error:
            raise self._incomplete(broken(error)) from None

    def release(self) -> None:
        """Return the connection to the pool; close it when part of the body is unread."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()

    def _incomplete(self, error: RequestBroken) -> ServerUnavailable:
        return ServerUnavailable(self.place, f"the response was incomplete: {error}")
