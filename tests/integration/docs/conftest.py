"""What the pages about the operator need."""

from __future__ import annotations

from tests.integration.controllers.conftest import watchful
from tests.support.running.world import world

__all__ = ["watchful", "world"]
