"""Clusters whose class states ranges: the combination a write leads to, and the way there.

The result of a write must be legal. A write that moves neither class nor Kubernetes may leave wrong what was wrong
before, so that a cluster that slid out of its ranges can be brought back one addon at a time. While Kubernetes moves,
both versions must be in the range of every addon, as delivered and as asked for; the old version is not asked of an
addon that was outside of its range before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterstacks.compat.constraints import KUBERNETES, Judges, cautions, upgrade_fact, violations
from clusterstacks.compat.verdicts import Verdict, judge_kubernetes
from clusterstacks.domain.compatibility import leading

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from clusterstacks.compat.constraints import Violation
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.compatibility import Component
    from clusterstacks.domain.versions import KubernetesVersion


@dataclass(frozen=True, slots=True)
class Setup:
    """A combination.

    Args:
        candidate: The release of the class.
        kubernetes: The version.
        addons: By name, the components of each addon.
    """

    candidate: Candidate
    kubernetes: KubernetesVersion
    addons: Mapping[str, tuple[Component, ...]]

    def components(self) -> list[Component]:
        """Return everything that is there, the class's own components included."""
        stated = self.candidate.compatibility
        own = stated.of_addon("") if stated is not None else ()
        return [*own, *(component for components in self.addons.values() for component in components)]

    def version(self, addon: str) -> str:
        """Return the version of an addon's software; empty when it is not there."""
        components = self.addons.get(addon)
        return leading(addon, components).text if components else ""


@dataclass(frozen=True, slots=True)
class Before:
    """The cluster as it is.

    Args:
        asked: What the Cluster asked for before the write.
        delivered: What it has: other versions than asked for while an addon is under way.
        judges: What decided with the labels and variables that the Cluster had; None where they are the same.
    """

    asked: Setup
    delivered: Setup
    judges: Judges | None = None


@dataclass(frozen=True, slots=True)
class CompatFinding:
    """A fact that speaks against a write.

    Args:
        verdict: How much.
        fact: Its id.
        text: For a person, with its source.
        addon: Whose component it is about; empty for the class and rules.
        under_way: Whether only what is delivered stands in the way, and not what is asked for.
        arriving: Whether only the version of the control plane stands in the way, which is on its way to the version
            asked for before.
    """

    verdict: Verdict
    fact: str
    text: str
    addon: str = ""
    under_way: bool = False
    arriving: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """Everything that speaks against a write.

    Args:
        findings: Each fact once, the worst first.
        warnings: What rules say that only warn.
    """

    findings: tuple[CompatFinding, ...] = ()
    warnings: tuple[str, ...] = ()


def judge_setup(after: Setup, before: Before | None, judges: Judges) -> Judged:
    """Judge a write.

    Args:
        after: What the Cluster asks for.
        before: What it was; None for a new one.
        judges: What decides besides the releases.
    """
    found = {one.fact: one for one in _doubts(after, before, judges)}
    # The same fact says incompatible: that wins.
    found |= {one.fact: one for one in _obstacles(after, before, judges)}
    worst_first = sorted(found.values(), key=lambda one: one.verdict is not Verdict.INCOMPATIBLE)
    warnings = cautions(after.candidate, after.kubernetes, after.components(), judges)
    return Judged(tuple(worst_first), tuple(warnings))


def _obstacles(after: Setup, before: Before | None, judges: Judges) -> Iterator[CompatFinding]:
    if before is None:
        yield from map(_against, _violations(after, judges))
        return
    yield from _while_moving(after, before, judges)
    known = frozenset[str]() if _moves(before.asked, after) else _subjects(before.delivered, before.judges or judges)
    yield from (_against(one) for one in _violations(after, judges) if one.subject not in known)
    yield from _forbidden_moves(after, before)


def _while_moving(after: Setup, before: Before, judges: Judges) -> Iterator[CompatFinding]:
    """Ask the old version of what comes, and the new one of what is there."""
    if after.kubernetes == before.delivered.kubernetes:
        return
    if after.kubernetes != before.asked.kubernetes:
        leaving = Setup(after.candidate, after.kubernetes, before.delivered.addons)
        for one in _ranges_of_addons(leaving, judges):
            yield CompatFinding(Verdict.INCOMPATIBLE, one.fact, _told(one), one.addon, under_way=True)
    outside = _subjects(before.delivered, before.judges or judges)
    arriving = Setup(after.candidate, before.delivered.kubernetes, after.addons)
    for one in _ranges_of_addons(arriving, judges):
        if one.subject not in outside:
            yield replace(_against(one), arriving=after.kubernetes == before.asked.kubernetes)


def _forbidden_moves(after: Setup, before: Before) -> Iterator[CompatFinding]:
    """Ask the version an addon moves to whether it may be moved to from the one that is there."""
    for addon, components in after.addons.items():
        if components == before.asked.addons.get(addon):
            continue
        there = {one.name: one for one in before.delivered.addons.get(addon, ())}
        for one in components:
            old = there.get(one.name)
            if old is not None and not one.upgrade.allows(old.version, one.version):
                text = _forbidden(one, old)
                yield CompatFinding(Verdict.INCOMPATIBLE, upgrade_fact(one), _sourced(text, one.source), addon)


def _forbidden(new: Component, old: Component) -> str:
    if new.version < old.version:
        moved = f"{new.name} may not be downgraded from {old.text} to {new.text}"
        return f"{moved}: upgrade.downgrade of {new.text} is not true"
    steps = new.upgrade.max_minor_step
    return (
        f"{new.name} may not be upgraded from {old.text} to {new.text} at once: "
        f"upgrade.maxMinorStep of {new.text} is {steps}"
    )


def _doubts(after: Setup, before: Before | None, judges: Judges) -> Iterator[CompatFinding]:
    """Find what nobody tried and what nobody says; not again where neither class nor Kubernetes nor it has moved."""
    known = before.delivered.components() if before is not None and not _moves(before.asked, after) else []
    for component in after.components():
        judgement = judge_kubernetes(component, after.kubernetes, judges.upstream)
        if judgement.verdict in (Verdict.UNTESTED, Verdict.UNKNOWN) and component not in known:
            text = f"{judgement.verdict.value}: {judgement.text}"
            fact = f"component:{component.title}{KUBERNETES}"
            yield CompatFinding(judgement.verdict, fact, _sourced(text, judgement.source), component.addon)


def _moves(old: Setup, new: Setup) -> bool:
    return old.candidate.name != new.candidate.name or old.kubernetes != new.kubernetes


def _violations(setup: Setup, judges: Judges) -> tuple[Violation, ...]:
    return violations(setup.candidate, setup.kubernetes, setup.components(), judges)


def _subjects(setup: Setup, judges: Judges) -> frozenset[str]:
    return frozenset(one.subject for one in _violations(setup, judges))


def _ranges_of_addons(setup: Setup, judges: Judges) -> Iterator[Violation]:
    return (one for one in _violations(setup, judges) if one.addon and one.subject.endswith(KUBERNETES))


def _against(one: Violation) -> CompatFinding:
    return CompatFinding(Verdict.INCOMPATIBLE, one.fact, _told(one), one.addon)


def _told(one: Violation) -> str:
    return _sourced(one.text, one.source)


def _sourced(text: str, source: str) -> str:
    return f"{text} ({source})" if source else text
