"""The options of verbs that choose between the Kubernetes minors of a stack directory."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


def minor_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --kubernetes and --all-minors, which exclude each other."""

    @wraps(command)
    def checked(*arguments: Any, kubernetes: str, all_minors: bool, **options: Any) -> Any:  # noqa: ANN401 - click's
        if kubernetes and all_minors:
            raise click.UsageError("--kubernetes and --all-minors exclude each other")
        return command(*arguments, kubernetes=kubernetes, all_minors=all_minors, **options)

    one = click.option(
        "--kubernetes",
        metavar="1-35",
        default="",
        help="For this minor of versions.yaml or stack.yaml.  [default: for the version of csctl.yaml]",
    )
    return one(click.option("--all-minors", is_flag=True, help="For every minor.")(checked))
