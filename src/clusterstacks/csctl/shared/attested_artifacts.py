"""Images and files whose provenance and SBOM are attested by trusted keys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterstacks.csctl.shared.registry_options import ServerTrust, open_registry
from clusterstacks.model.digests import sha256_digest
from clusterstacks.model.errors import SpecError
from clusterstacks.model.names import release_named
from clusterstacks.net.oci.reference import Reference
from clusterstacks.release.release_source import MAX_SIGNATURE_BYTES, SIGNATURE_SUFFIX
from clusterstacks.release.signing.attestation import PROVENANCE, SBOM, Attestations, verify_attestations

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from clusterstacks.model.documents import Node
    from clusterstacks.net.oci.manifests import Manifest
    from clusterstacks.net.oci.registry import Registry
    from clusterstacks.release.signing.keys import PublicKey


@dataclass(frozen=True, slots=True)
class Attested:
    """An image or a file, and what trusted keys attest about it."""

    name: str
    digest: str
    missing: tuple[str, ...]
    """What none of the trusted keys attests; empty if the artifact is verified."""
    problems: tuple[str, ...]
    signed_by: tuple[str, ...]
    provenance: Node | None

    @property
    def source(self) -> str:
        """The state of the source from which it was built: the first dependency of the provenance."""
        if self.provenance is None:
            return ""
        resolved = self.provenance.child("buildDefinition").child("resolvedDependencies").items()
        return resolved[0].child("uri").text() if resolved else ""

    @property
    def builder(self) -> str:
        """The identifier of what built it."""
        return self.provenance.child("runDetails").child("builder").child("id").text() if self.provenance else ""

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "name": self.name,
            "digest": self.digest,
            "verified": not self.missing,
            "signedBy": self.signed_by,
            "source": self.source,
            "builder": self.builder,
            "missing": self.missing,
            "problems": self.problems,
        }


def image_reference(text: str) -> Reference | None:
    """Read a reference to an image: with a tag that is not the name of a release, or with only a digest."""
    try:
        reference = Reference.parse(text)
    except SpecError:
        return None
    named = release_named(reference.tag) is not None if reference.tag else not reference.digest
    return None if named else reference


async def attested_image(reference: Reference, keys: Sequence[PublicKey], trust: ServerTrust) -> Attested:
    """Verify an image in a registry: its provenance, and an SBOM of each of its architectures.

    An index contains the digests of its images, and these the digests of their layers, so that what is attested about
    the index holds for all of them.

    Raises:
        DependencyError: The registry fails, or does not have the image.
    """
    from clusterstacks.net.oci.manifests import OCI_INDEX
    from clusterstacks.release.sources.oci_signatures import find_evidence

    problems: list[str] = []

    async def about(registry: Registry, manifest: Manifest) -> Attestations:
        evidence = await find_evidence(registry, manifest)
        found = verify_attestations(manifest.digest, evidence.envelopes, keys)
        problems.extend((*evidence.problems, *found.problems))
        return found

    async with open_registry(reference, trust) as registry:
        top = await registry.manifest(reference.digest or reference.tag)
        found = await about(registry, top)
        missing = list(found.missing(PROVENANCE))
        if top.media_type != OCI_INDEX:
            missing += found.missing(SBOM)
        elif not missing:  # else anybody may have written the index, of any length
            for image in top.manifests:
                lacking = (await about(registry, await registry.manifest(image.digest))).missing(SBOM)
                missing += (f"{what} of {image.digest}" for what in lacking)
    return _attested(str(reference), top.digest, found, tuple(missing), tuple(problems))


def attested_file(path: Path, keys: Sequence[PublicKey]) -> Attested:
    """Verify a file by the attestations beside it.

    Raises:
        OSError: The file cannot be read.
    """
    digest = sha256_digest(path.read_bytes())
    envelopes, problems = [], []
    for what in ("provenance", "sbom"):
        beside = path.with_name(f"{path.name}.{what}{SIGNATURE_SUFFIX}")
        if beside.is_file():
            with beside.open("rb") as file:
                envelopes.append(file.read(MAX_SIGNATURE_BYTES + 1))
        else:
            problems.append(f"{beside} does not exist")
    found = verify_attestations(digest, envelopes, keys)
    return _attested(str(path), digest, found, found.missing(PROVENANCE, SBOM), (*problems, *found.problems))


def _attested(
    name: str, digest: str, found: Attestations, missing: tuple[str, ...], problems: tuple[str, ...]
) -> Attested:
    return Attested(name, digest, missing, problems, found.signed_by, found.predicates.get(PROVENANCE))
