"""Envelopes in a registry as referrers of the manifest: signatures and statements of stages; cosign's under a tag."""

from __future__ import annotations

import asyncio
import base64
import binascii
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.documents import Node
from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.net.http.errors import AnswerRefused, NotThere, RateLimited
from clusterstacks.net.oci.descriptor import EMPTY, EMPTY_TYPE, describe, digest_tag, parse_descriptor
from clusterstacks.net.oci.errors import ContentCorrupt, ManifestInvalid
from clusterstacks.net.oci.manifests import OCI_MANIFEST, write_manifest
from clusterstacks.net.oci.referrers import MAX_CANDIDATES
from clusterstacks.net.oci.transfers import BLOBS_AT_ONCE
from clusterstacks.release.release_source import (
    MAX_EVIDENCE_BYTES,
    MAX_SIGNATURE_BYTES,
    CosignSignature,
    EnvelopeKind,
    Evidence,
)
from clusterstacks.runtime.concurrency import gather

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.net.oci.registry import Registry

DEADLINE = timedelta(seconds=60)
"""Deadline for the signatures of a release (arbitrary: a thousand requests of 0.2 s, four at a time)."""

MAX_REFERRER_BYTES = 16 * 1024
"""Largest manifest of an envelope (arbitrary; they have 0.8 KB)."""

MAX_COSIGN_BYTES = 1024 * 1024
"""Largest manifest with cosign's signatures (arbitrary: 500 with 2 KB each; cosign writes 0.5 KB)."""

ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
"""Artifact type of the referrer of a signature, and media type of the one layer of all referrers."""

_ARTIFACT_TYPES = {
    EnvelopeKind.SIGNATURE: ENVELOPE_TYPE,
    EnvelopeKind.STAGES: "application/vnd.clusterstack.evidence.v1+json",
}
"""They differ, so that many envelopes of one kind hide none of the other."""

_COSIGN_SIGNATURE = "dev.cosignproject.cosign/signature"
_COSIGN_PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"


def cosign_tag(digest: str, kind: str = "sig") -> str:
    """Return cosign's tag for the signatures of a manifest (cosign ``specs/SIGNATURE_SPEC.md``)."""
    return f"{digest_tag(digest)}.{kind}"


async def attach(
    registry: Registry, manifest_digest: str, envelope: bytes, kind: EnvelopeKind = EnvelopeKind.SIGNATURE
) -> str:
    """Push an envelope as a referrer of a manifest (digest or tag), and return the digest of the referrer.

    The same envelope is stored once.
    """
    subject = (await registry.manifest(manifest_digest)).descriptor
    await registry.push_blob(EMPTY)
    await registry.push_blob(envelope)
    raw = write_manifest(
        artifact_type=_ARTIFACT_TYPES[kind],
        config=describe(EMPTY, EMPTY_TYPE),
        layers=[describe(envelope, ENVELOPE_TYPE)],
        subject=subject,
    )
    return await registry.push_manifest(raw, OCI_MANIFEST)


async def find_evidence(
    registry: Registry, manifest: Manifest, kind: EnvelopeKind = EnvelopeKind.SIGNATURE
) -> Evidence:
    """Return the unverified signatures of a manifest, or the statements of stages about it.

    A signature that cannot be read is only reported, because anyone who may push may have added it.
    A registry that fails for some signatures leaves the evidence incomplete.

    Raises:
        RateLimited: The registry asks to wait.
        DependencyError: The registry gives no signature at all, and fails for some.
    """
    search = _Search(registry, manifest.digest, kind)
    looks = [search.find_envelopes, search.find_cosign] if kind is EnvelopeKind.SIGNATURE else [search.find_envelopes]
    try:
        async with asyncio.timeout(DEADLINE.total_seconds()):
            await gather(lambda look: look(), looks, at_once=BLOBS_AT_ONCE)
    except TimeoutError:
        search.stop(f"signatures that were not received within {DEADLINE.total_seconds():.0f} s were not read")
    return search.evidence(manifest.raw)


@dataclass(slots=True)
class _Search:
    """Collects the signatures of a manifest: their references, and the blobs by digest."""

    registry: Registry
    digest: str
    kind: EnvelopeKind
    envelopes: tuple[Descriptor, ...] = ()
    cosign: tuple[tuple[Descriptor, bytes], ...] = ()
    blobs: dict[str, bytes] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    complete: bool = True
    failure: DependencyError | None = None

    def evidence(self, manifest: bytes) -> Evidence:
        """Return the collected signatures, or raise the failure of the registry if there are none."""
        if self.failure is not None and not self.blobs:
            raise self.failure
        return Evidence(
            tuple(self.blobs[blob.digest] for blob in self.envelopes if blob.digest in self.blobs),
            manifest,
            tuple(
                CosignSignature(self.blobs[payload.digest], signature)
                for payload, signature in self.cosign
                if payload.digest in self.blobs
            ),
            tuple(self.problems),
            self.complete,
        )

    def stop(self, problem: str) -> None:
        """Note as the first problem that not everything was read, and why."""
        self.problems.insert(0, problem)
        self.complete = False

    async def find_envelopes(self) -> None:
        """Collect the referrers."""
        with self._noting("the list of signatures"):
            listed = await self.registry.referrers(self.digest, _ARTIFACT_TYPES[self.kind])
            self.problems += listed.problems
            self.complete = self.complete and listed.complete
            blobs = await gather(self._envelope_blob, listed.members, at_once=BLOBS_AT_ONCE)
            self.envelopes = tuple({blob.digest: blob for blob in blobs if blob is not None}.values())
            await self._read(self.envelopes)

    async def find_cosign(self) -> None:
        """Collect the signatures of cosign's tag, which are layers of one manifest."""
        with self._noting("what cosign has signed"):
            try:
                manifest = await self.registry.manifest(cosign_tag(self.digest), MAX_COSIGN_BYTES)
            except NotThere:
                return
            layers = Node(manifest.document, manifest.place, error=ManifestInvalid).child("layers").items()
            if len(layers) > MAX_CANDIDATES:
                self.stop(f"only the first {MAX_CANDIDATES} signatures in {manifest.place} are read")
            signed = [self._cosign_layer(layer) for layer in layers[:MAX_CANDIDATES]]
            self.cosign = tuple(signature for signature in signed if signature is not None)
            await self._read({payload.digest: payload for payload, _ in self.cosign}.values())

    async def _envelope_blob(self, referrer: Descriptor) -> Descriptor | None:
        """Return the descriptor of a referrer's envelope; None, with a problem, when it has none."""
        with self._noting(f"referrer {referrer.digest}"):
            if referrer.size > MAX_REFERRER_BYTES:
                raise ManifestInvalid(f"it has {referrer.size} bytes, and at most {MAX_REFERRER_BYTES} are read")
            manifest = await self.registry.manifest(referrer.digest, referrer.size)
            layers, subject = manifest.layers, manifest.subject
            if subject is None or subject.digest != self.digest:
                raise ManifestInvalid("it belongs to another manifest")
            if len(layers) != 1:
                raise ManifestInvalid(f"it has {len(layers)} layers, and an envelope has one")
            return layers[0]
        return None

    def _cosign_layer(self, node: Node) -> tuple[Descriptor, bytes] | None:
        """Return the descriptor of a payload and its signature; None for other layers."""
        with self._noting("what cosign has signed"):
            layer = parse_descriptor(node)
            signature = _decoded(layer.annotations.get(_COSIGN_SIGNATURE, ""))
            if signature and layer.media_type == _COSIGN_PAYLOAD:
                return layer, signature
        return None

    async def _read(self, blobs: Collection[Descriptor]) -> None:
        """Read blobs, the smallest first, so that large ones cannot use up the limit."""
        wanted, room = [], MAX_EVIDENCE_BYTES
        for blob in sorted(blobs, key=lambda blob: blob.size):
            if blob.size > MAX_SIGNATURE_BYTES:
                self.problems.append(f"blob {blob.digest}: it has {blob.size} bytes, too many for a signature")
            elif (room := room - blob.size) < 0:
                self.stop(f"of all signatures only the smallest, {MAX_EVIDENCE_BYTES} bytes together, are read")
                break
            else:
                wanted.append(blob)
        await gather(self._read_blob, wanted, at_once=BLOBS_AT_ONCE)

    async def _read_blob(self, blob: Descriptor) -> None:
        with self._noting(f"blob {blob.digest}"):
            self.blobs[blob.digest] = await self.registry.small_blob(blob, MAX_SIGNATURE_BYTES)

    @contextmanager
    def _noting(self, label: str) -> Iterator[None]:
        """Record an error as a problem."""
        try:
            yield
        except RateLimited:
            raise
        except (SpecError, NotThere, ContentCorrupt, AnswerRefused) as error:
            self.problems.append(f"{label}: {error.message}")
        except DependencyError as error:
            self.problems.append(f"{label}: {error.message}")
            self.complete = False
            self.failure = self.failure or error


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
