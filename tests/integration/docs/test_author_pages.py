"""Pages for authors whose commands need no cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.running.doc_pages import Page, environ_of_reader

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("page", ["how-to/install-csctl.md", "how-to/use-an-editor.md"])
def test_commands_of_the_page_print_what_it_shows(page: str, tmp_path: Path) -> None:
    Page.read(page).run(tmp_path, environ_of_reader(tmp_path / "kubeconfig"))


def test_programs_of_the_local_environment_are_found(tmp_path: Path) -> None:
    page = Page.read("how-to/local-binaries.md", {".venv/bin/csctl": "csctl"})

    (printed,) = page.run(tmp_path, environ_of_reader(tmp_path / "kubeconfig"))

    assert "kube-apiserver" in printed
