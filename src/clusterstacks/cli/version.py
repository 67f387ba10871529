"""``csctl version``: print the version of csctl."""

from __future__ import annotations

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import JSON, form_option

DISTRIBUTION = "cluster-stacks"
UNKNOWN = "unknown"
"""Commit of an installation without this information, as csctl written in Go prints it."""


@click.command(short_help="Print the version of csctl.")
@form_option()
def version(form: str) -> None:
    """Print the version of csctl, and the commit if it was installed from a git repository."""
    from importlib.metadata import distribution

    installed = distribution(DISTRIBUTION)
    commit = commit_of(installed.read_text("direct_url.json"))
    if form == JSON:
        output.print_json({"version": installed.version, "commit": commit})
        return
    output.say(f"csctl version: {installed.version}")
    output.say(f"commit: {commit}")


def commit_of(direct_url: str | None) -> str:
    """Return the commit that the installer recorded (PEP 610), otherwise ``unknown``."""
    import json

    noted = json.loads(direct_url or "{}")
    return str(noted.get("vcs_info", {}).get("commit_id", UNKNOWN))
