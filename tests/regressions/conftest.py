"""Regressions are shown with the real operator against real API servers, unless a smaller part proves as much."""

from __future__ import annotations

from tests.support.running.world import world

__all__ = ["world"]
