"""Signatures in a registry: our envelopes as referrers of the manifest, cosign's under a tag named after it."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from clusterstacks.releases.errors import NotThere
from clusterstacks.releases.evidence import MAX_SIGNATURE_BYTES, MAX_SIGNATURES, CosignSignature
from clusterstacks.releases.oci.descriptors import EMPTY, EMPTY_TYPE, describe, digest_tag
from clusterstacks.releases.oci.manifests import OCI_MANIFEST, write_manifest

if TYPE_CHECKING:
    from clusterstacks.releases.oci.manifests import Manifest
    from clusterstacks.releases.oci.registry import Registry

ENVELOPE_TYPE = "application/vnd.dsse.envelope.v1+json"
"""Artifact type of the referrer, and media type of its one layer."""

_COSIGN_SIGNATURE = "dev.cosignproject.cosign/signature"
_COSIGN_PAYLOAD = "application/vnd.dev.cosign.simplesigning.v1+json"


def cosign_tag(digest: str, kind: str = "sig") -> str:
    """Name the tag under which cosign keeps what belongs to a manifest (cosign ``specs/SIGNATURE_SPEC.md``)."""
    return f"{digest_tag(digest)}.{kind}"


async def attach(registry: Registry, manifest_digest: str, envelope: bytes) -> str:
    """Put an envelope beside a manifest, as its referrer; the same envelope twice is there once.

    Args:
        registry: The repository that holds the manifest.
        manifest_digest: Digest or tag of the manifest.
        envelope: The DSSE envelope, as JSON.

    Returns:
        The digest of the referrer.

    Raises:
        NotThere: There is no such manifest.
        DependencyError: The registry fails.
    """
    subject = (await registry.manifest(manifest_digest)).descriptor
    await registry.push_blob(EMPTY)
    await registry.push_blob(envelope)
    raw = write_manifest(
        artifact_type=ENVELOPE_TYPE,
        config=describe(EMPTY, EMPTY_TYPE),
        layers=[describe(envelope, ENVELOPE_TYPE)],
        subject=subject,
    )
    return await registry.push_manifest(raw, OCI_MANIFEST)


async def envelopes(registry: Registry, digest: str) -> tuple[bytes, ...]:
    """Return the envelopes that refer to a manifest, at most ``MAX_SIGNATURES``; none of them is believed yet.

    Raises:
        ManifestInvalid: A list or a manifest breaks the image-spec.
        DependencyError: The registry fails.
    """
    found = []
    for referrer in (await registry.referrers(digest, ENVELOPE_TYPE))[:MAX_SIGNATURES]:
        manifest = await registry.manifest(referrer.digest)
        layers = manifest.layers
        if len(layers) == 1 and layers[0].size <= MAX_SIGNATURE_BYTES and _belongs(manifest, digest):
            found.append(await registry.small_blob(layers[0], MAX_SIGNATURE_BYTES))
    return tuple(found)


async def cosign_signatures(registry: Registry, digest: str) -> tuple[CosignSignature, ...]:
    """Return the signatures cosign made of a manifest, at most ``MAX_SIGNATURES``; none of them is believed yet.

    Raises:
        ManifestInvalid: What is under cosign's tag breaks the image-spec.
        DependencyError: The registry fails.
    """
    try:
        manifest = await registry.manifest(cosign_tag(digest))
    except NotThere:
        return ()
    found = []
    for layer in manifest.layers[:MAX_SIGNATURES]:
        signature = _decoded(layer.annotations.get(_COSIGN_SIGNATURE, ""))
        if signature and layer.media_type == _COSIGN_PAYLOAD and layer.size <= MAX_SIGNATURE_BYTES:
            found.append(CosignSignature(await registry.small_blob(layer, MAX_SIGNATURE_BYTES), signature))
    return tuple(found)


def _belongs(manifest: Manifest, digest: str) -> bool:
    subject = manifest.subject
    return subject is not None and subject.digest == digest


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
