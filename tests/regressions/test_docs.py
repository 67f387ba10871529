"""USER-16 and USER-17: tutorials append no line twice, and the reference prints defaults as in the API."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.shared.output import EXIT_CODES
from clusterstacks.model.kinds.crd_manifests import all_crds

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.regression("USER-16")

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.regression("USER-16")
def test_tutorials_append_no_line_twice() -> None:
    pages = "".join(page.read_text() for page in sorted((DOCS / "tutorial").glob("*.md")))
    appended = re.findall(r"<<'END'\n(.*?)\nEND\n", pages, re.DOTALL)

    assert appended
    assert [line for text in appended for line, following in pairwise(text.splitlines()) if line == following] == []


def enums(schema: dict[str, Any]) -> Iterator[str]:
    if schema.get("default") and "enum" in schema:
        yield schema["default"]
    for below in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
        yield from enums(below)


@pytest.mark.regression("USER-17")
def test_defaults_are_printed_in_the_case_accepted_by_the_api() -> None:
    page = (DOCS / "reference" / "resources.md").read_text()
    defaults = [one for crd in all_crds() for one in enums(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])]

    assert {"Require", "All", "Range"} <= {*defaults}
    assert [one for one in defaults if f"Default `{one}`" not in page] == []


@pytest.mark.regression("USER-16")
def test_every_exit_code_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "csctl.md").read_text()

    assert [code for code, meaning in EXIT_CODES.items() if f"| {code} | {meaning} |" not in page] == []
    assert {3, 4} <= {*EXIT_CODES}
