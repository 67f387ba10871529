"""``csctl index`` as its users see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from clusterstacks.cli.main import csctl
from clusterstacks.cli.shared import output
from tests.support.builders.releases import STAGED, staged_release, write_release

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_index_lists_the_releases_and_its_place_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_release(tmp_path / STAGED.release, staged_release())

    assert output.run(lambda: csctl.main(["index", str(tmp_path)], standalone_mode=False)) == 0
    assert capsys.readouterr().out == f"{tmp_path}/index.json\n"
    assert list(json.loads((tmp_path / "index.json").read_text())["releases"]) == [STAGED.release]
