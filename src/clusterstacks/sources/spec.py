"""Where a ClusterStack's releases are published and who must have signed them, as far as the objects say it.

Nothing here holds a secret: Secrets are named, and read when the source is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from clusterstacks.domain.durations import parse_duration
from clusterstacks.domain.errors import SpecError

REMOTE_INTERVAL: Final = timedelta(minutes=1)
"""How often a server is asked for new releases by default; arbitrary."""

DIRECTORY_INTERVAL: Final = timedelta(seconds=5)
"""How often a directory is looked at by default. Arbitrary: it costs a fraction of a millisecond."""


SHORTEST_INTERVAL: Final = timedelta(seconds=1)
LONGEST_INTERVAL: Final = timedelta(hours=24)
"""Bounds of what people may choose; arbitrary."""


class SourceKind(StrEnum):
    """Kinds of sources, as ``spec.source`` and ``--source`` call them."""

    OCI = "oci"
    GITHUB = "github"
    HTTP = "http"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """Where releases are published.

    Args:
        kind: How it is spoken to.
        place: ``host/repository`` of a registry, ``owner/repository`` of GitHub, the URL of a web server, or the path
            below the operator's release directory (empty for that directory itself).
        api: The API of a GitHub Enterprise Server; empty for github.com.
        plain_http: Whether a registry is asked without TLS.
    """

    kind: SourceKind
    place: str
    api: str = ""
    plain_http: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is asked over HTTP without TLS."""
        return self.plain_http or (self.api or self.place).startswith("http://")

    def __str__(self) -> str:
        match self.kind:
            case SourceKind.OCI:
                return f"oci://{self.place}"
            case SourceKind.GITHUB:
                return f"github://{self.place}" + (f" of {self.api}" if self.api else "")
            case SourceKind.HTTP:
                return self.place
            case SourceKind.DIRECTORY:
                return f"directory {self.place} below the release directory" if self.place else "the release directory"

    def interval(self, wanted: str) -> timedelta:
        """Return how often it is asked: as wanted, else as its kind is asked by default.

        Raises:
            SpecError: That is no duration, or one out of bounds.
        """
        if not wanted:
            return DIRECTORY_INTERVAL if self.kind is SourceKind.DIRECTORY else REMOTE_INTERVAL
        interval = parse_duration(wanted)
        if not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
            raise SpecError("InvalidInterval", f"the interval {wanted} of a source must be from 1s to 24h")
        return interval


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTerms:
    """All that tells one source from another before a Secret is read; equal terms share one listing.

    Args:
        address: Where.
        namespace: Of the Secrets; empty when none is named, so that stacks of all namespaces share the source.
        credentials: Name of the Secret with the credentials; empty for none.
        ca: Name of the Secret with the trusted authorities; empty for the system's.
        ca_key: Key of that Secret.
        interval: How often the source is listed.
        own: Whether it is the operator's own source, whose credentials come from its environment.
    """

    address: SourceAddress
    namespace: str = ""
    credentials: str = ""
    ca: str = ""
    ca_key: str = ""
    interval: timedelta = REMOTE_INTERVAL
    own: bool = False


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key, or where it is.

    Args:
        pem: The key itself; empty when a Secret holds it.
        secret: Name of the Secret.
        key: Key of the Secret.
    """

    pem: str = ""
    secret: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureTrust:
    """Who must have signed the releases.

    Args:
        keys: One signature of one of them is enough.
        required: Whether a release that none of them signed is not used.
        namespace: Of the Secrets with keys.
    """

    keys: tuple[TrustedKey, ...]
    required: bool = True
    namespace: str = ""
