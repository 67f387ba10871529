"""The real operator against real API servers."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from clusterstacks.controllers.clusterstackrelease.source_check import Vigilance
from clusterstacks.operator import app
from tests.support.operating import world

__all__ = ["world"]


@pytest.fixture
def watchful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look at the source of each release every second."""
    monkeypatch.setattr(app, "Vigilance", partial(Vigilance, interval=timedelta(seconds=1)))
