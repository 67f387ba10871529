"""csctl as a user of a management cluster runs it, beside the real operator."""

from __future__ import annotations

from tests.support.running.world import world

__all__ = ["world"]
