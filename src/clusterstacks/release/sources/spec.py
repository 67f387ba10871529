"""Addresses, settings and trusted keys of release sources, without any secret.

Secrets are only named here; they are read when a source is opened.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from clusterstacks.model.documents import parse_duration
from clusterstacks.model.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.net.http.client import HTTPClient
    from clusterstacks.net.oci.credentials import RegistryCredentials
    from clusterstacks.net.oci.transfers import TransferProgress
    from clusterstacks.release.release_source import ReleaseSource
    from clusterstacks.release.signing.stage_requirement import StageRequirement

S = TypeVar("S", bound="ReleaseSource")

REMOTE_INTERVAL: Final = timedelta(minutes=1)
"""Default interval between two listings of a server; arbitrary."""

SHORTEST_INTERVAL: Final = timedelta(seconds=1)
LONGEST_INTERVAL: Final = timedelta(hours=24)
"""Bounds of a configured interval; arbitrary."""


class SourceKind(ABC, Generic[S]):
    """One kind of source, opened as ``S``; :data:`clusterstacks.release.sources.source_kinds.KINDS` has all kinds."""

    name: str
    """The field of ``spec.source``, and the value of ``--source``."""

    location_form: str
    """The form of ``--source-location``, with the variables that can replace it, for messages."""

    csctl_form: str
    """The form of a location on the command line of csctl, without a release, for help and messages."""

    interval: timedelta = REMOTE_INTERVAL
    """Default interval between two listings."""

    is_remote: bool = True
    """True for sources on the network; others are below the operator's release directory."""

    is_registry: bool = False
    """True for registries: they may speak plain HTTP, and docker Secrets hold their credentials."""

    holds_images: bool = False
    """True if its sources are :class:`ImageSource`."""

    reads_at_once: int = 8
    """Releases that are read at a time. Arbitrary."""

    made_by_publishing: bool = False
    """True if the first release creates the place, as in repositories of registries."""

    @abstractmethod
    def from_spec(self, place: Any) -> SourceAddress:  # noqa: ANN401 - each kind has its own model
        """Read the kind's field of ``spec.source``."""

    @abstractmethod
    def from_flags(self, location: str, environ: Mapping[str, str]) -> dict[str, object] | None:
        """Write the kind's field of ``spec.source`` for ``--source-location``; None when neither names a place."""

    @abstractmethod
    def from_text(self, text: str, environ: Mapping[str, str]) -> Location | None:
        """Read a location as it is written for csctl; None when the text means another kind.

        Raises:
            SpecError: The text means this kind and is not valid.
        """

    @abstractmethod
    def allowlist_url(self, address: SourceAddress) -> str:
        """Return the URL that ``--allowed-sources`` is compared with."""

    @abstractmethod
    def describe(self, address: SourceAddress) -> str:
        """Write an address for messages."""

    @abstractmethod
    def open(
        self, address: SourceAddress, web: HTTPClient, credentials: RegistryCredentials, progress: TransferProgress
    ) -> S:
        """Make the source; no request is sent yet.

        Raises:
            SpecError: The address is not valid.
        """

    @abstractmethod
    async def credentials(self, address: SourceAddress, environ: Mapping[str, str]) -> RegistryCredentials:
        """Read the credentials of the user who runs this program.

        Raises:
            SpecError: A file with credentials is not valid.
            DependencyError: A credential helper fails.
        """

    def checked(self, address: SourceAddress, stack: object) -> SourceAddress:  # noqa: ARG002 - overridden
        """Complete the address that a ClusterStack names, or refuse an address that it may not name."""
        return address

    def publish_address(self, environ: Mapping[str, str]) -> SourceAddress:
        """Read the address that ``csctl create`` publishes to; only for kinds that csctl can publish to.

        Raises:
            SpecError: A variable is missing or not valid.
        """
        raise NotImplementedError

    async def publish(
        self, directory: Path, source: S, environ: Mapping[str, str], report: Callable[[str], None]
    ) -> bool:
        """Publish a release directory and the signature beside it; return whether the source did not have it before.

        ``source`` was opened by this kind. ``report`` is called with a line about each step that takes long.

        Raises:
            ReleaseTaken: The release is published with other content.
            SpecError: The release is not valid.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """The place where releases are published.

    Args:
        kind: The protocol.
        place: ``host/repository`` of a registry, ``owner/repository`` of GitHub, the URL of a web server, or a path.
            The operator's paths are below its release directory; empty means that directory itself.
        api: The API of a GitHub Enterprise Server; empty for github.com.
        plain_http: Whether a registry speaks HTTP without TLS.
        digest: Digest of the manifest that a release must have, as given to csctl; empty for none.
    """

    kind: SourceKind[Any]
    place: str
    api: str = ""
    plain_http: bool = False
    digest: str = ""

    @property
    def is_plain(self) -> bool:
        """True if requests are sent over HTTP without TLS."""
        return self.plain_http or (self.api or self.place).startswith("http://")

    def __str__(self) -> str:
        return self.kind.describe(self)

    def interval(self, wanted: str) -> timedelta:
        """Return the interval between two listings: as configured, else the default of the kind.

        Raises:
            SpecError: The configured one is not a valid duration, or is out of bounds.
        """
        if not wanted:
            return self.kind.interval
        interval = parse_duration(wanted)
        if not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
            raise SpecError("InvalidInterval", f"the interval {wanted} of a source must be from 1s to 24h")
        return interval


@dataclass(frozen=True, slots=True)
class Location:
    """A source as it is written for csctl, and one of its releases; None for all of them."""

    address: SourceAddress
    release: ReleaseName | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSettings:
    """The settings that identify a source before any Secret is read; equal settings share one listing."""

    address: SourceAddress
    namespace: str = ""
    """Namespace of the Secrets; empty without Secrets, so that stacks of all namespaces share the source."""
    credentials: str = ""
    """Name of the Secret with the credentials; empty for none."""
    ca: str = ""
    """Name of the Secret with the trusted CAs; empty for the system's."""
    ca_key: str = ""
    interval: timedelta = REMOTE_INTERVAL
    own: bool = False
    """Whether it is the operator's own source, whose credentials come from its environment."""


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key (``pem``), or name and key of the Secret that holds it."""

    pem: str = ""
    secret: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureTrust:
    """The keys that must have signed the releases; one signature by one of them is enough."""

    keys: tuple[TrustedKey, ...]
    required: bool = True
    """Whether a release that none of them signed is refused."""
    namespace: str = ""
    """Namespace of the Secrets with keys."""
    setting: str = "spec.source.verification.keys"
    """The field or flag with the keys, for messages."""
    operators: SignatureTrust | None = None
    """The operator's, if one of its keys must have signed as well."""

    @property
    def parts(self) -> tuple[SignatureTrust, ...]:
        """Each of these must be fulfilled, the operator's first."""
        return (self,) if self.operators is None else (self.operators, self)


@dataclass(frozen=True, slots=True)
class StageTrust:
    """A stage that releases must have passed, and the keys that sign for it."""

    keys: SignatureTrust
    required: StageRequirement
    """Without the fingerprints of the keys, which may be in Secrets."""
