"""The static site is built without a warning, has every page, and can be read on a phone."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.chromium import open_page
from tests.support.running.doc_pages import CHECKOUT, DOCS
from tests.support.servers.static_server import StaticServer

MEASURE = """async paths => {
    const article = document.querySelector("article"), found = [];
    for (const path of paths) {
        if (path !== location.pathname) {
            const text = await (await fetch(path)).text();
            article.innerHTML = new DOMParser().parseFromString(text, "text/html").querySelector("article").innerHTML;
        }
        for (const image of article.querySelectorAll("img")) {
            image.src = new URL(image.getAttribute("src"), new URL(path, location));
            await image.decode();
        }
        const right = article.getBoundingClientRect().right + 1;
        if (document.documentElement.scrollWidth > innerWidth) found.push(`${path}: the page`);
        for (const one of article.querySelectorAll("table, td, th, img, pre.drawing > code")) {
            const outside = !one.closest("pre") && one.getBoundingClientRect().right > right;
            if (outside || one.scrollWidth > one.clientWidth + 1)
                found.push(`${path}: ${one.outerHTML.slice(0, 120)}`);
        }
    }
    return found;
}"""
"""Shows each page in place of the one that is open, which is quicker than to open it, and lists what is cut."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as ``make site`` does."""
    root = tmp_path_factory.mktemp("site")
    environ = {"UV_SYSTEM_CERTS": "1", **os.environ, "UV_PROJECT_ENVIRONMENT": str(root / "venv"), "PYTHONPATH": "."}
    environ.pop("VIRTUAL_ENV", None)
    uv = Path(sys.executable).with_name("uv")
    packages: list[str | Path] = [uv, "sync", "--quiet", "--locked", "--only-group", "site"]
    installed = subprocess.run(packages, cwd=CHECKOUT, env=environ, capture_output=True, text=True, check=False)
    if installed.returncode:  # test_pages.py checks all links as well
        pytest.skip(f"mkdocs cannot be installed: {installed.stderr[-500:]}")
    build: list[str | Path] = [root / "venv/bin/mkdocs", "build", "--strict", "--site-dir", root / "site"]
    built = subprocess.run(build, cwd=CHECKOUT, env=environ, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return root / "site"


def pages_of(site: Path) -> list[str]:
    return [f"/{path.relative_to(site)}" for path in sorted(site.rglob("index.html"))]


def test_site_has_a_page_for_each_file_and_a_front_page(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}

    assert "make demo" in (site / "index.html").read_text()
    assert [page for page in pages if not (site / page / "index.html").is_file()] == []


def test_titles_stand_alone(site: Path) -> None:
    texts = [(site / path.removeprefix("/")).read_text() for path in pages_of(site)]
    titles = [
        title.removesuffix(" - Cluster Stacks") for text in texts for title in re.findall("<title>(.*)</title>", text)
    ]

    assert len({*titles}) == len(titles) == len(texts)
    assert [title for title in titles if " " not in title and title != "Glossary"] == []


def test_navigation_begins_with_a_tutorial_and_has_no_page_without_a_place(site: Path) -> None:
    front = (site / "index.html").read_text()
    names = re.findall(r"(?s)md-tabs__link.*?>\s*(.+?)\s*</a>", front)

    assert names[1:] == ["Begin", "Users", "Administrators", "Authors", "How it works", "Reference"]


@pytest.mark.regression("U-10")
async def test_no_table_or_picture_is_cut(site: Path, chromium: list[str], tmp_path: Path) -> None:
    pages = pages_of(site)
    async with StaticServer.started(site) as server, open_page(chromium, tmp_path) as page:
        await page.resize(1280, 900)
        await page.goto(f"{server.url}/reference/conditions/index.html")
        await page.until("document.querySelector('.md-typeset__table')")
        assert await page.value(f"({MEASURE})([location.pathname])") == [], "as the theme's script has left it"

        for width in (1280, 390):
            await page.resize(width, 900)
            await page.until(f"innerWidth === {width}")
            assert await page.value(f"({MEASURE})({json.dumps(pages)})") == [], width


@pytest.mark.regression("U-12")
async def test_site_is_searched_dark_and_loads_nothing_from_others(
    site: Path, chromium: list[str], tmp_path: Path
) -> None:
    async with StaticServer.started(site) as server, open_page(chromium, tmp_path) as page:
        await page.resize(1280, 900)
        await page.scheme("dark")
        await page.goto(f"{server.url}/index.html")
        await page.until("document.querySelector('[data-md-component=search-query]')")
        await page.until("getComputedStyle(document.body).backgroundColor != 'rgb(255, 255, 255)'")
        await page.value("document.querySelector('[data-md-component=search-query]').focus()")
        await page.type("ClusterStackWithinRanges")
        await page.until("document.querySelector('.md-search-result__link[href*=conditions]')")

        loaded = await page.value("performance.getEntriesByType('resource').map(one => one.name)")
        assert [one for one in loaded if not one.startswith((server.url, "data:", "blob:"))] == []
        assert page.complaints == []
