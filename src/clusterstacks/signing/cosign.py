"""Signatures made by ``cosign sign --key``: over a document that names the digest of an OCI manifest.

Source: https://github.com/sigstore/cosign, specs/SIGNATURE_SPEC.md. Certificates and the transparency log are not
looked at: a key is trusted because somebody said so. The newer bundle format of cosign 3 is not read; there
``cosign sign --new-bundle-format=false --use-signing-config=false --tlog-upload=false`` makes what is.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from clusterstacks.domain.documents import shown
from clusterstacks.releases.release import class_chart_file
from clusterstacks.releases.release_source import MAX_FILES
from clusterstacks.releases.signature_files import MAX_SIGNATURE_BYTES
from clusterstacks.signing.canonical_json import read_document
from clusterstacks.signing.errors import SignatureRefused
from clusterstacks.signing.statement import Statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusterstacks.domain.names import ReleaseName
    from clusterstacks.releases.signature_files import CosignSignature
    from clusterstacks.signing.keys import PublicKey

SIGNATURE_TYPE = "cosign container image signature"
_TITLE = "org.opencontainers.image.title"


def signers(made: CosignSignature, keys: Iterable[PublicKey]) -> tuple[PublicKey, ...]:
    """Return those of the keys that made the signature."""
    return tuple(key for key in keys if key.verifies(made.payload, made.signature))


def require_manifest(payload: bytes, manifest: bytes) -> None:
    """Compare what was signed with a manifest.

    Raises:
        SignatureRefused: The payload is no document of cosign's, or of another manifest.
    """
    critical = read_document(payload, name="the payload", limit=MAX_SIGNATURE_BYTES).child("critical")
    kind = critical.child("type")
    if kind.value != SIGNATURE_TYPE:
        raise kind.refuse(f"cosign writes {SIGNATURE_TYPE}")
    signed, held = critical.child("image").child("docker-manifest-digest").value, _digest(manifest)
    if signed != held:
        raise SignatureRefused(f"it is for the manifest {shown(signed)}, not for {held}")


def stated_by(manifest: bytes, name: ReleaseName) -> Statement:
    """Return what a manifest says about the files of a release.

    A manifest does not hold the release's name, but the class chart's file name does.

    Raises:
        SignatureRefused: It is no manifest of this release.
    """
    layers = read_document(manifest, name="the manifest", limit=MAX_SIGNATURE_BYTES).child("layers").items()
    if len(layers) > MAX_FILES:
        raise SignatureRefused(f"the manifest names more than {MAX_FILES} files")
    files: dict[str, str] = {}
    for layer in layers:
        title = layer.child("annotations").child(_TITLE).text()
        if title in files:
            raise SignatureRefused(f"the manifest names the file {shown(title)} twice")
        files[title] = layer.child("digest").text().removeprefix("sha256:")
    if class_chart_file(name) not in files:
        raise SignatureRefused(f"it is for another release: {class_chart_file(name)} is not in the manifest")
    return Statement(name.release, files)


def _digest(manifest: bytes) -> str:
    return f"sha256:{sha256(manifest).hexdigest()}"
