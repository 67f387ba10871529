"""``csctl version``: the version of this program."""

from __future__ import annotations

import click

from clusterstacks.cli.shared import output
from clusterstacks.cli.shared.options import JSON, form_option

DISTRIBUTION = "cluster-stacks"
UNKNOWN = "unknown"
"""The commit of an installation that does not say it, as csctl in Go prints it."""


@click.command(short_help="Print the version of csctl.")
@form_option()
def version(form: str) -> None:
    """Print the version of csctl, and the commit where it was installed from a git repository."""
    from importlib.metadata import distribution

    installed = distribution(DISTRIBUTION)
    commit = commit_of(installed.read_text("direct_url.json"))
    if form == JSON:
        output.print_json({"version": installed.version, "commit": commit})
        return
    output.say(f"csctl version: {installed.version}")
    output.say(f"commit: {commit}")


def commit_of(direct_url: str | None) -> str:
    """Return the commit that an installer noted (PEP 610), ``unknown`` where it did not."""
    import json

    noted = json.loads(direct_url or "{}")
    return str(noted.get("vcs_info", {}).get("commit_id", UNKNOWN))
