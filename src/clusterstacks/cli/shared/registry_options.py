"""What the verbs share that talk to registries: options, credentials, lines about long transfers."""

from __future__ import annotations

import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterstacks.cli.shared import output
from clusterstacks.domain.errors import SpecError, told_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from clusterstacks.http.client import HTTPClient
    from clusterstacks.oci.reference import Reference
    from clusterstacks.oci.registry import Registry

CA_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

MAX_CA_BYTES = 4 * 1024 * 1024
"""Largest file of CAs (arbitrary: those of systems have 0.3 MB)."""

EVERY_SECONDS = 3.0
"""How often a line about a long transfer is printed (arbitrary)."""


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """How a server is reached.

    Args:
        ca: A file of CAs that are trusted instead of the system's; None for the system's.
        plain_http: Whether it speaks plain HTTP.
    """

    ca: Path | None = None
    plain_http: bool = False

    def web(self) -> HTTPClient:
        """Return connections; close them."""
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
        # Without one the system's would be trusted.
        raise SpecError("CaEmpty", "the file of the CA is empty: put the CA's certificate into it")
    if len(text) > MAX_CA_BYTES:
        raise SpecError("CaTooLarge", f"the file of the CA has more than {MAX_CA_BYTES} bytes: is it the right one?")
    return text.decode(errors="replace")


def trust_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --ca and --plain-http."""
    plain = click.option("--plain-http", is_flag=True, help="The server speaks plain HTTP; this machine's are asked.")
    return click.option("--ca", type=CA_FILE, help="Trust these CAs (PEM) instead of the system's.")(plain(command))


@asynccontextmanager
async def open_registry(reference: Reference, trust: ServerTrust) -> AsyncIterator[Registry]:
    """Give a repository, with the credentials of who runs this program."""
    import os

    from clusterstacks.oci.credentials import find_credentials
    from clusterstacks.oci.registry import Registry

    async with trust.web() as web:
        credentials = await find_credentials(reference, os.environ)
        yield Registry(web, reference, credentials, plain_http=trust.plain_http, progress=ProgressPrinter())


class ProgressPrinter:
    """Prints how far transfers are, unless they take no time."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, report: Callable[[str], None] | None = None
    ) -> None:
        self._clock = clock
        self._report = report or output.progress()
        self._began: dict[str, tuple[float, int]] = {}
        self._printed = 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Take note of how far it is."""
        now = self._clock()
        began, first = self._began.setdefault(what, (now, done))
        if now - max(began, self._printed) < EVERY_SECONDS:
            return
        self._printed = now
        rate = (done - first) / (now - began) / 1e6
        self._report(f"{what}: {done / 1e6:.0f} of {output.megabytes(total)}, {rate:.1f} MB/s")


def repository_or_environment(text: str | None) -> Reference:
    """Read a reference, or what OCI_REGISTRY and OCI_REPOSITORY say without one."""
    import os

    from clusterstacks.oci.reference import Reference

    found = Reference.parse(text) if text else Reference.from_environ(os.environ)
    if found is None:
        raise click.UsageError("name a repository, or set OCI_REGISTRY and OCI_REPOSITORY")
    return found
