"""Output of ``csctl crds``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from clusterstacks.model.kinds.crd_manifests import all_crds
from tests.support.running.csctl import call_csctl

if TYPE_CHECKING:
    import pytest


def test_crds_prints_the_definitions_of_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert call_csctl("crds") == 0

    assert list(yaml.safe_load_all(capsys.readouterr().out)) == all_crds()
