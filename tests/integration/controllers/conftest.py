"""The real operator against real API servers."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from clusterstacks.operator.controllers.clusterstackrelease import registration
from clusterstacks.operator.controllers.clusterstackrelease.source_check import SourceCheck
from tests.support.running.world import world

__all__ = ["world"]


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the source of each release every second."""
    monkeypatch.setattr(registration, "SourceCheck", partial(SourceCheck, interval=timedelta(seconds=1)))
