"""Registry options: trust and credentials."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import FILE
from clusterstacks.csctl.shared.transfer_bar import transfer_bar
from clusterstacks.model.errors import SpecError, error_context

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.net.oci.registry import Registry

MAX_CA_BYTES = 4 * 1024 * 1024
"""Size limit of a CA file (arbitrary: system bundles have 0.3 MB)."""


@dataclass(frozen=True, slots=True)
class ServerTrust:
    """Trust in a server: a file with CA certificates (None for those of the system), and whether plain HTTP is used."""

    ca: Path | None = None
    plain_http: bool = False

    def web(self) -> HTTPClient:
        """Return an HTTP client, which the caller closes."""
        from clusterstacks.net.http.client import HTTPClient

        if self.ca is None:
            return HTTPClient(plain_http=self.plain_http, report=output.progress(), trace=output.trace)
        with error_context(self.ca):
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


def trust_options(command: Callable[Concatenate[ServerTrust, ...], Any]) -> Callable[..., Any]:
    """Add --ca and --plain-http; the command gets the trust as its first argument.

    mypy checks the type of a first argument, but not the name of a keyword.
    """

    @wraps(command)
    def call(*, ca: Path | None, plain_http: bool, **rest: Any) -> Any:  # noqa: ANN401 - the arguments of the verb
        return command(ServerTrust(ca, plain_http=plain_http), **rest)

    plain = click.option("--plain-http", is_flag=True, help="Use plain HTTP. Not needed for servers on this machine.")
    return click.option("--ca", type=FILE, help="Trust these CA certificates (PEM) instead of those of the system.")(
        plain(call)
    )


@asynccontextmanager
async def open_registry(reference: Reference, trust: ServerTrust) -> AsyncIterator[Registry]:
    """Yield a repository in a registry, with the credentials of the user."""
    import os

    from clusterstacks.net.oci.credentials import find_credentials
    from clusterstacks.net.oci.registry import Registry

    async with trust.web() as web:
        credentials = await find_credentials(reference, os.environ)
        yield Registry(web, reference, credentials, plain_http=trust.plain_http, progress=transfer_bar())


def repository_or_environment(text: str | None) -> Reference:
    """Parse a reference; without one, use OCI_REGISTRY and OCI_REPOSITORY."""
    import os

    from clusterstacks.net.oci.reference import Reference

    reference = Reference.parse(text) if text else Reference.from_environ(os.environ)
    if reference is None:
        raise click.UsageError("the repository is missing: name one, or set OCI_REGISTRY and OCI_REPOSITORY")
    return reference
