"""The serving certificate and the authorities to trust, as they lie in a Secret.

Each certificate has an authority of its own whose key is thrown away at once: nothing that is kept can sign another.
The Secret holds the authorities of all certificates that may still be in use, so that a new certificate is trusted
before anybody serves with it.
"""

from __future__ import annotations

import base64
import ssl
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from clusterstacks.api.untyped import text
from clusterstacks.kube.pki import Authority, answers_to, single_certificates, validity
from clusterstacks.kube.tls import check_pair

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from clusterstacks.domain.objects import Manifest

AUTHORITIES: Final = "ca.crt"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
"""Keys of the Secret; the latter two are those of type ``kubernetes.io/tls``."""

RENEWAL: Final = 1 / 3
"""Which share of its life is left when a certificate is renewed; that of cert-manager."""


@dataclass(frozen=True, slots=True)
class Times:
    """How long things take.

    Args:
        lifetime: Of a certificate. 90 days, as certificates that renew themselves commonly have.
        look: How often the Secret is read.
        settle: How long a new authority is made known before its certificate is served. Longer than ``look``, so that
            a replica that knew only the old one cannot undo what the API server was told.
    """

    lifetime: timedelta = timedelta(days=90)
    look: timedelta = timedelta(seconds=60)
    settle: timedelta = timedelta(seconds=90)


@dataclass(frozen=True, slots=True)
class Serving:
    """What the Secret holds.

    Args:
        authorities: PEM bundle of what to trust, the newest first.
        certificate: PEM certificate to serve with.
        key: Its PEM key.
    """

    authorities: bytes
    certificate: bytes
    key: bytes = field(repr=False)

    def is_due(self, names: Sequence[str], lifetime: timedelta, now: datetime) -> bool:
        """Tell whether another certificate is needed: soon, or because this one has other names.

        Args:
            names: By which the webhooks are called.
            lifetime: Of a certificate; what this one has from before its making, for clocks set back, is no part of it.
            now: The time.
        """
        return not answers_to(self.certificate, names) or now >= validity(self.certificate).until - lifetime * RENEWAL

    def secret_data(self) -> dict[str, str]:
        """Give the ``data`` of the Secret."""
        content = {AUTHORITIES: self.authorities, CERTIFICATE: self.certificate, KEY: self.key}
        return {name: base64.b64encode(value).decode() for name, value in content.items()}


def made(names: Sequence[str], lifetime: timedelta, now: datetime, before: Serving | None = None) -> Serving:
    """Make a new certificate.

    Args:
        names: Hosts and addresses the webhooks are called by.
        lifetime: How long it is valid.
        now: The time.
        before: What was served until now, and is trusted until it ends.
    """
    authority = Authority.create("cluster-stack-operator webhooks", lifetime)
    hosts = [name for name in names if not _is_address(name)]
    addresses = [name for name in names if _is_address(name)]
    pair = authority.issue(names[0], hosts=hosts, addresses=addresses, lifetime=lifetime)
    older = single_certificates(before.authorities) if before is not None else []
    trusted = [authority.certificate, *(one for one in older if validity(one).until > now)]
    return Serving(b"".join(trusted), pair.certificate, pair.key)


def read_secret(secret: Manifest) -> Serving | None:
    """Read the Secret; None when it holds nothing that can be served with."""
    try:
        authorities, certificate, key = (
            base64.b64decode(text(secret, "data", name), validate=True) for name in (AUTHORITIES, CERTIFICATE, KEY)
        )
        found = Serving(authorities, certificate, key)
        single_certificates(authorities)
        validity(certificate)
        check_pair(certificate, key)
    except (ValueError, ssl.SSLError):
        return None
    return found


def _is_address(name: str) -> bool:
    return ":" in name or name.replace(".", "").isdigit()
