"""The expected results are those of Helm 4.2.3 for the same directories."""

from __future__ import annotations

import pytest

from clusterstacks.release.charts.errors import UnsafeArchive
from clusterstacks.release.charts.helmignore import IGNORE_FILE, MAX_RULES, chart_files
from tests.support.observing.cpu_time import no_stall

FILES = (
    "Chart.yaml",
    "root.yaml",
    "a/root.yaml",
    "docs/x.md",
    "docs/sub/x.md",
    "charts/kid/docs/x.md",
    "templates/a.yaml",
    "templates/a.yaml.bak",
    "templates/.hidden.yaml",
    "templates/deep/.hidden.yaml",
    "templates/q[1].yaml",
    "templates/set-b.yaml",
)
ALWAYS_LEFT_OUT = {"templates/.hidden.yaml"}


def left_out(rules: str) -> set[str]:
    files = dict.fromkeys(FILES, b"") | {IGNORE_FILE: rules.encode()}
    return set(files) - set(chart_files(files, "chart"))


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("", set()),
        ("# *.yaml\n\n", set()),
        ("*.bak\n", {"templates/a.yaml.bak"}),
        ("  *.bak  \r\n", {"templates/a.yaml.bak"}),
        ("root.yaml", {"root.yaml", "a/root.yaml"}),
        ("/root.yaml", {"root.yaml"}),
        ("docs/", {"docs/x.md", "docs/sub/x.md", "charts/kid/docs/x.md"}),
        ("/docs/", {"docs/x.md", "docs/sub/x.md"}),
        ("docs/*", {"docs/x.md", "docs/sub/x.md"}),
        ("docs/*.md", {"docs/x.md"}),
        ("root.yaml/", set()),
        ("templates/?.yaml", {"templates/a.yaml"}),
        ("templates/*a*l*b*", {"templates/a.yaml.bak"}),
        ("templates/q\\[1\\].yaml", {"templates/q[1].yaml"}),
        ("set-[a-c].yaml", {"templates/set-b.yaml"}),
        ("set-[^a].yaml", {"templates/set-b.yaml"}),
        ("set-[\\d|x].yaml", set()),
        ("!*.yaml", {*FILES, IGNORE_FILE} - ALWAYS_LEFT_OUT - {"Chart.yaml", "root.yaml"}),
    ],
)
def test_helmignore_rules_exclude_the_files_that_helm_excludes(rules: str, expected: set[str]) -> None:
    assert left_out(rules) == expected | ALWAYS_LEFT_OUT


@pytest.mark.parametrize("rules", ["a/**", "[a", "a\\", "*.x\n" * MAX_RULES])
def test_invalid_helmignore_rules_are_rejected(rules: str) -> None:
    with pytest.raises(UnsafeArchive, match=r"chart: member '\.helmignore' has (a rule|more than)"):
        left_out(rules)


def test_helmignore_rules_match_in_linear_time() -> None:
    files = {"a" * 5000: b"", IGNORE_FILE: b"*a" * 2000 + b"b"}

    with no_stall(5):
        assert set(chart_files(files, "chart")) == set(files)
