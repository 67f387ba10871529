"""The options of verbs that may need charts which a stack's charts depend on."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from clusterstacks.charts.vendor import ChartDependencies
    from clusterstacks.http.client import Web

CACHE = Path("cluster-stacks", "charts")
"""Below the user's cache directory (XDG base directory specification)."""


def dependency_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --dependencies and --offline, for ``chart_dependencies``."""
    offline = click.option("--offline", is_flag=True, help="Take chart dependencies from the cache only.")
    choice = click.option(
        "--dependencies",
        type=click.Choice(["vendor", "leave"]),
        default="vendor",
        show_default=True,
        help="Add what charts depend on as csctl create does, or leave charts as they are.",
    )
    return choice(offline(command))


def chart_dependencies(web: Web, dependencies: str, *, offline: bool) -> ChartDependencies | None:
    """Return what adds chart dependencies; None where they are to be left."""
    from clusterstacks.charts.vendor import ChartDependencies
    from clusterstacks.oci.credentials import find

    if dependencies == "leave":
        return None
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return ChartDependencies(web, home / CACHE, offline=offline, credentials=partial(find, environ=os.environ))
