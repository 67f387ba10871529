"""Fixtures for the pages about the operator."""

from __future__ import annotations

from tests.integration.controllers.conftest import watchful
from tests.support.running.world import world

__all__ = ["watchful", "world"]
