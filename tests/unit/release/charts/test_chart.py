"""Converts ``kubeVersion`` of charts into ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.semver import Constraint, SemVer
from clusterstacks.release.charts.chart import kubernetes_range


@pytest.mark.parametrize(
    ("constraint", "stated"),
    [
        (">=1.25.0-0", ">=1.25"),
        (">= 1.21.0-0 < 1.34.0-0", ">=1.21 <1.34"),
        (">=1.25.3", ">=1.25.3"),
        ("^1.25", ">=1.25"),
        ("~1.25", ">=1.25 <1.26"),
        ("1.25 - 1.27", ">=1.25 <1.28"),
        (">1.25", ">=1.26"),
        ("<=1.25", ">=1.0 <1.26"),
        ("~1.25 || ~1.27", ">=1.25 <1.26 || >=1.27 <1.28"),
        (">=1.25 !=1.26.4", ">=1.25 <1.26.4 || >=1.26.5"),
        ("*", None),
        (">=1.0.0-0", None),
        (">=2", None),
    ],
)
def test_kube_version_is_converted_to_a_range(constraint: str, stated: str | None) -> None:
    found = kubernetes_range(Constraint.parse(constraint))

    assert (None if found is None else str(found)) == stated


TERMS = st.builds(
    "{}1.{}{}{}".format,
    st.sampled_from([">=", ">", "<=", "<", "~", "^", "!=", "="]),
    st.integers(18, 40),
    st.sampled_from(["", ".0", ".4"]),
    st.just(""),
)


@given(st.lists(st.lists(TERMS, min_size=1, max_size=2).map(" ".join), min_size=1, max_size=2).map(" || ".join))
def test_range_and_constraint_allow_the_same_releases(text: str) -> None:
    constraint = Constraint.parse(text)
    found = kubernetes_range(constraint)

    for minor in range(15, 45):
        for patch in (0, 3, 4, 5, 9):
            allowed = constraint.allows(SemVer(1, minor, patch))
            assert found is None or found.holds((1, minor, patch)) is allowed
            assert found is not None or allowed is constraint.allows(SemVer(1, 15, 0))
