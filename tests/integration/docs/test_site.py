"""The static site is built without a warning, and has every page."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.running.doc_pages import CHECKOUT, DOCS


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


def test_site_has_a_page_for_each_file_and_a_front_page(site: Path) -> None:
    pages = {path.relative_to(DOCS).with_suffix("") for path in DOCS.rglob("*.md")}

    assert "make demo" in (site / "index.html").read_text()
    assert [page for page in pages if not (site / page / "index.html").is_file()] == []


def test_site_can_be_searched_and_begins_with_tutorials(site: Path) -> None:
    found = json.loads((site / "search/search_index.json").read_text())["docs"]
    front = (site / "index.html").read_text()

    assert any("ClusterStackWithinRanges" in one["text"] for one in found)
    assert 0 < front.index(">Tutorial<") < front.index(">How to<") < front.index(">Reference<")
