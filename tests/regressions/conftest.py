"""The real operator against real API servers; smaller tests where they prove as much."""

from __future__ import annotations

from tests.support.running.world import world

__all__ = ["world"]
