"""``csctl compat``: what works with what, and who says so."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from clusterstacks.cli import output

if TYPE_CHECKING:
    from clusterstacks.domain.combinations import Part
    from clusterstacks.domain.matrices import Row
    from clusterstacks.domain.objects import Manifest
    from clusterstacks.domain.planning.world import Candidate
    from clusterstacks.domain.upstream import ComponentFacts, UpstreamFacts
    from clusterstacks.domain.versions import KubernetesMinor, KubernetesVersion

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
COLOURS = {"ok": "green", "untested": "yellow", "unknown": "yellow", "incompatible": "red"}
INSTALLED = Path("cluster-stacks", "compatibility")
"""Below the user's data directory (XDG base directory specification)."""
PARTLY = "*"

form_option = click.option(
    "--output", "-o", "form", type=click.Choice(["text", "json"]), default="text", show_default=True
)


@click.group(short_help="Say which versions work together.")
def compat() -> None:
    """Say which versions work together, by the facts of releases and of upstream projects.

    Built-in facts are what upstream projects published on the day that 'csctl compat show' names; 'csctl compat update'
    lays newer ones over them. A release says more in its compatibility.yaml, which 'csctl compat infer' begins.
    """


@compat.command(short_help="Show the facts on components.")
@click.argument("component", required=False)
@form_option
def show(component: str | None, form: str) -> None:
    """List the components facts are known about, or show what is known about one."""
    known = _facts().components
    if component is None:
        _show_list([known[name] for name in known], form)
        return
    if component not in known:
        raise click.UsageError(f"nothing is known about {component}: 'csctl compat show' lists the components")
    _show_one(known[component], form)


@compat.command(short_help="Judge every component of a release.")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=DIRECTORY)
@click.option("--kubernetes", metavar="v1.36.1", default="", help="The version of a cluster.  [default: the release's]")
@form_option
def check(directories: tuple[Path, ...], kubernetes: str, form: str) -> int:
    """Judge every component of releases or stacks with a Kubernetes version, and name the fact that decides.

    Of a release only metadata.yaml and compatibility.yaml are read. Where several DIR are given, what they say
    differently about one version of a component is told, too. Exits with 0 when all work or nobody knows better, with 2
    when something is incompatible.
    """
    from clusterstacks.domain.combinations import contradictions, parts
    from clusterstacks.domain.verdicts import Verdict
    from clusterstacks.domain.versions import KubernetesVersion

    wanted = KubernetesVersion.parse(kubernetes) if kubernetes else None
    upstream, labelled = _facts(), _labelled(directories)
    judged = [
        (label, wanted or one.kubernetes, parts(one, wanted or one.kubernetes, upstream)) for label, one in labelled
    ]
    told = contradictions(labelled)
    if form == "json":
        document = [_checked_document(*one) for one in judged]
        output.print_json({"releases": document, "contradictions": list(told)})
    else:
        for label, version, found in judged:
            _print_checked(label, version, found)
        for text in told:
            output.say(f"{click.style('differs', fg='yellow')}  {text}")
    broken = any(part.judgement.verdict is Verdict.INCOMPATIBLE for _, _, found in judged for part in found)
    return output.MUST_CHANGE if broken else 0


@compat.command(short_help="Print which combinations work.")
@click.argument("directories", metavar="DIR...", nargs=-1, required=True, type=DIRECTORY)
@form_option
def matrix(directories: tuple[Path, ...], form: str) -> None:
    """Print which releases, and which versions of their components, work with which Kubernetes minor.

    DIR are directories of releases or stacks. The first rows are releases with their own addons; below them stands
    every version of every component, as addons can be taken from another release.
    """
    from clusterstacks.api.compatibility.kubernetes import known_minors
    from clusterstacks.domain.matrices import matrix as tabulate

    table = tabulate(_labelled(directories), known_minors(), _facts())
    if form == "json":
        output.print_json(
            {
                "kubernetes": [str(minor) for minor in table.minors],
                "releases": [_row_document(row, table.minors) for row in table.releases],
                "components": [_row_document(row, table.minors) for row in table.components],
            }
        )
        return
    rows = [[row.releases[0], *_cells(row)] for row in table.releases]
    rows += [[f"{row.name} {row.version}{_of_addon(row.addon)}", *_cells(row)] for row in table.components]
    output.print_table(("KUBERNETES", *map(str, table.minors)), rows)
    if any(cell.partly for row in (*table.releases, *table.components) for cell in row.cells):
        output.say(f"{PARTLY} not for every patch: ask with csctl compat check --kubernetes")


@compat.command(short_help="Install newer facts on a component.")
@click.argument("file", type=FILE)
def update(file: Path) -> None:
    """Check a facts file and install it for you; it replaces the built-in facts on its component.

    The file has the schema of the built-in ones. Removing the installed file, whose path is printed, brings the
    built-in facts back.
    """
    from datetime import UTC, datetime

    from clusterstacks.api.compatibility.installing import install
    from clusterstacks.api.compatibility.library import facts

    built_in = facts().components
    found = install(file, _installed(), datetime.now(UTC).date())
    output.say(f"{found.name}: facts of {found.read}, {found.origin}")
    if found.name in built_in and found.read < built_in[found.name].read:
        click.echo(f"note: the built-in facts are newer, of {built_in[found.name].read}", err=True)


@compat.command(short_help="Begin the compatibility.yaml of a stack.")
@click.argument("directory", metavar="DIR", type=DIRECTORY)
@click.option("--force", is_flag=True, help="Write over a compatibility.yaml that is there.")
def infer(directory: Path, *, force: bool) -> None:
    """Write the compatibility.yaml of a stack from its charts and the facts; comments tell evidence from guesses."""
    from clusterstacks.authoring.inferring import infer_file

    place = infer_file(directory, _facts(), force=force)
    output.say(str(place))
    click.echo(f"next: read its comments, then {output.program()} lint {directory}", err=True)


def _installed() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / INSTALLED


def _facts() -> UpstreamFacts:
    from clusterstacks.api.compatibility.library import facts

    return facts(_installed())


def _labelled(directories: tuple[Path, ...]) -> list[tuple[str, Candidate]]:
    from clusterstacks.authoring.stating import stated_by

    return [one for directory in directories for one in stated_by(directory)]


def _show_list(known: list[ComponentFacts], form: str) -> None:
    if form == "json":
        output.print_json(
            [
                {"component": one.name, "title": one.title, "read": one.read, "installed": one.origin or None}
                for one in known
            ]
        )
        return
    rows = [(one.name, one.title, one.read, one.origin or "built in") for one in known]
    output.print_table(("COMPONENT", "TITLE", "FACTS OF", "FROM"), rows)


def _show_one(component: ComponentFacts, form: str) -> None:
    if form == "json":
        output.print_json(_component_document(component))
        return
    output.say(f"{component.title}: facts of {component.read}, {component.origin or 'built in'}")
    output.say(click.wrap_text(component.semantics, width=100, initial_indent="  ", subsequent_indent="  "))
    rows = [
        (
            one.text,
            one.kubernetes or "-",
            one.limit or "-",
            f"{one.kind}{f' ({one.confidence} confidence)' if one.confidence else ''}",
            one.role or "-",
            one.source.url,
        )
        for one in component.statements
    ]
    output.print_table(("VERSION", "KUBERNETES", "LIMIT", "KIND", "CLUSTER", "SOURCE"), rows)
    if component.upgrade is not None:
        rule, since = component.upgrade.rule, component.upgrade.since
        step = f"at most {rule.max_minor_step} minor(s) at a time" if rule.max_minor_step else "any step up"
        begin = f", from {since} on" if since else ""
        output.say(
            f"upgrade: {step}, {'down, too' if rule.downgrade else 'never down'}{begin}: {component.upgrade.source.url}"
        )


def _component_document(component: ComponentFacts) -> Manifest:
    upgrade = component.upgrade
    return {
        "component": component.name,
        "title": component.title,
        "read": component.read,
        "installed": component.origin or None,
        "semantics": component.semantics,
        "statements": [
            {
                "version": one.text,
                "kubernetes": str(one.kubernetes) if one.kubernetes else None,
                "limit": str(one.limit) if one.limit else None,
                "kind": one.kind,
                "role": one.role or None,
                "confidence": one.confidence or "high",
                "source": one.source.url,
                "published": one.source.published or None,
                "retrieved": one.source.retrieved,
                "notes": one.notes or None,
            }
            for one in component.statements
        ],
        "upgrade": None
        if upgrade is None
        else {
            "maxMinorStep": upgrade.rule.max_minor_step,
            "downgrade": upgrade.rule.downgrade,
            "since": str(upgrade.since) if upgrade.since else None,
            "source": upgrade.source.url,
        },
    }


def _checked_document(label: str, kubernetes: KubernetesVersion, found: tuple[Part, ...]) -> Manifest:
    from clusterstacks.domain.combinations import worst

    return {
        "release": label,
        "kubernetes": str(kubernetes),
        "verdict": worst(part.judgement for part in found).value,
        "parts": [
            {
                "fact": part.fact,
                "component": part.name or None,
                "version": part.version or None,
                "addon": part.addon or None,
                "verdict": part.judgement.verdict.value,
                "text": part.judgement.text,
                "source": part.judgement.source or None,
            }
            for part in found
        ],
    }


def _print_checked(label: str, kubernetes: KubernetesVersion, found: tuple[Part, ...]) -> None:
    from clusterstacks.domain.combinations import worst

    output.say(f"{label} with Kubernetes {kubernetes}: {_coloured(worst(part.judgement for part in found).value)}")
    for part in found:
        source = f" ({part.judgement.source})" if part.judgement.source else ""
        verdict = _coloured(part.judgement.verdict.value.ljust(max(map(len, COLOURS))))
        output.say(f"  {verdict}  {part.judgement.text}{_of_addon(part.addon)}{source}")


def _cells(row: Row) -> list[str]:
    return [f"{cell.verdict.value}{PARTLY if cell.partly else ''}" for cell in row.cells]


def _row_document(row: Row, minors: tuple[KubernetesMinor, ...]) -> Manifest:
    whole = {} if not row.name else {"component": row.name, "version": row.version, "addon": row.addon or None}
    return {
        **whole,
        "releases": list(row.releases),
        "kubernetes": {
            str(minor): {"verdict": cell.verdict.value, "partly": cell.partly}
            for minor, cell in zip(minors, row.cells, strict=True)
        },
    }


def _of_addon(addon: str) -> str:
    return f", addon {addon}" if addon else ""


def _coloured(verdict: str) -> str:
    return click.style(verdict, fg=COLOURS[verdict.strip()])
