"""Decides whether the content that a ClusterStackRelease pins was verified, so that it may be used without its source.

The pin is an annotation, which users of the namespace may write: a wish. The proof is in the status, which only the
operator writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from clusterstacks.model.documents import text
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

SOURCE_FIELD: Final = "verifiedSource"
SIGNERS_FIELD: Final = "signedBy"
EVIDENCE_FIELD: Final = "evidence"


@dataclass(frozen=True, slots=True)
class RequiredSignature:
    """The signatures that a release must have: by one key of each set (fingerprints), verified in the source."""

    source: str
    keys: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True)
class VerifiedContent:
    """The content that the status of a ClusterStackRelease records as verified."""

    digest: str = ""
    """Empty before the first download, after ``clusterctl move``, and with the Go operator's CRDs, which drop it."""
    signers: tuple[str, ...] = ()
    """Fingerprints of the keys known to have signed it."""
    source: str = ""
    """The source in which the signatures were verified; empty when they were not."""

    @classmethod
    def of(cls, status: Manifest) -> VerifiedContent:
        """Read the status of a ClusterStackRelease."""
        signers = status.get(SIGNERS_FIELD)
        known = tuple(signer for signer in signers if isinstance(signer, str)) if isinstance(signers, list) else ()
        return cls(text(status, "digest"), known, text(status, SOURCE_FIELD))

    def signers_of(self, digest: str, source: str) -> tuple[str, ...]:
        """Return the keys known to have signed a content, as verified in a source."""
        return self.signers if digest and (self.digest, self.source) == (digest, source) else ()


def changed_pin(wished: str, verified: VerifiedContent) -> str:
    """Describe a pin that was changed after other content was verified; empty when it was not."""
    if not wished or verified.digest in ("", wished):
        return ""
    return (
        f"annotation {DIGEST_ANNOTATION} was changed to {wished}, but {verified.digest} was verified; set it back, or "
        "remove it to have the content of the source verified and pinned"
    )


def reason_to_verify(
    wished: str, verified: VerifiedContent, required: RequiredSignature | None, *, confirmed: bool
) -> str:
    """Return why a stored content must be verified by its source before it is used; empty when it may be used.

    ``wished`` is the pinned digest, which the stored content has: all namespaces share the store, so it proves nothing.
    ``confirmed`` is whether this process has found the content in the source of the release; else the status must say
    so.
    """
    if changed := changed_pin(wished, verified):
        return changed
    if required is None:
        known = confirmed or verified.digest == wished
        return "" if known else "the status does not say that it comes from its source"
    if not wished or verified.digest != wished or not verified.source:
        return "the status does not say that its signatures were verified"
    if verified.source != required.source:
        return f"its signatures were verified in {verified.source}, but its source is {required.source}"
    if any(keys.isdisjoint(verified.signers) for keys in required.keys):
        return "none of the keys that are known to have signed it is trusted"
    return ""
