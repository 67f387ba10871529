"""Referrers of a manifest: the registry's list, or an index under a tag where the registry has no such list.

Source: distribution-spec 1.1, "Listing Referrers" and "Referrers Tag Schema". Anyone who may push to the repository may
add to such a list, so a member that cannot be read is skipped and reported, and the others count.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from clusterstacks.model.documents import Node
from clusterstacks.net.http.errors import AnswerRefused, NotThere
from clusterstacks.net.oci.descriptor import digest_tag, parse_descriptor
from clusterstacks.net.oci.errors import ManifestInvalid
from clusterstacks.net.oci.manifests import OCI_INDEX, get_manifest, put_manifest, write_index
from clusterstacks.net.oci.session import parse_page, read_pages

if TYPE_CHECKING:
    from clusterstacks.net.oci.descriptor import Descriptor
    from clusterstacks.net.oci.session import Session

MAX_LIST_BYTES = 1024 * 1024
"""Largest page of a list, and largest index (arbitrary: 3000 members; decoding the worst takes 20 ms)."""

MAX_LIST_PAGES = 16
"""Most pages of a list read (arbitrary; registries that divide the list at all give 50 and more members a page)."""

MAX_LISTED = 16_000
"""Most members of a list that are read, of all types (arbitrary: 20 ms; scanners leave one for each of their runs)."""

MAX_CANDIDATES = 500
"""Most envelopes, and most cosign signatures, that are read for one release.

Arbitrary: a key rotation leaves two, everything above was added by others; 500 cost a thousand requests.
"""


@dataclass(frozen=True, slots=True)
class Referrers:
    """The referrers of a manifest: the valid ones, at most ``MAX_CANDIDATES``, and problems of the others."""

    members: tuple[Descriptor, ...] = ()
    problems: tuple[str, ...] = ()
    complete: bool = True
    """True when the list was read to its end."""


@dataclass(slots=True)
class _Reading:
    """Collects the pages of a list; an empty ``artifact_type`` means all members."""

    place: str
    artifact_type: str
    members: dict[str, Descriptor] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    complete: bool = True
    _seen: int = 0

    def add_page(self, manifests: object) -> None:
        """Add the members of a page, until there are enough."""
        if manifests is None:
            return
        if not isinstance(manifests, list):
            raise Node(manifests, self.place, "manifests", ManifestInvalid).refuse("write a list")
        for member in manifests:
            self._seen += 1
            if len(self.members) + len(self.problems) >= MAX_CANDIDATES or self._seen > MAX_LISTED:
                limits = f"{MAX_CANDIDATES} of one type and {MAX_LISTED} of all types are read"
                self.stop(f"{self.place} are too many: {limits}; delete those that are not needed")
                return
            self._add_member(member)

    def stop(self, problem: str) -> None:
        """Note as the first problem that the list was not read to its end, and why."""
        self.problems.insert(0, problem)
        self.complete = False

    def result(self) -> Referrers:
        return Referrers(tuple(self.members.values()), tuple(self.problems), self.complete)

    def _add_member(self, member: object) -> None:
        if self.artifact_type and isinstance(member, dict) and member.get("artifactType") != self.artifact_type:
            return
        try:
            descriptor = parse_descriptor(Node(member, self.place, f"manifests[{self._seen - 1}]", ManifestInvalid))
        except ManifestInvalid as error:
            self.problems.append(error.message)
        else:
            self.members.setdefault(descriptor.digest, descriptor)


async def list_referrers(session: Session, digest: str, artifact_type: str = "") -> Referrers | None:
    """Read the registry's list; None when the registry does not support such lists.

    An empty ``artifact_type`` means all; a registry may list members of other types as well. Raises ManifestInvalid if
    the list is not valid.
    """
    reading = _Reading(f"the referrers of {session.reference.place}@{digest}", artifact_type)
    query = f"?artifactType={quote(artifact_type, safe='')}" if artifact_type else ""
    pages = read_pages(session, f"referrers/{digest}{query}", limit=MAX_LIST_BYTES, headers={"Accept": OCI_INDEX})
    number = 0
    try:
        async with aclosing(pages):
            async for document in pages:
                number += 1
                reading.add_page(parse_page(document, session).get("manifests"))
                if not reading.complete:
                    break
                if number >= MAX_LIST_PAGES:
                    problem = f"have more than {MAX_LIST_PAGES} pages: delete those that are not needed"
                    reading.stop(f"{reading.place} {problem}")
                    break
    except (NotThere, AnswerRefused) as error:
        if number:  # the pages before it count
            reading.stop(error.message)
        elif isinstance(error, NotThere):
            return None
        else:
            raise
    return reading.result()


async def read_index(session: Session, digest: str, artifact_type: str = "") -> Referrers:
    """Read the index of the referrers tag; empty when it does not exist."""
    reading = _Reading(f"{session.reference.at(digest_tag(digest))}", artifact_type)
    reading.add_page(await _members(session, digest))
    return reading.result()


async def add_to_index(session: Session, digest: str, referrer: Descriptor) -> None:
    """Add a referrer to the index unless it has it; the other members are kept unchanged.

    If two programs do this at the same moment, one entry may be lost: the protocol cannot prevent that.
    """
    members = await _members(session, digest)
    if not any(isinstance(member, dict) and member.get("digest") == referrer.digest for member in members):
        await put_manifest(session, write_index([*members, referrer.document()]), OCI_INDEX, digest_tag(digest))


async def _members(session: Session, digest: str) -> list[object]:
    try:
        index = await get_manifest(session, digest_tag(digest), MAX_LIST_BYTES)
    except NotThere:
        return []
    members = index.document.get("manifests")
    return members if index.media_type == OCI_INDEX and isinstance(members, list) else []
