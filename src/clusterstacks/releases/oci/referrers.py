"""What belongs to a manifest: the registry's own list, or the index this program keeps where it has none.

Source: distribution-spec 1.1, "Listing Referrers" and "Referrers Tag Schema".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.domain.documents import Node
from clusterstacks.releases.errors import NotThere
from clusterstacks.releases.oci.descriptors import digest_tag, parse_descriptor
from clusterstacks.releases.oci.errors import ManifestInvalid
from clusterstacks.releases.oci.manifests import MAX_BLOBS, MAX_MANIFEST_BYTES, OCI_INDEX, write_index
from clusterstacks.releases.oci.pages import parse_page, read_pages
from clusterstacks.releases.oci.tagging import get_manifest, put_manifest

if TYPE_CHECKING:
    from clusterstacks.releases.oci.descriptors import Descriptor
    from clusterstacks.releases.oci.session import Session


async def list_referrers(session: Session, digest: str) -> tuple[Descriptor, ...] | None:
    """Ask the registry; None when it keeps no such lists.

    Raises:
        ManifestInvalid: The list breaks the image-spec, or is too long.
        AnswerRefused: The registry answers what makes no sense.
        CredentialsRefused: It does not accept who asks.
        ServerUnavailable: It cannot be reached.
    """
    found: list[Descriptor] = []
    place = f"the referrers of {session.reference.place}@{digest}"
    try:
        async for document in read_pages(
            session, f"referrers/{digest}", limit=MAX_MANIFEST_BYTES, headers={"Accept": OCI_INDEX}
        ):
            page = Node(parse_page(document, session), place, error=ManifestInvalid)
            found += [parse_descriptor(item) for item in page.child("manifests").items()]
            if len(found) > MAX_BLOBS:
                raise ManifestInvalid(f"{place} are more than {MAX_BLOBS}: delete those nobody needs")
    except NotThere:
        return None
    return tuple(found)


async def read_index(session: Session, digest: str) -> tuple[Descriptor, ...]:
    """Read the index kept under the referrers tag; empty when there is none.

    Raises:
        ManifestInvalid: It breaks the image-spec.
        DependencyError: The registry fails.
    """
    try:
        index = await get_manifest(session, digest_tag(digest))
    except NotThere:
        return ()
    return index.manifests if index.media_type == OCI_INDEX else ()


async def add_to_index(session: Session, digest: str, referrer: Descriptor) -> None:
    """Put a referrer into the index, unless it is there.

    Two programs that do this at the same moment may lose one of the two: the protocol has no way to prevent that.

    Raises:
        ManifestInvalid: The index breaks the image-spec.
        DependencyError: The registry fails.
    """
    known = await read_index(session, digest)
    if referrer.digest not in {member.digest for member in known}:
        await put_manifest(session, write_index((*known, referrer)), OCI_INDEX, digest_tag(digest))
