"""Moves of the addons of a subtree, given what the rest of the cluster does.

A subtree depends on the rest only through its context: the Kubernetes version, the class and the options of its
separator. Sequences of steps that are legal for each addon in its context can always be merged into one (Fabre and
Jezequel 2009 call this factored planning), so that no search over states of all addons is needed. The table that
follows from one in another context is computed once.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from clusterstacks.plan.planner.cost_tables import CostTables
from clusterstacks.plan.planner.model import ABSENT, ANY, TopologyState
from clusterstacks.plan.planner.pattern_database import OUT_OF_REACH, PatternDatabase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.cost_tables import Alternative, Transition
    from clusterstacks.plan.planner.decomposition import AddonTree
    from clusterstacks.plan.planner.model import Addon, Choice, PlanningModel, Scope


class Context(NamedTuple):
    """The part of a state that a subtree depends on: class, Kubernetes version and the options of its separator."""

    candidate: int
    version: int
    separator: Choice


class OptionInContext(NamedTuple):
    """One option of an addon in a context: the least cost that remains, and the contexts of the children."""

    rest: int
    contexts: tuple[Context, ...]


@dataclass(eq=False, slots=True)
class Subtree:
    """An addon and those below it.

    Args:
        addon: The addon at the top.
        separator: Numbers of the addons above that share facts with this subtree.
        scopes: Facts about the addon and its separator, each with the positions of its addons in (addon, *separator).
        children: Each with the positions of its separator.
        by_class: Whether any fact about the subtree depends on the class.
        by_version: Whether any fact about the subtree depends on the Kubernetes version.
        estimates: Pattern databases that are added up at this addon, each with the positions of its addons.
        tables: Least costs of the states of the subtree.
        step_cost: Cost of an addon step.
    """

    addon: Addon
    separator: tuple[int, ...]
    scopes: tuple[tuple[Scope, tuple[int, ...]], ...]
    children: tuple[tuple[Subtree, tuple[int, ...]], ...]
    by_class: bool
    by_version: bool
    estimates: tuple[tuple[PatternDatabase, tuple[int, ...]], ...]
    tables: CostTables
    step_cost: int
    _entered: dict[tuple[int, Context, Context | None], Transition | None] = field(default_factory=dict)
    _options: dict[tuple[Context, int], OptionInContext] = field(default_factory=dict)
    _legal: dict[Context, frozenset[int]] = field(default_factory=dict)
    _moves: dict[tuple[Context, int], list[tuple[int, OptionInContext]]] = field(default_factory=dict)
    _rests: dict[tuple[int, Context], int] = field(default_factory=dict)

    def context_at(self, node: TopologyState, state: Choice) -> Context:
        """Return the context in a state of the whole cluster."""
        return self.context(node, tuple([state[at] for at in self.separator]))

    def context(self, node: TopologyState, separator: Choice) -> Context:
        """Return the context of a class, a Kubernetes version and the options of the separator."""
        return Context(node.candidate if self.by_class else ANY, node.version if self.by_version else ANY, separator)

    def begin(self, context: Context, installed: Choice, *, outside: bool) -> Transition | None:
        """Return the table of all states that addon steps lead to from the installed options; None if it is empty.

        Args:
            context: The context.
            installed: By addon, its option.
            outside: Whether facts are violated: then a step must not add a violation.
        """
        option, price, below = installed[self.tables.at], 0, []
        for (child, _), one in zip(self.children, self._option(context, option).contexts, strict=True):
            begun = child.begin(one, installed, outside=outside)
            if begun is None:
                return None
            price += begun[0]
            below.append(begun[1])
        return self._with_steps({option: [(price, tuple(below))]}, context, outside=outside)

    def enter(self, table: int, context: Context, before: Context | None = None) -> Transition | None:
        """Move to a context, and from there to all states that addon steps lead to; None if no state is allowed there.

        Args:
            table: Number of the table in the old context.
            context: The new context.
            before: The old context if facts are violated: then nothing may add a violation. Otherwise nothing may
                be violated in the new context.
        """
        if before == context:
            return 0, table
        key = table, context, before
        known = self._entered.get(key)
        if known is None and key not in self._entered:
            known = self._entered[key] = self._enter(table, context, before)
        return known

    def _enter(self, table: int, context: Context, before: Context | None) -> Transition | None:
        moved: dict[int, list[Alternative]] = {}
        self.tables.budget.spend(len(self.tables.tables[table]))
        for option, alternatives in self.tables.tables[table].items():
            if before is None:
                is_allowed, old = option in self.legal(context), None
            else:
                is_allowed = not self._worsens((before, option), (context, option))
                old = self._option(before, option)
            if not is_allowed:
                continue
            here = self._option(context, option)
            for cost, below in alternatives:
                if (entered := self._enter_below(below, here, old)) is not None:
                    self.tables.add(moved.setdefault(option, []), cost + entered[0], entered[1])
        return self._with_steps(moved, context, outside=before is not None) if moved else None

    def _with_steps(self, found: dict[int, list[Alternative]], context: Context, *, outside: bool) -> Transition | None:
        """Number the table of the states that addon steps lead to."""
        heap = [(cost, option, below) for option, alternatives in found.items() for cost, below in alternatives]
        waiting = [(cost, option, (cost, below)) for cost, option, below in heap]
        heapq.heapify(waiting)
        looks = 0
        while waiting:
            price, option, alternative = heapq.heappop(waiting)
            if alternative not in found[option]:
                continue  # united with a later one
            for to, cost, below in self._steps(option, alternative, context, outside=outside):
                looks += 1
                new = self.tables.add(found.setdefault(to, []), cost, below)
                if new is not None:
                    heapq.heappush(waiting, (cost, to, new))
        self.tables.budget.spend(looks)
        price, number = self.tables.number(found)
        if not outside:
            self._entered[number, context, None] = 0, number
        return price, number

    def _steps(
        self, option: int, alternative: Alternative, context: Context, *, outside: bool
    ) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        """Yield the options one addon step away, each with the cost and the tables of the children."""
        cost, below = alternative
        if outside:
            old = self._option(context, option)
            moves = [to for to in self.addon.moves[option] if not self._worsens((context, option), (context, to))]
            following = [(to, self._option(context, to)) for to in moves]
        else:
            old, following = None, self._legal_moves(context, option)
        for to, new in following:
            if (entered := self._enter_below(below, new, old)) is not None:
                yield to, cost + entered[0] + self.step_cost, entered[1]

    def _enter_below(
        self, below: tuple[int, ...], here: OptionInContext, before: OptionInContext | None
    ) -> tuple[int, tuple[int, ...]] | None:
        """Move the children to their contexts for an option; return the price and their tables."""
        price, entered = 0, []
        for at, (child, _) in enumerate(self.children):
            found = child.enter(below[at], here.contexts[at], None if before is None else before.contexts[at])
            if found is None:
                return None
            price += found[0]
            entered.append(found[1])
        return price, tuple(entered)

    def rest(self, table: int, context: Context) -> int:
        """Return a lower bound of the cost that remains from the cheapest state on, its own cost included."""
        key = table, context
        found = self._rests.get(key)
        if found is None:
            found = OUT_OF_REACH
            for option, alternatives in self.tables.tables[table].items():
                here = self._option(context, option)
                for cost, below in alternatives:
                    rest = cost + here.rest
                    for (child, _), number, there in zip(self.children, below, here.contexts, strict=True):
                        rest += child.rest(number, there)
                    found = min(found, rest)
            self._rests[key] = found
        return found

    def legal(self, context: Context) -> frozenset[int]:
        """Return the options that violate no fact about the addon and its separator."""
        found = self._legal.get(context)
        if found is None:
            alone = Context(context.candidate, context.version, ())
            if context == alone:
                options: Collection[int] = range(ABSENT, len(self.addon.options))
                scopes = [one for one in self.scopes if one[1] == (0,)]
            else:
                options = self.legal(alone)
                scopes = [one for one in self.scopes if one[1] != (0,)]
            self.tables.budget.spend(len(options))
            legal = [one for one in options if not any(_violated(scopes, context, one))]
            found = self._legal[context] = frozenset(legal)
        return found

    def _legal_moves(self, context: Context, option: int) -> list[tuple[int, OptionInContext]]:
        """Return the options one legal step away from which the target may be reached."""
        key = context, option
        found = self._moves.get(key)
        if found is None:
            legal = self.legal(context)
            moves = [(to, self._option(context, to)) for to in self.addon.moves[option] if to in legal]
            self.tables.budget.spend(len(moves))
            found = self._moves[key] = [(to, one) for to, one in moves if one.rest < OUT_OF_REACH]
        return found

    def _worsens(self, old: tuple[Context, int], new: tuple[Context, int]) -> bool:
        """Report whether a fact is violated that was not violated before."""
        violated = zip(_violated(self.scopes, *old), _violated(self.scopes, *new), strict=True)
        return any(after - before for before, after in violated)

    def _option(self, context: Context, option: int) -> OptionInContext:
        key = context, option
        found = self._options.get(key)
        if found is None:
            node, options = TopologyState(context.candidate, context.version), (option, *context.separator)
            found = self._options[key] = OptionInContext(
                sum(one.least(node, tuple([options[at] for at in picked])) for one, picked in self.estimates),
                tuple([child.context(node, tuple([options[at] for at in picked])) for child, picked in self.children]),
            )
        return found


def _violated(
    scopes: Iterable[tuple[Scope, tuple[int, ...]]], context: Context, option: int
) -> Iterator[frozenset[str]]:
    """Yield by scope the subjects of the facts that an option violates in a context."""
    node, options = TopologyState(context.candidate, context.version), (option, *context.separator)
    for scope, picked in scopes:
        yield scope.violated(node, tuple([options[at] for at in picked]))


def subtree(
    model: PlanningModel, tree: AddonTree, estimates: Sequence[PatternDatabase], budget: Budget, step_cost: int
) -> Subtree:
    """Build the subtree of a tree of addons.

    Args:
        model: The numbered world.
        tree: The addons.
        estimates: Lower bounds that may be added up.
        budget: Bounds the work.
        step_cost: Cost of an addon step.
    """
    touching = [scope for scope in model.scopes if not tree.members.isdisjoint(scope.at)]
    order = {one: index for index, one in enumerate((tree.at, *tree.separator))}

    def is_here(addons: Sequence[int]) -> bool:
        return tree.at in addons and order.keys() >= set(addons)

    children = [subtree(model, child, estimates, budget, step_cost) for child in tree.children]
    bounds = [one for one in estimates if is_here(one.at)]
    dependent: list[Scope | Subtree | PatternDatabase] = [*touching, *children, *bounds]
    return Subtree(
        addon=model.addons[tree.at],
        separator=tree.separator,
        scopes=tuple((scope, tuple(order[one] for one in scope.at)) for scope in touching if is_here(scope.at)),
        children=tuple((child, tuple(order[one] for one in child.separator)) for child in children),
        by_class=any(one.by_class for one in dependent),
        by_version=any(one.by_version for one in dependent),
        estimates=tuple((one, tuple(order[at] for at in one.at)) for one in bounds),
        tables=CostTables(tree.at, model.addons[tree.at], [child.tables for child in children], budget),
        step_cost=step_cost,
    )
