"""Which addons a fact speaks about, and so which addons must be searched together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from clusterstacks.domain.compatibility import Compatibility, Rule
    from clusterstacks.domain.planning.facts import Violation


@dataclass(frozen=True, slots=True)
class Binding:
    """What facts bind together.

    Args:
        providers: By component, the addons that can bring it.
        widened: By fact, components that an Allow rule makes it depend on besides its own.
    """

    providers: Mapping[str, frozenset[str]]
    widened: Mapping[str, frozenset[str]]

    def addons(self, violation: Violation) -> frozenset[str]:
        """Name the addons a violation is about; none when it is about class and Kubernetes version alone."""
        own = {violation.addon} if violation.addon else set()
        return frozenset(own).union(*map(self._bringing, [*violation.needs, *self.widened.get(violation.fact, ())]))

    def _bringing(self, component: str) -> frozenset[str]:
        return self.providers.get(component, frozenset())


def bind(providers: Mapping[str, frozenset[str]], stated: Sequence[Compatibility], rules: Sequence[Rule]) -> Binding:
    """Find out what binds addons together.

    Args:
        providers: By component, the addons that can bring it.
        stated: What the releases state.
        rules: The provider's own.
    """
    widened: dict[str, frozenset[str]] = {}
    for rule in _all_rules(stated, rules):
        for fact in rule.overrides:
            widened[fact] = widened.get(fact, frozenset()) | frozenset(rule.when.components)
    return Binding(providers, widened)


def groups(
    names: Sequence[str], binding: Binding, stated: Sequence[Compatibility], rules: Sequence[Rule]
) -> list[tuple[str, ...]]:
    """Group addons so that no fact speaks about two groups; in the order of ``names``."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for scope in _scopes(binding, stated, rules):
        first, *rest = sorted({find(name) for name in scope}) or [""]
        for name in rest:
            leader[name] = first
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(find(name), []).append(name)
    return [tuple(group) for group in grouped.values()]


def _scopes(binding: Binding, stated: Sequence[Compatibility], rules: Sequence[Rule]) -> Iterator[set[str]]:
    """Yield, fact by fact, the addons it speaks about."""
    facts: dict[str, set[str]] = {}
    for one in stated:
        for component in one.components:
            own = {component.addon} if component.addon else set()
            facts.setdefault(f"component:{component.title}:kubernetes", set()).update(own)
            for other in component.requires:
                scope = facts.setdefault(f"component:{component.title}:requires:{other}", set())
                scope |= own | binding.providers.get(other, frozenset())
    for rule in _all_rules(stated, rules):
        scope = facts.setdefault(rule.fact, set())
        for name in rule.when.components:
            scope |= binding.providers.get(name, frozenset())
    for fact, names in binding.widened.items():
        scope = facts.setdefault(fact, set())
        for name in names:
            scope |= binding.providers.get(name, frozenset())
    yield from facts.values()


def _all_rules(stated: Iterable[Compatibility], rules: Iterable[Rule]) -> Iterator[Rule]:
    for one in stated:
        yield from one.rules
    yield from rules
