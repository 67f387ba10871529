"""Telling a cluster that is gone from an object that fails alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.kube.errors import CredentialsFailed, Unauthorized, Unreachable

if TYPE_CHECKING:
    from clusterstacks.domain.errors import ClusterStacksError
    from clusterstacks.kube.client import Client


async def raise_outage(client: Client, error: ClusterStacksError) -> None:
    """Raise when an error is not about one object but about the whole cluster; cost a request only when in doubt.

    Without it, hundreds of objects would each wait for their own deadline while a server is frozen.

    Raises:
        DependencyError: The server answers nobody, or does not know us.
    """
    if isinstance(error, (CredentialsFailed, Unauthorized)):
        raise error
    # A webhook may keep one object past the deadline, or make the server answer 5xx.
    if isinstance(error, Unreachable):
        await client.ready()
