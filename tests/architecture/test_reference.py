"""Generated pages and chart files are current, and pages about the source name modules that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from clusterstacks.csctl.verb_table import GROUPS, VERBS
from clusterstacks.runtime.metrics import Metrics
from deploy.manifests import CHART, chart_files

ROOT = Path(__file__).parents[2]
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*/(?:[a-z_]+\.py)?)`")
"""A path of a module or package in a page, for example ``csctl/main.py`` or ``plan/compat/rules/``."""


def test_the_reference_pages_are_up_to_date() -> None:
    place = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert place is not None
    assert place.loader is not None
    generate = importlib.util.module_from_spec(place)
    place.loader.exec_module(generate)

    files = generate.files()
    for path, text in files.items():
        assert path.read_text() == text, f"{path}: run `make docs`"
    assert set((ROOT / "schemas").rglob("*.json")) <= files.keys()


def test_every_verb_is_in_a_group_and_so_in_the_reference() -> None:
    assert sorted(VERBS.keys() - {verb for verbs in GROUPS.values() for verb in verbs}) == []


def test_every_served_metric_is_in_the_reference() -> None:
    page = (ROOT / "docs/reference/metrics.md").read_text()
    names = re.findall(r"^# TYPE (\w+) ", Metrics().expose().decode(), re.MULTILINE)
    served = {name for name in names if not name.endswith("_created")}

    assert len(served) > 50
    assert [name for name in sorted(served) if f"| `{name}` |" not in page] == []


def test_generated_files_of_the_chart_are_up_to_date() -> None:
    files = chart_files()
    for path, text in files.items():
        assert path.read_text() == text, f"{path}: run `make manifests`"
    assert {*(CHART / "files/crds").iterdir()} == {path for path in files if path.parent.name == "crds"}


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanation/architecture.md"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    named = MODULE.findall((ROOT / page).read_text())
    places = (ROOT, ROOT / "src" / "clusterstacks")

    assert named
    assert [path for path in named if not any((place / path).exists() for place in places)] == []
