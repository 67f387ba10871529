"""Keys, envelopes and cosign signatures; those of cosign follow its published specification."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from clusterstacks.model.names import parse_release
from clusterstacks.release.release_source import CosignSignature
from clusterstacks.release.signing.keys import PrivateKey, new_key_pair, parse_private_key, parse_public_keys
from clusterstacks.release.signing.statement import release_envelope

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.model.names import ReleaseName
    from clusterstacks.release.signing.keys import PublicKey

NAME = parse_release("local-tiny-1-35-v2")
FILES = {
    "metadata.yaml": sha256(b"metadata").hexdigest(),
    "local-tiny-1-35-cluster-class-v2.tgz": sha256(b"class").hexdigest(),
    "clusteraddon.yaml": sha256(b"addon").hexdigest(),
}


def ecdsa_key(name: str = "ecdsa") -> PrivateKey:
    return parse_private_key(new_key_pair()[0], name=name)


def ed25519_pem(password: bytes = b"") -> bytes:
    closed = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    key = ed25519.Ed25519PrivateKey.generate()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, closed)


def ed25519_key(name: str = "ed25519") -> PrivateKey:
    return parse_private_key(ed25519_pem(), name=name)


def public_pem(key: PrivateKey) -> bytes:
    return key.public.key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def public(key: PrivateKey, name: str) -> PublicKey:
    (parsed,) = parse_public_keys(public_pem(key), name=name)
    return parsed


def signed(*keys: PrivateKey, name: ReleaseName = NAME, files: Mapping[str, str] = FILES) -> bytes:
    """Return an envelope of a release with a signature of each key."""
    envelope = release_envelope(name, files)
    for key in keys:
        envelope = envelope.signed(key)
    return envelope.text()


def manifest(files: Mapping[str, str] = FILES, **more: object) -> bytes:
    """Return an OCI manifest as csctl pushes it."""
    layers = [
        {
            "mediaType": "application/vnd.oci.image.layer.v1.tar",
            "digest": f"sha256:{digest}",
            "size": 8,
            "annotations": {"org.opencontainers.image.title": name},
        }
        for name, digest in files.items()
    ]
    return json.dumps(
        {"schemaVersion": 2, "artifactType": "application/vnd.scs.cluster-stacks.v1", "layers": layers, **more}
    ).encode()


def cosign_payload(signed_manifest: bytes, kind: str = "cosign container image signature") -> bytes:
    """Return the simple-signing document in the field order and spelling of cosign."""
    digest = f"sha256:{sha256(signed_manifest).hexdigest()}"
    document = {
        "critical": {
            "identity": {"docker-reference": "registry.example/kaas/cluster-stacks"},
            "image": {"docker-manifest-digest": digest},
            "type": kind,
        },
        "optional": None,
    }
    return json.dumps(document, separators=(",", ":")).encode()


def cosign_signed(
    signed_manifest: bytes, key: PrivateKey, kind: str = "cosign container image signature"
) -> CosignSignature:
    payload = cosign_payload(signed_manifest, kind)
    return CosignSignature(payload, key.sign(payload))
