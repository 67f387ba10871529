"""What ``csctl attest`` refuses before it reads anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.shared import output
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("stage", ["", "Bad Stage", "-a", "a-", "a.b", "a" * 64])
def test_stage_that_no_clusterstack_can_require_is_refused(
    stage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    key = tmp_path / "stage.key"
    key.touch()
    assert call_csctl("attest", tmp_path, "--stage", stage, "--key", key) == output.MUST_CHANGE
    assert "is not the name of a stage (expected up to 63 of a-z, 0-9 and -)" in " ".join(
        capsys.readouterr().err.split()
    )
