"""``csctl crds`` as its users see it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from clusterstacks.api.crd_manifests import all_crds
from clusterstacks.cli.main import csctl
from clusterstacks.cli.shared import output

if TYPE_CHECKING:
    import pytest


def test_what_is_printed_are_the_definitions_of_all_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    assert output.run(lambda: csctl.main(["crds"], standalone_mode=False)) == 0

    assert list(yaml.safe_load_all(capsys.readouterr().out)) == all_crds()
