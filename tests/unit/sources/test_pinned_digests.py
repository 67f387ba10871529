"""What a ClusterStackRelease remembers of its first download."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.api.names import CHARTS_ANNOTATION, DIGEST_ANNOTATION
from clusterstacks.charts.lockfile import ResolvedChart
from clusterstacks.domain.errors import SpecError
from clusterstacks.sources.pinned_digests import PinnedDigests, signers_of

if TYPE_CHECKING:
    from clusterstacks.domain.objects import Manifest

DIGEST = f"sha256:{'0' * 64}"
CHART = ResolvedChart("cluster-addon/cni", "part", "1.1.0", "https://charts.example.org", DIGEST)


def release(annotations: dict[str, str] | None = None) -> Manifest:
    return {"metadata": {"name": "openstack-scs-1-35-v1", **({"annotations": annotations} if annotations else {})}}


@pytest.mark.parametrize(
    "pins", [PinnedDigests(DIGEST), PinnedDigests(DIGEST, (CHART,)), PinnedDigests(DIGEST, (CHART, CHART))]
)
def test_what_is_noted_is_read_again(pins: PinnedDigests) -> None:
    assert PinnedDigests.of(release(pins.annotations())) == pins


def test_a_release_that_was_never_downloaded_has_none() -> None:
    assert PinnedDigests.of(release()) == PinnedDigests()
    assert CHARTS_ANNOTATION not in PinnedDigests(DIGEST).annotations()


@pytest.mark.parametrize("text", ["{", '"part"', '[{"name": "part"}]', '[{"digest": 1}]'])
def test_an_annotation_somebody_spoilt_is_named(text: str) -> None:
    with pytest.raises(SpecError, match=CHARTS_ANNOTATION):
        PinnedDigests.of(release({DIGEST_ANNOTATION: DIGEST, CHARTS_ANNOTATION: text}))


DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("pinned", "status", "signers"),
    [
        (DIGEST, {"digest": DIGEST, "signedBy": ["a", "b"]}, ("a", "b")),
        (DIGEST, {"digest": DIGEST}, ()),
        (DIGEST, {"digest": DIGEST, "signedBy": "a"}, ()),
        (DIGEST, {"digest": DIGEST, "signedBy": [1, {}, "a"]}, ("a",)),
        (DIGEST, {"digest": "sha256:" + "1" * 64, "signedBy": ["a"]}, ()),
        (DIGEST, {"signedBy": ["a"]}, ()),
        ("", {"digest": "", "signedBy": ["a"]}, ()),
    ],
)
def test_who_signed_is_known_of_the_pinned_content_alone(
    pinned: str, status: dict[str, object], signers: tuple[str, ...]
) -> None:
    assert signers_of({"metadata": {"annotations": {DIGEST_ANNOTATION: pinned}}, "status": status}) == signers


def test_without_a_status_nobody_is_known_to_have_signed() -> None:
    assert signers_of({"metadata": {"annotations": {DIGEST_ANNOTATION: DIGEST}}}) == ()
