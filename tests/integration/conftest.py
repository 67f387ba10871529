"""Fixtures of the integration tests that more than one folder uses."""

from __future__ import annotations

from tests.support.running.chromium import chromium
from tests.support.servers.api_servers import bare_server, server

__all__ = ["bare_server", "chromium", "server"]
