"""Fixtures of the integration tests that more than one folder uses."""

from __future__ import annotations

import pytest

from clusterstacks.operator.controllers.clusteraddon import compat_check
from tests.support.running.chromium import chromium
from tests.support.servers.api_servers import bare_server, server

__all__ = ["bare_server", "chromium", "server"]


@pytest.fixture(autouse=True)
def _no_minor_leaves_support(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the day of the test out of what operators of this process report."""
    monkeypatch.setattr(compat_check, "support_ends", dict)
