"""Manifests in a repository, under tags and digests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.documents import shown
from clusterstacks.http.errors import AnswerRefused
from clusterstacks.oci.descriptor import digest_of
from clusterstacks.oci.errors import ContentCorrupt
from clusterstacks.oci.manifests import ACCEPT, MAX_MANIFEST_BYTES, Manifest, read_manifest
from clusterstacks.oci.reference import is_sha256
from clusterstacks.oci.session import PUSH, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.oci.session import Session

DIGEST_HEADER = "Docker-Content-Digest"
SUBJECT_HEADER = "OCI-Subject"


async def find_digest(session: Session, target: str) -> str | None:
    """Return the digest of the manifest under a tag or digest; None when the registry says there is none.

    Raises:
        CredentialsRefused: The registry does not accept who asks.
        AnswerRefused: It answers what makes no sense.
        ServerUnavailable: It cannot be reached.
    """
    async with session.open("HEAD", f"manifests/{target}", headers={"Accept": ACCEPT}) as answer:
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise await refused(answer)
        stated = answer.headers.get(DIGEST_HEADER, "")
    # The header is no must: then the manifest itself tells.
    return stated if is_sha256(stated) else (await get_manifest(session, target)).digest


async def get_manifest(session: Session, target: str, limit: int = MAX_MANIFEST_BYTES) -> Manifest:
    """Return the manifest under a tag or digest, verified against the digest asked for or stated.

    Args:
        session: The repository.
        target: Tag or digest.
        limit: Most bytes it may have.

    Raises:
        NotThere: There is none.
        ContentCorrupt: Its bytes have another digest.
        SpecError: It is no manifest.
        DependencyError: As :func:`find_digest`.
    """
    place = str(session.reference.at(target))
    document = await session.read(f"manifests/{target}", limit=limit, headers={"Accept": ACCEPT})
    found = digest_of(document.body)
    stated = document.headers.get(DIGEST_HEADER, found)
    for expected in (target, stated) if ":" in target else (stated,):
        if not is_sha256(expected):
            raise AnswerRefused(place, f"has the digest {shown(expected)}, and only sha256 can be verified")
        if expected != found:
            raise ContentCorrupt(place, expected=expected, found=found)
    return read_manifest(document.body, document.headers.get("Content-Type", ""), place)


async def put_manifest(session: Session, raw: bytes, media_type: str, target: str) -> Mapping[str, str]:
    """Put a manifest under a tag or its digest; return what the registry said in its headers.

    Raises:
        ContentCorrupt: The registry says it got other bytes.
        DependencyError: As :func:`find_digest`.
    """
    digest = digest_of(raw)
    async with session.open(
        "PUT", f"manifests/{target}", access=PUSH, headers={"Content-Type": media_type}, body=raw
    ) as answer:
        if answer.status not in (200, 201, 202):
            raise await refused(answer)
        stated = answer.headers.get(DIGEST_HEADER, digest)
        if is_sha256(stated) and stated != digest:
            raise ContentCorrupt(session.reference.at(target), expected=digest, found=stated)
        return answer.headers
