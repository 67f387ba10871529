from __future__ import annotations

import pytest

from clusterstacks.charts.chart_version import WantedChart
from clusterstacks.domain.semver import Constraint

PUBLISHED = ["1.2.3", "v1.10.0", "1.9.0", "2.0.0-rc.1", "latest", "1.4.0+b1", "1.4.0+b2", "1.2.3"]


@pytest.mark.parametrize(
    ("constraint", "exact", "chosen"),
    [
        ("*", "", "v1.10.0"),
        ("<1.10", "", "1.9.0"),
        (">=1-0", "", "2.0.0-rc.1"),
        ("2.0.0-rc.1", "", "2.0.0-rc.1"),
        ("~1.4", "", "1.4.0+b2"),
        ("3", "", None),
        ("1.10.0", "", "v1.10.0"),
        ("1.4.0", "", "1.4.0+b2"),
        ("*", "1.2.3", "1.2.3"),
        ("*", "v1.2.3", "1.2.3"),
        ("*", "1.10.0", "v1.10.0"),
        ("*", "1.4.0+b1", "1.4.0+b1"),
        ("*", "1.4.0", None),
        ("*", "1.2.4", None),
    ],
)
def test_the_exact_version_or_else_the_newest_allowed_is_chosen(
    constraint: str, exact: str, chosen: str | None
) -> None:
    wanted = WantedChart("cache", Constraint.parse(constraint), exact)

    assert wanted.choose(PUBLISHED) == wanted.choose(reversed(PUBLISHED)) == chosen
