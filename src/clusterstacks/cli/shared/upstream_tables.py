"""Facts on components as ``csctl compat show`` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from clusterstacks.cli.shared import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clusterstacks.compat.statements import ComponentFacts, UpgradeStatement, UpstreamStatement
    from clusterstacks.domain.objects import Manifest

BUILT_IN = "built in"


def print_list(known: Sequence[ComponentFacts], form: str) -> None:
    """Print which components are known, how old the facts are, and where they are from."""
    if form == "json":
        output.print_json([_head(one) for one in known])
    else:
        rows = [(one.name, one.title, one.read, one.origin or BUILT_IN) for one in known]
        output.print_table(("COMPONENT", "TITLE", "FACTS OF", "FROM"), rows)


def print_sheet(component: ComponentFacts, form: str) -> None:
    """Print everything known about a component."""
    if form == "json":
        output.print_json(_document(component))
        return
    output.say(f"{component.title}: facts of {component.read}, {component.origin or BUILT_IN}", bold=True)
    output.say(_wrapped(component.semantics))
    if verdict := component.outside_verdict:
        output.say(f"  Outside of the ranges: {verdict}.")
    rows = [_cells(one) for one in component.statements]
    output.print_table(("VERSION", "KUBERNETES", "NEVER OUTSIDE", "KIND", "SOURCE"), rows)
    if component.upgrade is not None:
        output.say(_upgrade_line(component.upgrade))


def _wrapped(text: str) -> str:
    return click.wrap_text(text, width=100, initial_indent="  ", subsequent_indent="  ")


def _cells(statement: UpstreamStatement) -> tuple[str, ...]:
    role = f" in a {statement.role} cluster" if statement.role else ""
    doubt = f", {statement.confidence} confidence" if statement.confidence else ""
    return (
        statement.text,
        str(statement.kubernetes or "-"),
        str(statement.limit or "-"),
        f"{statement.kind}{role}{doubt}",
        statement.source.url,
    )


def _upgrade_line(upgrade: UpgradeStatement) -> str:
    step = upgrade.rule.max_minor_step
    up = "by any number of minors" if step is None else f"by at most {step} minor{'' if step == 1 else 's'}"
    down = "and down" if upgrade.rule.downgrade else "and never down"
    since = f" from {upgrade.since} on" if upgrade.since is not None else ""
    return f"Upgraded{since} {up} at a time {down}: {upgrade.source.url}"


def _head(component: ComponentFacts) -> Manifest:
    return {
        "component": component.name,
        "title": component.title,
        "factsOf": component.read,
        "installed": component.origin or None,
    }


def _document(component: ComponentFacts) -> Manifest:
    outside, upgrade = component.outside_verdict, component.upgrade
    return {
        **_head(component),
        "semantics": component.semantics,
        "outside": outside.value if outside else None,
        "statements": [_statement_document(one) for one in component.statements],
        "upgrade": _upgrade_document(upgrade) if upgrade is not None else None,
    }


def _statement_document(statement: UpstreamStatement) -> Manifest:
    return {
        "version": statement.text,
        "kubernetes": str(statement.kubernetes) if statement.kubernetes else None,
        "neverOutside": str(statement.limit) if statement.limit else None,
        "kind": statement.kind,
        "role": statement.role or None,
        "confidence": statement.confidence or "high",
        "source": statement.source.url,
        "published": statement.source.published or None,
        "retrieved": statement.source.retrieved,
        "notes": statement.notes or None,
    }


def _upgrade_document(upgrade: UpgradeStatement) -> Manifest:
    return {
        "maxMinorStep": upgrade.rule.max_minor_step,
        "downgrade": upgrade.rule.downgrade,
        "since": str(upgrade.since) if upgrade.since is not None else None,
        "source": upgrade.source.url,
    }
