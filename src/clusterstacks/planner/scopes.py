"""Which facts speak about the same addons, and so which addons must be searched together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.compat.constraints import kubernetes_fact, requires_fact
from clusterstacks.planner.model import ABSENT, Scope, own_components

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from clusterstacks.compat.constraints import Judges
    from clusterstacks.compat.world import Candidate
    from clusterstacks.domain.compatibility import Component
    from clusterstacks.domain.versions import KubernetesVersion
    from clusterstacks.planner.catalogue import Fact
    from clusterstacks.planner.model import Addon, Choice, Evaluated
    from clusterstacks.planner.quotient import Traits

OF_COMPONENTS = "component:"
"""Start of the ids of facts about components."""


def by_subject(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    """Return the facts that can be violated, by their subject."""
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        if fact.subject:
            found.setdefault(fact.subject, []).append(fact)
    return found


def class_subjects(facts: Iterable[Fact]) -> frozenset[str]:
    """Return the subjects of the facts that are about no addon."""
    return frozenset(subject for subject, same in by_subject(facts).items() if not any(fact.addons for fact in same))


def scopes_of(
    facts: Iterable[Fact],
    addons: Sequence[Addon],
    live: Collection[str],
    place: tuple[Sequence[Candidate], Sequence[KubernetesVersion], Judges, Evaluated],
) -> tuple[Scope, ...]:
    """Put facts about the same addons into one scope each.

    Args:
        facts: Those that count.
        addons: In the order of their names.
        live: Ids of the facts about components that some combination violates.
        place: Candidates, versions and judges of the model, and the violations found before.
    """
    number = {addon.name: at for at, addon in enumerate(addons)}
    found: dict[tuple[int, ...], list[tuple[str, list[Fact]]]] = {}
    for subject, same in by_subject(facts).items():
        at = tuple(sorted({number[name] for fact in same for name in fact.addons}))
        if at and any(fact.id in live or not fact.id.startswith(OF_COMPONENTS) for fact in same):
            found.setdefault(at, []).append((subject, same))
    return tuple(
        Scope(
            at,
            tuple(addons[one] for one in at),
            frozenset(subject for subject, _ in subjects),
            any(fact.by_class for _, same in subjects for fact in same),
            any(fact.by_version for _, same in subjects for fact in same),
            *place,
        )
        for at, subjects in sorted(found.items())
    )


def live_facts(
    addons: Sequence[Addon], installed: Choice, candidates: Iterable[Candidate], traits: Traits
) -> Iterator[str]:
    """Yield the ids of the facts about components that some combination of versions violates.

    Args:
        addons: With their versions.
        installed: By addon, what is installed.
        candidates: The releases.
        traits: Of components.
    """
    lasting = _lasting(addons, installed)
    for component in _components(addons, candidates):
        if traits.works_with(component) != traits.all_versions:
            yield kubernetes_fact(component)
        for other, wanted in component.requires.items():
            met = traits.met(other, wanted)
            if not any(_always(addon, other, met) for addon in lasting):
                yield requires_fact(component, other)


def _components(addons: Iterable[Addon], candidates: Iterable[Candidate]) -> Iterator[Component]:
    for addon in addons:
        for option in addon.options:
            yield from option.components
    for candidate in candidates:
        yield from own_components(candidate)


def _lasting(addons: Sequence[Addon], installed: Choice) -> list[Addon]:
    """Return the addons that are installed and never removed."""
    return [
        addon
        for addon, option in zip(addons, installed, strict=True)
        if option != ABSENT and not any(ABSENT in ends for ends in addon.moves)
    ]


def _always(addon: Addon, component: str, met: Collection[str]) -> bool:
    return all(any(one.name == component and one.text in met for one in option.components) for option in addon.options)
