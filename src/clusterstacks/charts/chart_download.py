"""Requests to chart repositories: only to places that are allowed, whatever redirects say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.charts.errors import ChartRepositoryRefused
from clusterstacks.http.allowlist import host_of
from clusterstacks.http.response import place, refusal
from clusterstacks.oci.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yarl import URL

    from clusterstacks.http.allowlist import AllowedHosts
    from clusterstacks.http.client import Web
    from clusterstacks.oci.docker_config import RegistryCredentials

    FindCredentials = Callable[[Reference], Awaitable[RegistryCredentials]]


@dataclass(frozen=True, slots=True)
class Downloads:
    """What may be asked, and as whom.

    Args:
        web: What carries the requests.
        allowed: The places that may be asked; None for all.
        credentials: Finds those for a registry or for the host of a repository.
    """

    web: Web
    allowed: AllowedHosts | None
    credentials: FindCredentials

    def check(self, subject: object, url: str) -> None:
        """Refuse a place that may not be asked.

        Args:
            subject: What is looked for there, for the message.
            url: The place.

        Raises:
            ChartRepositoryRefused: It may not.
        """
        if self.allowed is not None and not self.allowed.allows(url):
            host = host_of(url)
            way_out = f"allow {host} with --chart-repositories" if host else "correct it"
            raise ChartRepositoryRefused(subject, place(url), "may not be asked", way_out)

    async def get(self, subject: object, url: URL, limit: int) -> bytes:
        """Read a document of at most ``limit`` bytes.

        Raises:
            ChartRepositoryRefused: The place, or one it redirects to, may not be asked.
            DependencyError: It cannot be had now.
        """
        self.check(subject, str(url))
        headers = await self._authorization(url)
        async with self.web.open(
            "GET", str(url), headers=headers, check=lambda target: self.check(subject, target)
        ) as answer:
            if answer.status != 200:
                raise refusal(answer)
            return await answer.read(limit)

    async def _authorization(self, url: URL) -> dict[str, str]:
        # Configuration files name hosts; a path of a web server need not be one of a registry.
        credentials = await self.credentials(Reference(url.authority, "charts"))
        return {"Authorization": f"Basic {credentials.basic}"} if credentials.username else {}
