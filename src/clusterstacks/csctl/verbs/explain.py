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

    names = {one.name.lower(): str(one.name) for one in (*CONDITIONS, *REASONS)}
    return [CompletionItem(name) for lower, name in sorted(names.items()) if lower.startswith(incomplete.lower())]


@click.command(short_help="Explain a condition or reason.")
@click.argument("name", metavar="[CONDITION|REASON]", required=False, default="", shell_complete=_complete)
@form_option("text", "json", "yaml")
def explain(name: str, form: str) -> None:
    """Explain a condition or a reason of Clusters, ClusterAddons, ClusterStacks and ClusterStackReleases.

    Without an argument, all of them are listed. Reasons that are not listed are codes of errors; their messages name
    the object, the cause and the remedy.
    """
    found = find(name) if name else [*CONDITIONS, *REASONS]
    if form != TEXT:
        output.print_document([_document(one) for one in found], form)
        return
    for one in found:
        kind = f"condition of {', '.join(one.kinds)}" if one.kinds else "reason"
        output.say(f"{one.name} ({kind})", bold=True)
        output.say(f"  {one.meaning}")
        if one.remedy:
            output.say(f"  {'If it is False: ' if one.kinds else 'What to do: '}{one.remedy}")


def find(name: str) -> list[Explanation]:
    """Return the condition and the reason of a name; upper and lower case do not matter.

    Raises:
        SpecError: There is neither.
    """
    known = (*CONDITIONS, *REASONS)
    found = [one for one in known if one.name.lower() == name.lower()]
    if not found:
        names = {one.name.lower(): str(one.name) for one in known}
        close = [names[one] for one in get_close_matches(name.lower(), names)]
        hint = f"did you mean {' or '.join(close)}?" if close else "'csctl explain' lists all"
        raise SpecError("NameUnknown", f"{name!r} is not a condition or reason of cluster stacks: {hint}")
    return found


def _document(one: Explanation) -> dict[str, object]:
    kind = "condition" if one.kinds else "reason"
    return {
        "name": str(one.name),
        "type": kind,
        "meaning": one.meaning,
        "remedy": one.remedy,
        "kinds": [str(each) for each in one.kinds],
    }
