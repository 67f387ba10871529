"""Output of ``csctl index``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.support.builders.releases import STAGED, staged_release, write_release
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_index_lists_the_releases_and_its_path_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_release(tmp_path / STAGED.release, staged_release())

    assert call_csctl("index", tmp_path) == 0
    assert capsys.readouterr().out == f"{tmp_path}/index.json\n"
    assert list(json.loads((tmp_path / "index.json").read_text())["releases"]) == [STAGED.release]
