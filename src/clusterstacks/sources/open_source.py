"""From what a ClusterStack and its Secrets say to a source that can be asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.domain.errors import SpecError
from clusterstacks.http.allowlist import AllowedHosts, host_of
from clusterstacks.http.client import Web
from clusterstacks.oci.credentials import from_docker_config
from clusterstacks.oci.docker_config import ANONYMOUS, RegistryCredentials
from clusterstacks.oci.reference import Reference
from clusterstacks.oci.transfers import silent
from clusterstacks.sources.directory import DirectorySource
from clusterstacks.sources.source_secrets import DOCKER_CONFIG, SecretReader, SecretUnusable
from clusterstacks.sources.stack_source import NOTHING_ALLOWED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from clusterstacks.releases.release_source import ReleaseSource
    from clusterstacks.sources.spec import SourceAddress, SourceTerms

CREDENTIALS = "spec.source.credentials"
CA = "spec.source.ca"


class CredentialsInClear(SpecError):
    """Credentials that would go over plain HTTP."""

    def __init__(self, terms: SourceTerms, host: str) -> None:
        super().__init__(
            "CredentialsInClear",
            f"the credentials of Secret {terms.namespace}/{terms.credentials} are not sent to {terms.address}: it is "
            "asked over plain HTTP, where anyone on the way can read them; use TLS, leave the credentials out, or ask "
            f"the provider to start the operator with --plain-http-credentials {host}",
        )


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """Who asks a source, and whom it is believed; never shown.

    Args:
        credentials: Of whatever kind the source takes.
        ca: PEM certificates; empty for the system's.
    """

    credentials: RegistryCredentials = ANONYMOUS
    ca: str = field(default="", repr=False)

    @property
    def digest(self) -> str:
        """Tells this access from another without holding it."""
        one = self.credentials
        parts = (one.username, one.password, one.token, one.identity, self.ca)
        return sha256("\0".join(sha256(part.encode()).hexdigest() for part in parts).encode()).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOpener:
    """Makes sources.

    Args:
        secrets: Reads those ClusterStacks name.
        release_dir: The operator's own directory; no source reads the disk outside of it.
        ca: PEM certificates the operator's own source is believed by; empty for the system's.
        environ: Where credentials of the operator's own source, and proxies, are found.
        plain_http_credentials: Places that are sent the Secrets of ClusterStacks without TLS.
    """

    secrets: SecretReader
    release_dir: Path
    ca: str = field(default="", repr=False)
    environ: Mapping[str, str] = field(repr=False)
    plain_http_credentials: AllowedHosts = NOTHING_ALLOWED

    async def access(self, terms: SourceTerms) -> SourceAccess:
        """Read credentials and authorities as they are now.

        Raises:
            CredentialsInClear: Everybody on the way could read the credentials.
            SecretUnusable: A Secret is missing, is not meant for this, or holds something else.
            ClusterStacksError: The operator's own credentials cannot be read.
        """
        if terms.own:
            return SourceAccess(await terms.address.kind.credentials(terms.address, self.environ), self.ca)
        credentials, ca = ANONYMOUS, ""
        if terms.credentials:
            self._require_private(terms)
            values = await self.secrets.credentials(terms.namespace, terms.credentials, purpose=CREDENTIALS)
            credentials = _credentials(values, terms)
        if terms.ca:
            pem = await self.secrets.value(terms.namespace, terms.ca, terms.ca_key, purpose=CA)
            ca = _text(pem, f"{terms.namespace}/{terms.ca}", terms.ca_key)
        return SourceAccess(credentials, ca)

    async def open(self, address: SourceAddress, access: SourceAccess) -> tuple[ReleaseSource, Web | None]:
        """Make a source, and the connections to be closed with it; nothing is asked yet.

        Raises:
            SpecError: The address or the certificates are none.
        """
        if not address.kind.is_remote:
            return DirectorySource(self.release_dir, address.place), None
        web = Web(ca=access.ca, plain_http=address.is_plain, environ=self.environ)
        return address.kind.open(address, web, access.credentials, silent), web

    def _require_private(self, terms: SourceTerms) -> None:
        """Refuse to send a Secret over plain HTTP; the operator's own source does not come here."""
        url = terms.address.kind.allowlist_url(terms.address)
        if terms.address.is_plain and not self.plain_http_credentials.allows(url):
            raise CredentialsInClear(terms, host_of(url))


def _credentials(values: Mapping[str, bytes], terms: SourceTerms) -> RegistryCredentials:
    secret = f"{terms.namespace}/{terms.credentials}"
    if DOCKER_CONFIG in values:
        if not terms.address.kind.is_registry:
            raise SecretUnusable(secret, "is for registries; give one with username and password, or with token")
        config = from_docker_config(
            values[DOCKER_CONFIG], Reference.parse(terms.address.place), file=f"Secret {secret}"
        )
        if config == ANONYMOUS:
            raise SecretUnusable(secret, f"holds nothing for {terms.address.place}; add that registry to it")
        return config
    if "token" in values:
        return RegistryCredentials(token=_text(values["token"], secret, "token").strip())
    if "username" in values or "password" in values:
        username, password = (_text(values.get(key, b""), secret, key) for key in ("username", "password"))
        return RegistryCredentials(username, password)
    raise SecretUnusable(secret, f"holds neither {DOCKER_CONFIG}, nor token, nor username and password; add one")


def _text(value: bytes, secret: str, key: str) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise SecretUnusable(secret, f"has a key {key} that is no text; write it again") from None
