"""Signatures and attestations of an image, as ``cosign sign --key`` and ``cosign attest --key`` make them.

Clusters that admit only signed images read these formats. Source: https://github.com/sigstore/cosign,
specs/SIGNATURE_SPEC.md and specs/ATTESTATION_SPEC.md.
"""

from __future__ import annotations

import base64
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from clusterstacks.model.errors import SpecError
from clusterstacks.net.oci.descriptor import describe
from clusterstacks.net.oci.manifests import OCI_MANIFEST
from clusterstacks.release.signing.attestation import verify_attestations
from clusterstacks.release.signing.envelope import Envelope
from clusterstacks.release.signing.verifier import SIGNATURE_TYPE, require_manifest
from clusterstacks.release.sources.oci_signatures import ENVELOPE_TYPE, attach, cosign_tag, find_evidence
from tools.image.layout import CONFIG_TYPE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.net.oci.reference import Reference
    from clusterstacks.net.oci.registry import Registry
    from clusterstacks.release.release_source import CosignSignature
    from clusterstacks.release.signing.keys import PrivateKey, PublicKey

PAYLOAD_TYPE = "application/vnd.dev.cosign.simplesigning.v1+json"
SIGNATURE = "dev.cosignproject.cosign/signature"


def payload(place: str, digest: str) -> bytes:
    """Write what is signed (cosign ``specs/SIGNATURE_SPEC.md``, "Simple Signing").

    Args:
        place: Registry and repository of the image.
        digest: Of its manifest or index.
    """
    critical = {
        "identity": {"docker-reference": place},
        "image": {"docker-manifest-digest": digest},
        "type": SIGNATURE_TYPE,
    }
    return orjson.dumps({"critical": critical, "optional": None})


async def sign(registry: Registry, reference: Reference, key: PrivateKey) -> bool:
    """Add a signature of an image, as ``cosign sign --key`` stores it; those of other keys stay.

    Returns:
        False when the key signed it before, and nothing changes.

    Raises:
        DependencyError: The registry fails.
    """
    manifest = await registry.manifest(reference.digest)
    made = (await find_evidence(registry, manifest)).cosign
    if signed_by(made, manifest, [key.public]):
        return False
    content = payload(reference.place, manifest.digest)
    signature = base64.b64encode(key.sign(content)).decode()
    await _add_layer(registry, cosign_tag(manifest.digest), content, PAYLOAD_TYPE, {SIGNATURE: signature})
    return True


async def attest(registry: Registry, digest: str, statement: bytes, key: PrivateKey) -> bool:
    """Sign an in-toto Statement and add it to an image: as a referrer, and under the tag where cosign looks for it.

    Returns:
        False when the key has attested a statement of this type before, and nothing changes.

    Raises:
        DependencyError: The registry fails.
    """
    kind = str(orjson.loads(statement)["predicateType"])
    evidence = await find_evidence(registry, await registry.manifest(digest))
    if not verify_attestations(digest, evidence.envelopes, [key.public]).missing(kind):
        return False
    envelope = Envelope(statement).signed(key).text()
    await attach(registry, digest, envelope)
    annotations = {SIGNATURE: "", "predicateType": kind}  # the signature is in the envelope
    await _add_layer(registry, cosign_tag(digest, "att"), envelope, ENVELOPE_TYPE, annotations)
    return True


async def _add_layer(
    registry: Registry, target: str, content: bytes, media_type: str, annotations: Mapping[str, str]
) -> None:
    """Add a layer to what cosign stores under a tag."""
    there = await registry.manifest(target) if await registry.head(target) is not None else None
    layer = replace(describe(content, media_type), annotations=annotations)
    layers = [*(there.layers if there else ()), layer]
    config = orjson.dumps(_config(layers))
    await registry.push_blob(content)
    await registry.push_blob(config)
    document = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "config": describe(config, CONFIG_TYPE).document(),
        "layers": [one.document() for one in layers],
    }
    await registry.push_manifest(orjson.dumps(document), OCI_MANIFEST, target)


def signed_by(made: Sequence[CosignSignature], manifest: Manifest, keys: Sequence[PublicKey]) -> list[PublicKey]:
    """Return those of the keys that signed a manifest.

    Args:
        made: Signatures that lie beside the manifest.
        manifest: The manifest or index.
        keys: The keys.
    """
    return [key for one in made if _is_for(one, manifest) for key in keys if key.verifies(one.payload, one.signature)]


def _is_for(made: CosignSignature, manifest: Manifest) -> bool:
    try:
        require_manifest(made.payload, manifest.raw)
    except SpecError:
        return False
    return True


def _config(layers: Sequence[Descriptor]) -> dict[str, Any]:
    """Write the configuration that cosign gives to its signatures, which are stored like the layers of an image."""
    rootfs = {"type": "layers", "diff_ids": [layer.digest for layer in layers]}
    return {"architecture": "", "os": "", "config": {}, "rootfs": rootfs}
