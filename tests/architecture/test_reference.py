"""The generated reference pages are current, and pages about the source name modules that exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = re.compile(r"`([a-z_]+(?:/[a-z_]+)*/(?:[a-z_]+\.py)?)`")
"""A path of a module or package in a page, for example ``cli/main.py`` or ``webhooks/rules/``."""


def test_the_reference_pages_are_up_to_date() -> None:
    place = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert place is not None
    assert place.loader is not None
    generate = importlib.util.module_from_spec(place)
    place.loader.exec_module(generate)

    for name, text in generate.pages().items():
        assert (ROOT / "docs/reference" / name).read_text() == text, f"docs/reference/{name}: run `make docs`"


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/explanation/architecture.md"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    named = MODULE.findall((ROOT / page).read_text())
    places = (ROOT, ROOT / "src" / "clusterstacks")

    assert named
    assert [path for path in named if not any((place / path).exists() for place in places)] == []
