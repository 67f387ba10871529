"""The real operator with its webhooks, called by a real API server."""

from __future__ import annotations

from tests.support.running.world import world

__all__ = ["world"]
