"""csctl with the rights of a user of a management cluster, beside the real operator."""

from __future__ import annotations

from tests.support.running.world import world

__all__ = ["world"]
