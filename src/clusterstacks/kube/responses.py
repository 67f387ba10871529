"""Responses of aiohttp whose connection is aborted when they are given up."""

from __future__ import annotations

import aiohttp


class AbortingResponse(aiohttp.ClientResponse):
    """A response that aborts its connection when it is closed before its end, e.g. by a cancelled request.

    aiohttp begins the orderly end of TLS instead and forgets the connection: a server that does not answer keeps it
    open, even after the session is closed.
    """

    def close(self) -> None:
        """Abort the connection unless the whole response was read."""
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()
