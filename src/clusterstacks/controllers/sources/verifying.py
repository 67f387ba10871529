"""Whether the keys a ClusterStack trusts signed a release."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterstacks.api.names import Reason
from clusterstacks.domain.errors import SpecError
from clusterstacks.releases.signing.keys import PublicKey, parse_public_keys
from clusterstacks.releases.signing.verifying import Policy, require, verify

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.domain.sources import Trust
    from clusterstacks.fleet.sources.secrets import SecretReader
    from clusterstacks.releases.evidence import Evidence

KEYS = "spec.source.verification"


class Unsigned(SpecError):
    """A release that may not be used because none of the trusted keys signed it."""

    def __init__(self, complaint: str) -> None:
        super().__init__(Reason.SIGNATURE_REQUIRED, complaint)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the signatures prove.

    Args:
        required: Whether a release without proof may not be used.
        complaint: Why there is no proof; empty when there is.
    """

    required: bool
    complaint: str

    @property
    def refused(self) -> bool:
        """Whether the release may not be used."""
        return self.required and bool(self.complaint)


async def trusted_keys(trust: Trust, secrets: SecretReader) -> tuple[PublicKey, ...]:
    """Read the keys as they are now.

    Raises:
        SecretUnusable: A Secret is missing, or lacks the key.
        KeyUnusable: A text is no public key.
    """
    found: list[PublicKey] = []
    for number, key in enumerate(trust.keys, start=1):
        name, pem = f"{KEYS}.keys[{number - 1}]", key.pem.encode()
        if key.secret:
            name = f"{trust.namespace}/{key.secret}"
            pem = await secrets.value(trust.namespace, key.secret, key.key, purpose=KEYS)
        found += parse_public_keys(pem, name=name)
    return tuple(found)


async def judge(
    name: ReleaseName, files: Mapping[str, str], evidence: Evidence, keys: tuple[PublicKey, ...], trust: Trust
) -> Verdict:
    """Verify the signatures of a release; in a thread, as hostile ones take their time."""
    proof = await asyncio.to_thread(verify, name, files, evidence, keys)
    return Verdict(trust.required, require(name, proof, Policy.WARN))
