"""Digests pinned in annotations of a ClusterStackRelease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.names import CHARTS_ANNOTATION, DIGEST_ANNOTATION
from clusterstacks.release.charts.lockfile import ResolvedChart
from clusterstacks.release.sources.pinned_digests import PinnedDigests

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

DIGEST = f"sha256:{'0' * 64}"
CHART = ResolvedChart("cluster-addon/cni", "part", "1.1.0", "https://charts.example.org", DIGEST)


def release(annotations: dict[str, str] | None = None) -> Manifest:
    return {"metadata": {"name": "openstack-scs-1-35-v1", **({"annotations": annotations} if annotations else {})}}


@pytest.mark.parametrize(
    "pins", [PinnedDigests(DIGEST), PinnedDigests(DIGEST, (CHART,)), PinnedDigests(DIGEST, (CHART, CHART))]
)
def test_pinned_digest_is_read_back(pins: PinnedDigests) -> None:
    assert PinnedDigests.of(release(pins.annotations())) == pins


def test_release_without_a_download_has_no_pinned_digest() -> None:
    assert PinnedDigests.of(release()) == PinnedDigests()
    assert CHARTS_ANNOTATION not in PinnedDigests(DIGEST).annotations()


@pytest.mark.parametrize("text", ["{", '"part"', '[{"name": "part"}]', '[{"digest": 1}]'])
def test_invalid_annotation_is_named(text: str) -> None:
    with pytest.raises(SpecError, match=CHARTS_ANNOTATION):
        PinnedDigests.of(release({DIGEST_ANNOTATION: DIGEST, CHARTS_ANNOTATION: text}))
