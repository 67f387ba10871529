"""Every pair of the three upstream matrices with which the wish for ranges began: Calico, Cilium, metrics-server.

The tables say what the projects publish, written out: one row a series, one column a Kubernetes minor. They were not
made with the code that reads the facts. ``o`` ok, ``.`` untested, ``x`` incompatible.
"""

from __future__ import annotations

import pytest

from clusterstacks.compat.library import facts
from clusterstacks.compat.verdicts import Verdict
from clusterstacks.domain.semver import SemVer
from clusterstacks.domain.versions import KubernetesVersion

LAST_MINOR = 38
"""Of the columns; one that is not released yet."""

SIGNS = {"o": Verdict.OK, ".": Verdict.UNTESTED, "x": Verdict.INCOMPATIBLE}

CALICO = """
3.24  x......oooo.............
3.25  x.......oooooo..........
3.26  xxxxxx...ooooo..........
3.27  xxxxxx......ooo.........
3.28  xxxxxx......oooo........
3.29  xxxxxx........oooo......
3.30  xxxxxx..........ooooo...
3.31  xxxxxx...........oooo...
3.32  xxxxxx.............ooo..
3.33  ....................ooo.
"""
"""From 1.15: tested minors; below the versions its requirements name it does not work."""

CILIUM = """
1.12  xooooooooo..............
1.13  xooooooooooo............
1.14  x...ooooooooo...........
1.15  x..........oooo.........
1.16  xxxxxx......oooo........
1.17  xxxxxx........oooo......
1.18  xxxxxx.........oooo.....
1.19  xxxxxx...........oooo...
1.20  xxxxxx............oooo..
"""
"""From 1.15: tested minors; its chart refuses what is below 1.16, later below 1.21."""

METRICS_SERVER = """
0.3   xooooooooooooooxxxxxxxxxxxxxxxxx
0.4   xooooooooooooooooooooooooooooooo
0.5   xooooooooooooooooooooooooooooooo
0.6   xxxxxxxxxxxxxxxxxxoooooooooooooo
0.7   xxxxxxxxxxxxxxxxxxxxoooooooooooo
0.8   xxxxxxxxxxxxxxxxxxxxxxxxoooooooo
0.9   xxxxxxxxxxxxxxxxxxxxxxxxxxxooooo
"""
"""From 1.7: minimum minors, and for 0.3 also the last one."""

TABLES = {"calico": CALICO, "cilium": CILIUM, "metrics-server": METRICS_SERVER}


def pairs(component: str) -> list[tuple[str, str, KubernetesVersion, Verdict]]:
    return [
        (component, series, KubernetesVersion(1, LAST_MINOR - len(signs) + 1 + column, patch), SIGNS[sign])
        for series, signs in (line.split() for line in TABLES[component].strip().splitlines())
        for column, sign in enumerate(signs)
        for patch in (0, 7)
    ]


@pytest.mark.parametrize("component", TABLES)
def test_every_pair_has_the_verdict_of_the_projects_table(component: str) -> None:
    for name, series, kubernetes, verdict in pairs(component):
        for patch in (0, 12):
            version = SemVer.parse(f"{series}.{patch}")
            judgement = facts().judge(name, version, kubernetes)

            assert judgement.verdict is verdict, (str(version), str(kubernetes))
            assert judgement.source.startswith("https://")
            assert f"{name} {version}" in judgement.text


@pytest.mark.parametrize("component", TABLES)
def test_the_table_has_every_series_of_the_facts(component: str) -> None:
    stated = {one.text for one in facts().components[component].statements}

    assert stated == {line.split()[0] for line in TABLES[component].strip().splitlines()}


@pytest.mark.parametrize("component", TABLES)
@pytest.mark.parametrize("version", ["0.1.0", "99.1.0"])
def test_nothing_is_known_about_other_series(component: str, version: str) -> None:
    judgement = facts().judge(component, SemVer.parse(version), KubernetesVersion(1, 34, 0))

    assert judgement.verdict is Verdict.UNKNOWN
    assert "facts of 2026-11-20" in judgement.text
