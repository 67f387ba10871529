"""Least costs of the states of addons, factored by a tree decomposition of the facts about several addons.

Addons that a fact is about together lie on one path of the tree. So the addons below one addon depend on the rest of
the cluster only through their context: the Kubernetes version, the class and the options of the addons above that they
share facts with. Sequences of steps that are legal for each addon in its context can always be merged into
one (Fabre and Jezequel 2009 call this factored planning), so that no search over states of all addons is needed.

The least costs of all states of a subtree in one context are a *table*. Equal tables share a number, and the table that
follows from one in another context is computed once.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from clusterstacks.planner.model import ABSENT, ANY, TopologyState
from clusterstacks.planner.pattern_database import OUT_OF_REACH, PatternDatabase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from clusterstacks.planner.budget import Budget
    from clusterstacks.planner.model import Addon, Choice, PlanningModel, Scope

MOST_CHOICES = 31**3
"""Options of an addon times those of its separator: three addons with thirty versions each. Above, some addons are
searched state by state instead."""

MOST_CHOICES_BESIDE_SPINE = 31**2
"""The same for the addons that depend on the spine: their tables are needed for many of its states (measured)."""

LOOKS_AT_ONCE = 1000
"""Looks that are counted together."""

Entry = tuple[int, tuple[int, ...]]
"""A state of a subtree: the option of its addon, and by child the number of its table."""

Costs = dict[Entry, int]
"""Least cost of each state, where the cheapest costs nothing."""

Transition = tuple[int, int]
"""A price, and the number of the table it leads to."""


class Context(NamedTuple):
    """The part of a state that a subtree depends on: class, Kubernetes version and the options of its separator."""

    candidate: int
    version: int
    separator: Choice


class Local(NamedTuple):
    """One option of an addon in a context: the least cost that remains, and the contexts of the children."""

    rest: int
    contexts: tuple[Context, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds and prices of one search.

    Args:
        budget: Bounds the work.
        addon_cost: Cost of an addon step.
        slack: A state that costs more than this above the cheapest of its table is dropped.
    """

    budget: Budget
    addon_cost: int
    slack: int = OUT_OF_REACH


@dataclass(eq=False, slots=True)
class Subtree:
    """An addon and those below it.

    Args:
        at: Number of the addon.
        addon: The addon.
        separator: Numbers of the addons above that share facts with this subtree.
        scopes: Facts about the addon and its separator, each with the positions of its addons in (addon, *separator).
        children: Each with the positions of its separator.
        by_class: Whether any fact about the subtree depends on the class.
        by_version: Whether any fact about the subtree depends on the Kubernetes version.
        estimates: Pattern databases that are added up at this addon, each with the positions of its addons.
        limits: Bounds and prices.
    """

    at: int
    addon: Addon
    separator: tuple[int, ...]
    scopes: tuple[tuple[Scope, tuple[int, ...]], ...]
    children: tuple[tuple[Subtree, tuple[int, ...]], ...]
    by_class: bool
    by_version: bool
    estimates: tuple[tuple[PatternDatabase, tuple[int, ...]], ...]
    limits: Limits
    tables: list[Costs] = field(default_factory=list)
    _numbers: dict[frozenset[tuple[Entry, int]], int] = field(default_factory=dict)
    _entered: dict[tuple[int, Context, Context | None], Transition | None] = field(default_factory=dict)
    _locals: dict[tuple[Context, int], Local] = field(default_factory=dict)
    _legal: dict[Context, frozenset[int]] = field(default_factory=dict)
    _legal_by_scope: dict[tuple[int, int, int, Choice], frozenset[int]] = field(default_factory=dict)
    _moves: dict[tuple[Context, int], list[tuple[int, Local]]] = field(default_factory=dict)
    _surplus: dict[tuple[int, int], int | None] = field(default_factory=dict)
    _rests: dict[tuple[int, Context], int] = field(default_factory=dict)
    _ends: dict[int, int] = field(default_factory=dict)

    def context_at(self, node: TopologyState, state: Choice) -> Context:
        """Return the context in a state of the whole cluster."""
        return Context(
            node.candidate if self.by_class else ANY,
            node.version if self.by_version else ANY,
            tuple(state[at] for at in self.separator),
        )

    def local(self, context: Context, option: int) -> Local:
        """Evaluate one option in a context."""
        key = context, option
        found = self._locals.get(key)
        if found is None:
            candidate, version, separator = context
            node, options = TopologyState(candidate, version), (option, *separator)
            contexts = tuple(
                [
                    Context(
                        candidate if child.by_class else ANY,
                        version if child.by_version else ANY,
                        tuple([options[at] for at in picked]),
                    )
                    for child, picked in self.children
                ]
            )
            rest = 0
            for one, picked in self.estimates:
                rest += one.least(node, tuple([options[at] for at in picked]))
            found = self._locals[key] = Local(rest, contexts)
        return found

    def legal(self, context: Context) -> frozenset[int]:
        """Return the options that violate no fact about the addon and its context in a context."""
        if context not in self._legal:
            found = frozenset(range(ABSENT, len(self.addon.options)))
            for at in range(len(self.scopes)):
                found &= self._legal_by(at, context)
            self._legal[context] = found
        return self._legal[context]

    def _legal_by(self, at: int, context: Context) -> frozenset[int]:
        scope, picked = self.scopes[at]
        node, others = (
            TopologyState(context.candidate, context.version),
            [context.separator[one - 1] for one in picked if one],
        )
        key = (
            at,
            node.candidate if scope.by_class else ANY,
            node.version if scope.by_version else ANY,
            tuple(others),
        )
        if key not in self._legal_by_scope:
            own = picked.index(0)
            options = range(ABSENT, len(self.addon.options))
            self.limits.budget.spend(len(options))
            self._legal_by_scope[key] = frozenset(
                one for one in options if not scope.violated(node, (*others[:own], one, *others[own:]))
            )
        return self._legal_by_scope[key]

    def _worsens(self, old: tuple[Context, int], new: tuple[Context, int]) -> bool:
        """Report whether a fact is violated that was not violated before."""
        return any(after - before for before, after in zip(self._violated(*old), self._violated(*new), strict=True))

    def _violated(self, context: Context, option: int) -> list[frozenset[str]]:
        node, options = TopologyState(context.candidate, context.version), (option, *context.separator)
        return [scope.violated(node, tuple(options[at] for at in picked)) for scope, picked in self.scopes]

    def begin(self, context: Context, installed: Choice, *, outside: bool) -> Transition | None:
        """Return the table of all states that addon steps lead to from the installed options; None if it is empty.

        Args:
            context: The context.
            installed: By addon, its option.
            outside: Whether facts are violated: then a step must not add a violation.
        """
        option, price, tables = installed[self.at], 0, []
        for (child, _), one in zip(self.children, self.local(context, option).contexts, strict=True):
            begun = child.begin(one, installed, outside=outside)
            if begun is None:
                return None
            price += begun[0]
            tables.append(begun[1])
        return self._closed({(option, tuple(tables)): price}, context, outside=outside)

    def enter(self, table: int, context: Context, before: Context | None = None) -> Transition | None:
        """Move to a context, and from there to all states that addon steps lead to; None if no state is allowed there.

        Args:
            table: Number of the table in the old context.
            context: The new context.
            before: The old context if facts are violated: then nothing may add a violation. Otherwise nothing may
                be violated in the new context.
        """
        key = table, context, before
        known = self._entered.get(key)
        if known is not None:
            return known
        if key not in self._entered:
            moved: Costs = {}
            self.limits.budget.spend(len(self.tables[table]))
            for (option, tables), cost in self.tables[table].items():
                if before is None:
                    is_allowed = option in self.legal(context)
                else:
                    is_allowed = not self._worsens((before, option), (context, option))
                if is_allowed and (arrived := self.arrival((option, tables), context, before)) is not None:
                    price = cost + arrived[1]
                    moved[arrived[0]] = min(price, moved.get(arrived[0], price))
            self._entered[key] = self._closed(moved, context, outside=before is not None)
        return self._entered[key]

    def surplus(self, one: int, other: int) -> int | None:
        """Return by how much the first table is dearer at most; None if it lacks a state of the other."""
        if one == other:
            return 0
        key = one, other
        if key not in self._surplus:
            self.limits.budget.spend(len(self.tables[other]))
            dearer: list[int] = []
            for (option, tables), cost in self.tables[other].items():
                found = [
                    price - cost + more
                    for (same, ours), price in self.tables[one].items()
                    if same == option and (more := self._more(ours, tables)) is not None
                ]
                if not found:
                    break
                dearer.append(min(found))
            self._surplus[key] = max(dearer) if len(dearer) == len(self.tables[other]) else None
        return self._surplus[key]

    def rest(self, table: int, context: Context) -> int:
        """Return a lower bound of the cost that remains from the cheapest state on, its own cost included."""
        key = table, context
        found = self._rests.get(key)
        if found is None:
            found = self._rests[key] = min(
                cost + self._rest(tables, self.local(context, option))
                for (option, tables), cost in self.tables[table].items()
            )
        return found

    def end(self, table: int) -> int:
        """Return the least cost of the states a plan may end with."""
        if table not in self._ends:
            ends = [
                cost + self.ends(tables)
                for (option, tables), cost in self.tables[table].items()
                if self.addon.ends(option)
            ]
            self._ends[table] = min(ends, default=OUT_OF_REACH)
        return self._ends[table]

    def ends(self, tables: Sequence[int]) -> int:
        """Return the least cost of the states of the children that a plan may end with."""
        return sum(child.end(table) for (child, _), table in zip(self.children, tables, strict=True))

    def steps_from(self, entry: Entry, context: Context, *, outside: bool) -> Iterator[tuple[Entry, int]]:
        """Yield the states one addon step away, each with the price of the step."""
        option, tables = entry
        if outside:
            old = self.local(context, option)
            moves = [to for to in self.addon.moves[option] if not self._worsens((context, option), (context, to))]
            following = [(to, self.local(context, to)) for to in moves]
        else:
            old, following = None, self._legal_moves(context, option)
        for to, new in following:
            if (entered := self._children(tables, new, old)) is not None:
                yield (to, entered[1]), entered[0] + self.limits.addon_cost

    def arrival(self, entry: Entry, context: Context, before: Context | None) -> tuple[Entry, int] | None:
        """Return the state that one of the context before becomes in a context, and its price."""
        option, tables = entry
        here, old = self.local(context, option), None if before is None else self.local(before, option)
        entered = self._children(tables, here, old)
        return None if entered is None else ((option, entered[1]), entered[0])

    def _legal_moves(self, context: Context, option: int) -> list[tuple[int, Local]]:
        key = context, option
        found = self._moves.get(key)
        if found is None:
            legal = self.legal(context)
            moves = [(to, self.local(context, to)) for to in self.addon.moves[option] if to in legal]
            self.limits.budget.spend(len(moves))
            found = self._moves[key] = [(to, one) for to, one in moves if one.rest < OUT_OF_REACH]
        return found

    def _children(
        self, tables: tuple[int, ...], here: Local, before: Local | None
    ) -> tuple[int, tuple[int, ...]] | None:
        """Move the children to their contexts for an option; return the price and their tables."""
        price, entered = 0, []
        for at, (child, _) in enumerate(self.children):
            found = child.enter(tables[at], here.contexts[at], None if before is None else before.contexts[at])
            if found is None:
                return None
            price += found[0]
            entered.append(found[1])
        return price, tuple(entered)

    def _rest(self, tables: Sequence[int], here: Local) -> int:
        rest = here.rest
        for at, (child, _) in enumerate(self.children):
            rest += child.rest(tables[at], here.contexts[at])
        return rest

    def _closed(self, costs: Costs, context: Context, *, outside: bool) -> Transition | None:
        """Number the states that addon steps lead to, without those that another of the same option makes needless."""
        heap = [
            (cost + self._rest(tables, self.local(context, option)), cost, (option, tables))
            for (option, tables), cost in costs.items()
        ]
        heapq.heapify(heap)
        most = min(heap[0][0] + self.limits.slack, OUT_OF_REACH - 1) if heap else 0
        kept: dict[int, list[tuple[int, tuple[int, ...]]]] = {}
        best, looks = dict(costs), 0
        while heap and heap[0][0] <= most:
            _, cost, entry = heapq.heappop(heap)
            option, tables = entry
            known = kept.setdefault(option, [])
            looks += len(known) + 1
            if any(self._beats(one, (cost, tables)) for one in known):
                continue
            known.append((cost, tables))
            for following, price in self.steps_from(entry, context, outside=outside):
                looks += 1
                total = cost + price
                if total >= best.get(following, OUT_OF_REACH):
                    continue
                best[following] = total
                rest = self._rest(following[1], self.local(context, following[0]))
                if total + rest <= most:
                    heapq.heappush(heap, (total + rest, total, following))
            if looks > LOOKS_AT_ONCE:
                self.limits.budget.spend(looks)
                looks = 0
        self.limits.budget.spend(looks)
        if not kept:
            return None
        least = min(cost for known in kept.values() for cost, _ in known)
        found = {(option, tables): cost - least for option, known in kept.items() for cost, tables in known}
        key = frozenset(found.items())
        if key not in self._numbers:
            self._numbers[key] = len(self.tables)
            self.tables.append(found)
        number = self._numbers[key]
        if not outside:
            self._entered[number, context, None] = 0, number
        return least, number

    def _beats(self, one: tuple[int, tuple[int, ...]], other: tuple[int, tuple[int, ...]]) -> bool:
        more = self._more(one[1], other[1])
        return more is not None and one[0] + more <= other[0]

    def _more(self, ours: tuple[int, ...], theirs: tuple[int, ...]) -> int | None:
        total = 0
        for (child, _), one, other in zip(self.children, ours, theirs, strict=True):
            if one != other:
                more = child.surplus(one, other)
                if more is None:
                    return None
                total += more
        return total


def pairs_of(model: PlanningModel) -> list[tuple[int, ...]]:
    """Pair each addon with another that a fact is about too, addons with few such others first."""
    linked, left, found = links(model), set(range(len(model.addons))), []
    for one in sorted(left, key=lambda one: (len(linked[one]), one)):
        if one not in left:
            continue
        left.discard(one)
        other = min(linked[one] & left, key=lambda other: (len(linked[other] & left), other), default=None)
        left.discard(one if other is None else other)
        found.append((one,) if other is None else tuple(sorted((one, other))))
    return sorted(found)


def links(model: PlanningModel) -> list[set[int]]:
    """Return, by addon, the addons that share a fact with it, itself included."""
    linked: list[set[int]] = [{at} for at in range(len(model.addons))]
    for scope in model.scopes:
        for one in scope.at:
            linked[one].update(scope.at)
    return linked


def decompose(
    model: PlanningModel, estimates: Iterable[PatternDatabase], limits: Limits, most_choices: int = MOST_CHOICES
) -> tuple[tuple[int, ...], tuple[Subtree, ...]]:
    """Return the numbers of the addons to search state by state, and a tree of the rest for each state of these.

    Args:
        model: The numbered world.
        estimates: Lower bounds that may be added up.
        limits: Bounds and prices.
        most_choices: Bound of the options of an addon times those of its separator in the tree.
    """
    linked = links(model)
    spine: set[int] = set()
    trees: list[_Tree] = []
    waiting = [(piece, most_choices) for piece in _pieces(range(len(model.addons)), linked)]
    while waiting:
        piece, most = waiting.pop()
        tree = _tree(piece, linked)
        if _width(model, tree, linked, spine) <= most:
            trees.append(tree)
            continue
        spine.add(tree.at)
        rest = _pieces([one for one in piece if one != tree.at], linked)
        waiting += [(one, min(most, MOST_CHOICES_BESIDE_SPINE)) for one in rest]
    bounds = tuple(estimates)
    trees.sort(key=lambda tree: min(tree.members))
    return tuple(sorted(spine)), tuple(_subtree(model, tree, bounds, limits) for tree in trees)


class _Tree(NamedTuple):
    at: int
    members: frozenset[int]
    children: tuple[_Tree, ...]


def _tree(piece: Sequence[int], linked: Sequence[set[int]]) -> _Tree:
    """Take the addon without which the rest falls into the smallest pieces, and so on."""

    def largest(one: int) -> int:
        return max((len(part) for part in _pieces([other for other in piece if other != one], linked)), default=0)

    at = min(piece, key=lambda one: (largest(one), one))
    rest = _pieces([one for one in piece if one != at], linked)
    return _Tree(at, frozenset(piece), tuple(_tree(part, linked) for part in rest))


def _width(model: PlanningModel, tree: _Tree, linked: Sequence[set[int]], spine: Collection[int]) -> int:
    """Return the largest number of options of an addon times those of its separator outside the spine."""
    near = set().union(*(linked[one] for one in tree.members)) - tree.members - set(spine)
    own = prod(len(model.addons[one].options) + 1 for one in (tree.at, *near))
    return max(own, *(_width(model, child, linked, spine) for child in tree.children), 0)


def _pieces(addons: Iterable[int], linked: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Return the groups of addons that facts connect, in order."""
    left, found = set(addons), []
    for first in sorted(left):
        if first not in left:
            continue
        left.discard(first)
        piece, queue = [first], [first]
        while queue:
            near = linked[queue.pop()] & left
            left -= near
            piece += near
            queue += near
        found.append(tuple(sorted(piece)))
    return found


def _subtree(model: PlanningModel, tree: _Tree, estimates: Sequence[PatternDatabase], limits: Limits) -> Subtree:
    touching = [scope for scope in model.scopes if not tree.members.isdisjoint(scope.at)]
    separator = tuple(sorted({one for scope in touching for one in scope.at} - tree.members))
    order = {one: index for index, one in enumerate((tree.at, *separator))}

    def is_here(addons: Sequence[int]) -> bool:
        return tree.at in addons and order.keys() >= set(addons)

    children = [_subtree(model, child, estimates, limits) for child in tree.children]
    bounds = [one for one in estimates if is_here(one.at)]
    dependent: list[Scope | Subtree | PatternDatabase] = [*touching, *children, *bounds]
    return Subtree(
        tree.at,
        model.addons[tree.at],
        separator,
        tuple((scope, tuple(order[one] for one in scope.at)) for scope in touching if is_here(scope.at)),
        tuple((child, tuple(order[one] for one in child.separator)) for child in children),
        any(one.by_class for one in dependent),
        any(one.by_version for one in dependent),
        tuple((one, tuple(order[at] for at in one.at)) for one in bounds),
        limits,
    )
