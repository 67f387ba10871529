"""Which addons a fact speaks about, and so which addons must be searched together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from clusterstacks.domain.compatibility import Compatibility, Rule
    from clusterstacks.domain.planning.facts import Violation


@dataclass(frozen=True, slots=True)
class Binding:
    """What facts bind together.

    Args:
        providers: By component, the addons that can bring it.
        widened: By fact, components that an Allow rule makes it depend on besides its own.
        related: Addons about which there are facts besides the range of Kubernetes versions of each component.
    """

    providers: Mapping[str, frozenset[str]]
    widened: Mapping[str, frozenset[str]]
    related: frozenset[str]

    def addons(self, violation: Violation) -> frozenset[str]:
        """Name the addons a violation is about; none when it is about class and Kubernetes version alone."""
        own = {violation.addon} if violation.addon else set()
        return frozenset(own).union(*map(self.bringing, [*violation.needs, *self.widened.get(violation.fact, ())]))

    def bringing(self, component: str) -> frozenset[str]:
        """Name the addons that can bring a component."""
        return self.providers.get(component, frozenset())


def bind(providers: Mapping[str, frozenset[str]], stated: Sequence[Compatibility], rules: Sequence[Rule]) -> Binding:
    """Find out what binds addons together.

    Args:
        providers: By component, the addons that can bring it.
        stated: What the releases state.
        rules: The provider's own.
    """
    widened: dict[str, frozenset[str]] = {}
    for rule in all_rules(stated, rules):
        for fact in rule.overrides:
            widened[fact] = widened.get(fact, frozenset()) | frozenset(rule.when.components)
    return Binding(providers, widened, frozenset(_related(providers, stated, rules)))


def _related(
    providers: Mapping[str, frozenset[str]], stated: Sequence[Compatibility], rules: Sequence[Rule]
) -> Iterator[str]:
    for one in stated:
        for component in one.components:
            if component.requires and component.addon:
                yield component.addon
            for other in component.requires:
                yield from providers.get(other, ())
    for rule in all_rules(stated, rules):
        for name in rule.when.components:
            yield from providers.get(name, ())
        for fact in rule.overrides:
            for name, addons in providers.items():
                if fact.startswith(f"component:{name}@"):
                    yield from addons


def groups(names: Sequence[str], together: Iterable[Collection[str]]) -> list[tuple[str, ...]]:
    """Group addons so that no fact speaks about two groups; in the order of ``names``."""
    leader = {name: name for name in names}

    def find(name: str) -> str:
        while leader[name] != name:
            name = leader[name]
        return name

    for scope in together:
        first, *rest = sorted({find(name) for name in scope}) or [""]
        for name in rest:
            leader[name] = first
    grouped: dict[str, list[str]] = {}
    for name in names:
        grouped.setdefault(find(name), []).append(name)
    return [tuple(group) for group in grouped.values()]


def all_rules(stated: Iterable[Compatibility], rules: Iterable[Rule]) -> Iterator[Rule]:
    """Yield the rules of releases, then those of the provider."""
    for one in stated:
        yield from one.rules
    yield from rules
