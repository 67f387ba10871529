"""``csctl explain``: explain a condition or reason in the status of an object."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

import click

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.options import TEXT, form_option
from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.explanations import CONDITIONS, REASONS, Explanation

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    names = {explanation.name.lower(): str(explanation.name) for explanation in (*CONDITIONS, *REASONS)}
    return [CompletionItem(name) for lower, name in sorted(names.items()) if lower.startswith(incomplete.lower())]


@click.command(short_help="Explain a condition or reason.")
@click.argument("name", metavar="[CONDITION|REASON]", required=False, default="", shell_complete=_complete)
@form_option()
def explain(name: str, form: str) -> None:
    """Explain a condition or a reason of Clusters, ClusterAddons, ClusterStacks, ClusterStackReleases and syncs.

    Without an argument, all of them are listed. Reasons that are not listed are codes of errors; their messages name
    the object, the cause and the remedy.
    """
    explanations = find(name) if name else [*CONDITIONS, *REASONS]
    if form != TEXT:
        output.print_document([_document(explanation) for explanation in explanations], form)
        return
    for explanation in explanations:
        kind = f"condition of {', '.join(explanation.kinds)}" if explanation.kinds else "reason"
        output.say(f"{explanation.name} ({kind})", bold=True)
        output.say(f"  {explanation.meaning}")
        if explanation.remedy:
            output.say(f"  {'If it is False: ' if explanation.kinds else 'What to do: '}{explanation.remedy}")


def find(name: str) -> list[Explanation]:
    """Return the condition and the reason of a name; upper and lower case do not matter, an unknown name is refused."""
    known = (*CONDITIONS, *REASONS)
    explanations = [explanation for explanation in known if explanation.name.lower() == name.lower()]
    if not explanations:
        names = {explanation.name.lower(): str(explanation.name) for explanation in known}
        close = [names[match] for match in get_close_matches(name.lower(), names)]
        hint = f"did you mean {' or '.join(close)}?" if close else "'csctl explain' lists all"
        raise SpecError("NameUnknown", f"{name!r} is not a condition or reason of cluster stacks: {hint}")
    return explanations


def _document(explanation: Explanation) -> dict[str, object]:
    kind = "condition" if explanation.kinds else "reason"
    return {
        "name": str(explanation.name),
        "type": kind,
        "meaning": explanation.meaning,
        "remedy": explanation.remedy,
        "kinds": [str(kind) for kind in explanation.kinds],
    }
