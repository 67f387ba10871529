"""Registry options: trust, credentials and progress of transfers."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import FILE
from clusterstacks.domain.errors import SpecError, told_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from clusterstacks.http.client import HTTPClient
    from clusterstacks.oci.reference import Reference
    from clusterstacks.oci.registry import Registry

MAX_CA_BYTES = 4 * 1024 * 1024
"""Size limit of a CA file (arbitrary: system bundles have 0.3 MB)."""

PROGRESS_INTERVAL_SECONDS = 3.0
"""Interval of progress lines (arbitrary)."""


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """Trust in a server.

    Args:
        ca: A file with CA certificates; None for the certificates of the system.
        plain_http: Use plain HTTP.
    """

    ca: Path | None = None
    plain_http: bool = False

    def web(self) -> HTTPClient:
        """Return an HTTP client, which the caller closes."""
        from clusterstacks.http.client import HTTPClient

        if self.ca is None:
            return HTTPClient(plain_http=self.plain_http, report=output.progress(), trace=output.trace)
        with told_of(self.ca):
            ca = _read_ca(self.ca)
            return HTTPClient(ca=ca, plain_http=self.plain_http, report=output.progress(), trace=output.trace)


def _read_ca(path: Path) -> str:
    with path.open("rb") as file:
        text = file.read(MAX_CA_BYTES + 1)
    if not text.strip():
        # With an empty file, the CAs of the system would be trusted.
        raise SpecError("CaEmpty", "the CA file is empty: write the certificate of the CA into it")
    if len(text) > MAX_CA_BYTES:
        raise SpecError(
            "CaTooLarge", f"the CA file is larger than {MAX_CA_BYTES} bytes: check that it is the right file"
        )
    return text.decode(errors="replace")


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --ca and --plain-http."""
    plain = click.option("--plain-http", is_flag=True, help="Use plain HTTP. Not needed for servers on this machine.")
    return click.option("--ca", type=FILE, help="Trust these CA certificates (PEM) instead of those of the system.")(
        plain(command)
    )


@asynccontextmanager
async def open_registry(reference: Reference, trust: ServerTrust) -> AsyncIterator[Registry]:
    """Yield a repository in a registry, with the credentials of the user."""
    import os

    from clusterstacks.oci.credentials import find_credentials
    from clusterstacks.oci.registry import Registry

    async with trust.web() as web:
        credentials = await find_credentials(reference, os.environ)
        yield Registry(web, reference, credentials, plain_http=trust.plain_http, progress=ProgressPrinter())


class ProgressPrinter:
    """Prints the progress of long transfers."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, report: Callable[[str], None] | None = None
    ) -> None:
        self._clock = clock
        self._report = report or output.progress()
        self._began: dict[str, tuple[float, int]] = {}
        self._printed = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Receive the progress of a transfer in bytes; print it at most every ``PROGRESS_INTERVAL_SECONDS``."""
        now = self._clock()
        began, first = self._began.setdefault(what, (now, done))
        if now - max(began, self._printed) < PROGRESS_INTERVAL_SECONDS:
            return
        self._printed = now
        rate = (done - first) / (now - began) / 1e6
        self._report(f"{what}: {done / 1e6:.0f} of {output.megabytes(total)}, {rate:.1f} MB/s")


def repository_or_environment(text: str | None) -> Reference:
    """Parse a reference; without one, use OCI_REGISTRY and OCI_REPOSITORY."""
    import os

    from clusterstacks.oci.reference import Reference

    found = Reference.parse(text) if text else Reference.from_environ(os.environ)
    if found is None:
        raise click.UsageError("the repository is missing: name one, or set OCI_REGISTRY and OCI_REPOSITORY")
    return found
