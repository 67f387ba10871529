"""HTTP response that aborts its connection when it is abandoned."""

from __future__ import annotations

import aiohttp


class AbortingResponse(aiohttp.ClientResponse):
    """Response that aborts its connection when it is closed before its end, e.g. by a cancelled request.

    aiohttp starts an orderly TLS shutdown instead and forgets the connection. If the server does not answer, the
    connection stays open even after the session is closed.
    """

    def close(self) -> None:
        """Abort the connection unless the whole response was read."""
        if self.connection is not None and self.connection.transport is not None:
            self.connection.transport.abort()
        super().close()
