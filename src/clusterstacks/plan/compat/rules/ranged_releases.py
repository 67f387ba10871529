"""Rules for clusters whose class states ranges: the versions a change leads to, and the way there.

The result of a change must be allowed. A change of neither class nor Kubernetes may keep what was wrong before, so that
a cluster outside its ranges can be brought back one addon at a time. While Kubernetes moves, both versions must be in
the range of every addon, as delivered and as asked for; an addon that was outside its range before is not checked
against the old version. Where Kubernetes walks several minors over the versions of a class, all facts must allow each
version in between, with the addons as delivered and as asked for: stages run before the first and after the last minor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.plan.compat.constraints import KUBERNETES, Judges, cautions, upgrade_fact, violations
from clusterstacks.plan.compat.rules.upgrades import walked
from clusterstacks.plan.compat.verdicts import Verdict, judge_kubernetes
from clusterstacks.plan.compat.world import ClusterVersions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from clusterstacks.model.files.compatibility import Component
    from clusterstacks.plan.compat.constraints import Violation

SHOWN_FACTS = 3
"""Number of facts in a refusal; arbitrary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterChange:
    """A change of the versions of a cluster."""

    wanted: ClusterVersions
    """The versions that the Cluster asks for."""
    before: ClusterVersions | None = None
    """Those it asked for before; None for a new Cluster, and where its version could not be read."""
    delivered: ClusterVersions | None = None
    """Those it has, which differ from ``before`` during an upgrade; None where ``before`` is None."""
    judges: Judges
    """Rules and facts for the Cluster as it is to be."""
    judges_before: Judges | None = None
    """Those for the labels and variables that it had; None where they are the same."""


@dataclass(frozen=True, slots=True)
class CompatFinding:
    """A fact that speaks against a change."""

    verdict: Verdict
    fact: str
    """Its id."""
    text: str
    """The fact with its source, for a person."""
    addon: str = ""
    """The addon of its component; empty for the class and for rules."""
    under_way: bool = False
    """Whether only the delivered version of the addon breaks it, and not the one that is asked for."""
    arriving: bool = False
    """Whether only the present version of the control plane breaks it, which is being upgraded."""


@dataclass(frozen=True, slots=True)
class CompatFindings:
    """All facts that speak against a change, each once and the worst first; and messages of rules that only warn."""

    findings: tuple[CompatFinding, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def incompatible(self) -> bool:
        """True if a fact forbids the change."""
        return any(finding.verdict is Verdict.INCOMPATIBLE for finding in self.findings)


def judge_change(change: ClusterChange) -> CompatFindings:
    """Find the facts that speak against a change."""
    wanted = change.wanted
    by_fact = {finding.fact: finding for finding in _doubts(change)}
    # The same fact may also say incompatible: that wins.
    by_fact |= {finding.fact: finding for finding in _obstacles(change)}
    worst_first = sorted(by_fact.values(), key=lambda finding: finding.verdict is not Verdict.INCOMPATIBLE)
    warnings = cautions(wanted.release, wanted.kubernetes, wanted.components(), change.judges)
    return CompatFindings(tuple(worst_first), tuple(warnings))


def _obstacles(change: ClusterChange) -> Iterator[CompatFinding]:
    wanted, judges = change.wanted, change.judges
    if change.before is None or change.delivered is None:
        yield from map(_incompatible, _violations(wanted, judges))
        return
    outside_before = {violation.subject for violation in _violations(change.delivered, change.judges_before or judges)}
    yield from _between(wanted, delivered=change.delivered, judges=judges)
    yield from _while_moving(wanted, change.before, change.delivered, judges, outside_before)
    accepted = set[str]() if _moves(change.before, wanted) else outside_before
    yield from (
        _incompatible(violation) for violation in _violations(wanted, judges) if violation.subject not in accepted
    )
    yield from _forbidden_upgrades(wanted, change.before, change.delivered)


def _while_moving(
    wanted: ClusterVersions,
    before: ClusterVersions,
    delivered: ClusterVersions,
    judges: Judges,
    outside_before: set[str],
) -> Iterator[CompatFinding]:
    """Check the delivered addons against the new version, and the addons asked for against the old one."""
    if wanted.kubernetes == delivered.kubernetes:
        return
    if wanted.kubernetes != before.kubernetes:
        leaving = ClusterVersions(wanted.release, wanted.kubernetes, delivered.addons)
        for violation in _ranges_of_addons(leaving, judges):
            yield replace(_incompatible(violation), under_way=True)
    arriving = ClusterVersions(wanted.release, delivered.kubernetes, wanted.addons)
    for violation in _ranges_of_addons(arriving, judges):
        if violation.subject not in outside_before:
            yield replace(_incompatible(violation), arriving=wanted.kubernetes == before.kubernetes)


def _between(wanted: ClusterVersions, delivered: ClusterVersions, judges: Judges) -> Iterator[CompatFinding]:
    """Check the Kubernetes versions that a Cluster only passes."""
    release = wanted.release
    for kubernetes in walked(delivered.kubernetes, wanted.kubernetes, release.class_versions)[:-1]:
        for addons in (delivered.addons, wanted.addons):
            for violation in _violations(ClusterVersions(release, kubernetes, addons), judges):
                finding = _incompatible(violation)
                yield replace(finding, text=f"on the way, with Kubernetes {kubernetes}: {finding.text}")


def _forbidden_upgrades(
    wanted: ClusterVersions, before: ClusterVersions, delivered: ClusterVersions
) -> Iterator[CompatFinding]:
    """Find upgrades that the new version of an addon does not allow from the version that is delivered."""
    for addon, components in wanted.addons.items():
        if components == before.addons.get(addon):
            continue
        present = {component.name: component for component in delivered.addons.get(addon, ())}
        for component in components:
            old = present.get(component.name)
            if old is not None and not component.upgrade.allows(old.version, component.version):
                text = _with_source(_forbidden_upgrade(component, old), component.source)
                yield CompatFinding(Verdict.INCOMPATIBLE, upgrade_fact(component), text, addon)


def _forbidden_upgrade(new: Component, old: Component) -> str:
    if new.version < old.version:
        return f"{new.name} {new.text} does not support a downgrade from {old.text} (upgrade.downgrade)"
    steps = new.upgrade.max_minor_step
    return (
        f"{new.name} may not be upgraded from {old.text} to {new.text} at once: "
        f"upgrade.maxMinorStep of {new.text} is {steps}"
    )


def _doubts(change: ClusterChange) -> Iterator[CompatFinding]:
    """Find untested and unknown combinations; known ones are not repeated while class and Kubernetes stay."""
    wanted, before, delivered = change.wanted, change.before, change.delivered
    stays = before is not None and delivered is not None and not _moves(before, wanted)
    known = delivered.components() if stays and delivered is not None else []
    for component in wanted.components():
        judgement = judge_kubernetes(component, wanted.kubernetes, change.judges.upstream)
        if judgement.verdict in (Verdict.UNTESTED, Verdict.UNKNOWN) and component not in known:
            text = _with_source(f"{judgement.verdict.value}: {judgement.text}", judgement.source)
            fact = f"component:{component.title}{KUBERNETES}"
            yield CompatFinding(judgement.verdict, fact, text, component.addon)


def _moves(old: ClusterVersions, new: ClusterVersions) -> bool:
    return old.release.name != new.release.name or old.kubernetes != new.kubernetes


def _violations(versions: ClusterVersions, judges: Judges) -> tuple[Violation, ...]:
    return violations(versions.release, versions.kubernetes, versions.components(), judges)


def _ranges_of_addons(versions: ClusterVersions, judges: Judges) -> Iterator[Violation]:
    return (
        violation
        for violation in _violations(versions, judges)
        if violation.addon and violation.subject.endswith(KUBERNETES)
    )


def _incompatible(violation: Violation) -> CompatFinding:
    return CompatFinding(
        Verdict.INCOMPATIBLE, violation.fact, _with_source(violation.text, violation.source), violation.addon
    )


def _with_source(text: str, source: str) -> str:
    return f"{text} ({source})" if source else text


def one_line_refusal(wanted: ClusterVersions, against: Sequence[CompatFinding]) -> str:
    """Write the facts against a combination on one line, for conditions and events."""
    return f"{_combination(wanted)}: {'; '.join(_named(against))}"


def listed_refusal(wanted: ClusterVersions, against: Sequence[CompatFinding]) -> str:
    """Write the facts against a combination one on a line, for the answer that a person reads in a terminal."""
    return "\n  ".join([f"{_combination(wanted)} is refused:", *_named(against)])


def _combination(wanted: ClusterVersions) -> str:
    return f"class {wanted.release.name.class_name} with Kubernetes {wanted.kubernetes}"


def _named(against: Sequence[CompatFinding]) -> list[str]:
    more = [f"and {len(against) - SHOWN_FACTS} more"] if len(against) > SHOWN_FACTS else []
    shown = against[:SHOWN_FACTS]
    return [
        *(f"cluster addon {finding.addon}: {finding.text}" if finding.addon else finding.text for finding in shown),
        *more,
    ]
