"""The generated reference pages say what the code says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_reference_pages_are_up_to_date() -> None:
    place = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert place is not None
    assert place.loader is not None
    generate = importlib.util.module_from_spec(place)
    place.loader.exec_module(generate)

    for name, text in generate.pages().items():
        assert (ROOT / "docs/reference" / name).read_text() == text, f"docs/reference/{name}: run `make docs`"
