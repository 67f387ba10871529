"""Checks of all pages, and of the helper that runs their commands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.running.doc_pages import CHECKOUT, DOCS, Block, Page, shows

if TYPE_CHECKING:
    from pathlib import Path

PAGES = [*sorted(CHECKOUT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]
PRINTED = "first\nsecond: 17 files\nthird\nfourth\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_every_link_to_another_page_has_a_target(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        place = (page.parent / path).resolve() if path else page
        assert place.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(place.read_text()), f"{target}: there is no such heading"


def anchors(text: str) -> set[str]:
    """Name the headings of a page as GitHub does."""
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "name",
    [
        "answer-a-refusal",
        "find-out-why",
        "ignore-a-difference",
        "operate-clusters",
        "roll-back-an-addon",
        "troubleshoot",
        "watch-in-a-browser",
    ],
)
def test_every_command_of_a_tested_page_is_in_a_block(name: str) -> None:
    """Names of programs and verbs may stand in the text; what has arguments is a command, without placeholders."""
    path = f"how-to/{name}.md"
    prose = re.sub(r"```.*?```", "", (DOCS / path).read_text(), flags=re.DOTALL)

    assert [code for code in re.findall(r"`((?:kubectl|csctl) [^`]*)`", prose) if len(code.split()) > 3] == []
    for block in Page.read(path).blocks:
        assert not re.search(r"NAME|CLUSTER\b|<[a-z]+>|\bDIR\b", block.commands), block.commands


@pytest.mark.parametrize(
    "excerpt", ["", "third\n", "first\nsecond: ... files\n", "first\n...\nfourth\n", "...\nfourth\n"]
)
def test_excerpt_may_omit_lines_and_words(excerpt: str) -> None:
    assert shows(excerpt, PRINTED)


@pytest.mark.parametrize(
    "excerpt", ["fifth\n", "thi\n", "first\nthird\n", "third\n...\nfirst\n", "second: ... pages\n"]
)
def test_excerpt_of_other_output_does_not_match(excerpt: str) -> None:
    assert not shows(excerpt, PRINTED)


@pytest.mark.parametrize(
    "block",
    [
        Block("echo one", "two\n"),
        Block("echo one\nfalse"),
        Block("false\necho one: There is no plan\n", "one: There is no plan\n"),
    ],
    ids=["output", "failure", "success"],
)
def test_wrong_output_or_exit_code_of_a_page_is_reported(tmp_path: Path, block: Block) -> None:
    page = Page((Block("echo fine", "fine\n"), block), {})

    with pytest.raises(AssertionError, match="echo one"):
        page.run(tmp_path, {"PATH": "/usr/bin:/bin"})
