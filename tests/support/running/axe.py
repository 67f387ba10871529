"""Checks of a page in the browser by axe-core: WCAG 2 and best practices."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.running.chromium import Page

RUN = """
axe.run().then(({ violations }) => violations.map(({ id, help, nodes }) =>
  `${id}: ${help}: ${nodes.map(({ target }) => target).join(" ")}`))
"""


async def violations(page: Page) -> list[str]:
    """Return what axe finds in the present state of a page."""
    if await page.value("typeof axe") == "undefined":
        script = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
        await page.value(f"{script}; undefined")
    found: list[str] = await page.value(RUN)
    return found
