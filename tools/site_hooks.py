"""Hooks of mkdocs: the front page, the order of the sections, and links to files outside of docs."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
SECTIONS = ("Tutorial", "How to", "Explanation", "Reference")
"""The order of the sections; other pages come before them."""

_LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)#\s]+)")


def github_anchor(heading: str, separator: str) -> str:
    """Name a heading as GitHub does, where the same pages are read."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 - mkdocs
    """Make README.md the front page."""
    text = _LINK.sub(lambda link: link[1] + link[2].removeprefix("docs/"), (ROOT / "README.md").read_text())
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_nav(nav: Any, **_: Any) -> Any:  # noqa: ANN401 - mkdocs
    """Put tutorials first."""
    nav.items.sort(key=lambda one: SECTIONS.index(one.title) if one.title in SECTIONS else -1)
    return nav


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:  # noqa: ANN401 - mkdocs
    """Link files outside of docs in the repository."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(found: re.Match[str]) -> str:
        target = found[2]
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if page.file.src_uri == "index.md" and not (ROOT / "docs" / target).exists():
            path = target
        if path.startswith("docs/") and path != "docs/README.md" and not (ROOT / path).is_dir():
            return found[0]
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{found[1]}{config.repo_url}/{kind}/main/{path}"

    return _LINK.sub(link, markdown)
