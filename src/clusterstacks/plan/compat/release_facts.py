"""Reads and writes the facts of a release in the status of its ClusterStackRelease.

They are the versions of ``metadata.yaml`` and all of ``compatibility.yaml``, as one line of JSON. With them a Cluster
can be validated and an upgrade planned without the files of the release and without its source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson

from clusterstacks.model import bounded_json
from clusterstacks.model.documents import mapping, text
from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.compatibility import Compatibility, parse_compatibility, write_compatibility
from clusterstacks.model.files.metadata import Metadata, parse_metadata
from clusterstacks.model.kinds.clusterstackrelease import MAX_FACTS_BYTES
from clusterstacks.model.kinds.names import DIGEST_ANNOTATION
from clusterstacks.model.names import release_named
from clusterstacks.plan.compat.world import Candidate

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

FIELD: Final = "facts"
"""Field of the status that holds them."""


class FactsNotKept(SpecError):
    """The status cannot hold the facts of a release."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            "FactsNotKept",
            f"status.{FIELD} cannot hold compatibility.yaml, {problem}: after a restart with an empty cache, updates "
            "of Clusters of this release are refused until it is downloaded again; publish a shorter one",
        )


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """The content of metadata.yaml and compatibility.yaml; a bundle has only the first."""

    metadata: Metadata
    compatibility: Compatibility | None = None

    def write(self) -> str:
        """Return the text for the status.

        Raises:
            FactsNotKept: It is longer than ``MAX_FACTS_BYTES``, or contains a number that JSON cannot express.
        """
        document: Manifest = {"metadata": self.metadata.document()}
        if self.compatibility is not None:
            document["compatibility"] = write_compatibility(self.compatibility)
        try:
            written = orjson.dumps(document, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError as error:
            raise FactsNotKept(f"which cannot be written as JSON ({error})") from None
        if len(written) > MAX_FACTS_BYTES:
            raise FactsNotKept(f"which has {len(written)} bytes as JSON and more than {MAX_FACTS_BYTES}")
        return written.decode()


def facts_text(release: Manifest) -> str:
    """Return the text of the facts in the status of a ClusterStackRelease.

    Empty where it is missing or too long, and where the digest in the status differs from the one pinned in the
    annotation, because these facts are of another content.
    """
    facts = text(release, "status", FIELD)
    pinned = mapping(release, "metadata", "annotations").get(DIGEST_ANNOTATION)
    if not pinned or text(release, "status", "digest") != pinned or len(facts) > MAX_FACTS_BYTES:
        return ""
    return facts


def read_facts(release: Manifest) -> Candidate | None:
    """Read the facts in the status of a ClusterStackRelease; None where they are missing or unreadable."""
    name, written = release_named(text(release, "metadata", "name")), facts_text(release)
    if name is None or not written:
        return None
    label = f"status.{FIELD} of ClusterStackRelease {name}"
    try:
        document = bounded_json.decode(written.encode())
        if not isinstance(document, dict):
            return None
        metadata = parse_metadata(document.get("metadata"), file=label)
        stated = document.get("compatibility")
        compatibility = parse_compatibility(stated, file=label) if stated is not None else None
    except (bounded_json.Undecodable, SpecError, UnicodeEncodeError):
        return None
    return Candidate(name, metadata.kubernetes, compatibility)
