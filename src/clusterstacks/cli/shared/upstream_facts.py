"""The upstream facts in force for the user of ``csctl``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterstacks.compat.statements import UpstreamFacts

INSTALLED = Path("cluster-stacks", "compatibility")
"""Below the user's data directory (XDG base directory specification)."""


def installed_facts() -> Path:
    """Return the directory of the facts that ``csctl compat update`` installs; it need not exist."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / INSTALLED


def facts_in_force() -> UpstreamFacts:
    """Return the built-in facts with those laid over them that the user installed."""
    from clusterstacks.compat.library import facts

    return facts(installed_facts())
