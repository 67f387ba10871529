"""The real operator against real API servers, and a real Prometheus."""

from __future__ import annotations

from tests.support.running.world import world

__all__ = ["world"]
