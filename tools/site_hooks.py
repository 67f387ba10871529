"""Hooks of mkdocs: the front page, links to files outside of docs, and what tables and drawings need on a phone."""

from __future__ import annotations

import posixpath
import re
from html import unescape
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]

_LINK = re.compile(r"(\]\()(?!\w+:|#|/)([^)#\s]+)")
_NOTE = re.compile(r"\A<!--.*?-->\s*", re.DOTALL)
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_PRE = re.compile(r"<pre>(<code[^>]*>)(.*?</code>)", re.DOTALL)
_CORNER = re.compile("[▶▼▲◀┐┘]")
"""What drawings have, and trees of csctl have not."""


def github_anchor(heading: str, separator: str) -> str:
    """Name a heading as GitHub does, where the same pages are read."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_files(files: Any, config: Any) -> Any:  # noqa: ANN401 - mkdocs
    """Make README.md the front page."""
    text = _LINK.sub(lambda link: link[1] + link[2].removeprefix("docs/"), (ROOT / "README.md").read_text())
    files.append(File.generated(config, "index.md", content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:  # noqa: ANN401 - mkdocs
    """Link files outside of docs in the repository, and let pages begin with their heading, which is their title."""
    folder = posixpath.dirname(page.file.src_uri)

    def link(found: re.Match[str]) -> str:
        target = found[2]
        path = posixpath.normpath(posixpath.join("docs", folder, target))
        if page.file.src_uri == "index.md" and not (ROOT / "docs" / target).exists():
            path = target
        if path.startswith("docs/") and path != "docs/README.md" and not (ROOT / path).is_dir():
            return found[0]
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{found[1]}{config.extra['repository']}/{kind}/main/{path}"

    return _LINK.sub(link, _NOTE.sub("", markdown))


def on_page_content(html: str, **_: Any) -> str:  # noqa: ANN401 - mkdocs
    """Write into cells the name of their column and into drawings their width: site.css fits them to a phone."""
    return _PRE.sub(_measured, _TABLE.sub(_labelled, html))


def _measured(block: re.Match[str]) -> str:
    lines = unescape(block[2]).splitlines()
    if not _CORNER.search(block[2]):
        return block[0]
    return f'<pre class="drawing" style="--columns: {max(map(len, lines))}">{block[1]}{block[2]}'


def _labelled(table: re.Match[str]) -> str:
    names = [re.sub("<[^>]*>", "", name) for name in re.findall(r"<th[^>]*>(.*?)</th>", table[0], re.DOTALL)]

    def row(found: re.Match[str]) -> str:
        columns = iter(names)
        return re.sub("<td", lambda _: f'<td data-column="{next(columns)}"', found[0])

    return re.sub(r"<tr>.*?</tr>", row, table[0], flags=re.DOTALL)
