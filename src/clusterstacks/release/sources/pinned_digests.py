"""Digests of the first download of a release, pinned in annotations of its ClusterStackRelease.

Annotations survive ``clusterctl move``, but users write them: they say what is wanted, not what was verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from clusterstacks.model.documents import Node, mapping
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import CHARTS_ANNOTATION, DIGEST_ANNOTATION
from clusterstacks.release.charts.lockfile import ResolvedChart

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.release.release import Release


@dataclass(frozen=True, slots=True)
class PinnedDigests:
    """The digest of the release that must be used (empty before the first download), and the charts resolved for it."""

    digest: str = ""
    charts: tuple[ResolvedChart, ...] = ()

    @classmethod
    def of(cls, release: Manifest) -> PinnedDigests:
        """Read the pinned digests of a ClusterStackRelease; an edited annotation that is not valid is a SpecError."""
        annotations = mapping(release, "metadata", "annotations")
        text = annotations.get(CHARTS_ANNOTATION)
        return cls(str(annotations.get(DIGEST_ANNOTATION, "")), _charts(str(text)) if text else ())

    @classmethod
    def holding(cls, release: Release) -> PinnedDigests:
        """Return the digests to pin for a downloaded release."""
        return cls(release.digest, release.dependencies)

    def annotations(self) -> dict[str, str]:
        """Return the annotations of the ClusterStackRelease that :meth:`of` reads."""
        digest = {DIGEST_ANNOTATION: self.digest}
        if not self.charts:
            return digest
        documents = [chart.document() for chart in self.charts]
        return {**digest, CHARTS_ANNOTATION: orjson.dumps(documents, option=orjson.OPT_SORT_KEYS).decode()}


def _charts(text: str) -> tuple[ResolvedChart, ...]:
    try:
        node = Node(orjson.loads(text), CHARTS_ANNOTATION)
        return tuple(ResolvedChart.parse(item) for item in node.items())
    except (orjson.JSONDecodeError, SpecError) as error:
        raise SpecError(
            "InvalidPins",
            f"annotation {CHARTS_ANNOTATION} cannot be read ({error}): remove it to have the charts resolved again",
        ) from None
