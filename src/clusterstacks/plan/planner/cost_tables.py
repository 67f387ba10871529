"""Tables of the least costs of all states of a subtree of addons.

A table gives, by option of the addon at the top, alternatives: a cost, and a table of each child. The cost of a state
is the least sum over the alternatives, so one table describes very many states, as a decision diagram does. The
cheapest state of a table costs nothing: its price is returned separately. Equal tables share a number.

Two alternatives that differ in the table of one child are united: the least of both costs for every state is again one
table of this child. So an addon with one child has one alternative for each option, and two tables with equal costs
for all states are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusterstacks.plan.planner.pattern_database import OUT_OF_REACH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from clusterstacks.plan.planner.budget import Budget
    from clusterstacks.plan.planner.model import Addon, Choice

Alternative = tuple[int, tuple[int, ...]]
"""A cost, and by child the number of its table."""

Table = dict[int, tuple[Alternative, ...]]
"""By option of the addon at the top, its alternatives."""

Transition = tuple[int, int]
"""A price, and the number of the table it leads to."""


class CostTables:
    """All tables of one subtree.

    Args:
        at: Number of the addon at the top.
        addon: The addon at the top.
        children: The tables of its children.
        budget: Bounds the work.
    """

    def __init__(self, at: int, addon: Addon, children: Sequence[CostTables], budget: Budget) -> None:
        self.at, self.addon, self.children, self.budget = at, addon, tuple(children), budget
        self.tables: list[Table] = []
        self._numbers: dict[frozenset[tuple[int, tuple[Alternative, ...]]], int] = {}
        self._unions: dict[tuple[int, int, int], Transition] = {}
        self._surplus: dict[tuple[int, int], int | None] = {}
        self._ends: dict[int, int] = {}

    def number(self, found: Mapping[int, Sequence[Alternative]]) -> Transition:
        """Number a table; return what its cheapest state costs, and the number."""
        least = min([cost for alternatives in found.values() for cost, _ in alternatives])
        table = {
            option: ((alternatives[0][0] - least, alternatives[0][1]),)
            if len(alternatives) == 1
            else tuple(sorted([(cost - least, below) for cost, below in alternatives]))
            for option, alternatives in found.items()
        }
        key = frozenset(table.items())
        known = self._numbers.get(key)
        if known is None:
            known = self._numbers[key] = len(self.tables)
            self.tables.append(table)
        return least, known

    def add(self, alternatives: list[Alternative], cost: int, below: tuple[int, ...]) -> Alternative | None:
        """Add an alternative; return the one that contains it now, or None if it makes no state cheaper."""
        for at, one in enumerate(alternatives):
            united = self._united(one, cost, below)
            if united == one:
                return None
            if united is not None:
                del alternatives[at]
                return self.add(alternatives, *united)
        new = cost, below
        if any(self._covers(one, new) for one in alternatives):
            return None
        alternatives[:] = [one for one in alternatives if not self._covers(new, one)]
        alternatives.append(new)
        return new

    def _united(self, one: Alternative, cost: int, below: tuple[int, ...]) -> Alternative | None:
        """Unite two alternatives; None if they differ in the tables of several children."""
        price, there = one
        if there == below:
            return min(price, cost), below
        if len(below) == 1:
            least, table = self.children[0].union(there[0], below[0], cost - price)
            return price + least, (table,)
        different = [child for child, table in enumerate(below) if table != there[child]]
        if len(different) > 1:
            return None
        (child,) = different
        least, table = self.children[child].union(there[child], below[child], cost - price)
        return price + least, (*there[:child], table, *there[child + 1 :])

    def union(self, one: int, other: int, dearer: int) -> Transition:
        """Return the least of both costs for every state.

        Args:
            one: A table.
            other: A table.
            dearer: Cost of the cheapest state of the other table.
        """
        if one == other:
            return min(0, dearer), one
        if one > other:
            least, number = self.union(other, one, -dearer)
            return least + dearer, number
        key = one, other, dearer
        known = self._unions.get(key)
        if known is None:
            found: dict[int, Sequence[Alternative]] = dict(self.tables[one])
            self.budget.spend(len(self.tables[other]))
            for option, theirs in self.tables[other].items():
                alternatives = list(found.get(option, ()))
                for cost, below in theirs:
                    self.add(alternatives, cost + dearer, below)
                found[option] = alternatives
            known = self._unions[key] = self.number(found)
        return known

    def surplus(self, one: int, other: int) -> int | None:
        """Return by how much the first table is dearer at most; None if it may lack a state of the other."""
        if one == other:
            return 0
        key = one, other
        if key not in self._surplus:
            self.budget.spend(len(self.tables[other]))
            found = self._surpluses(self.tables[one], self.tables[other])
            self._surplus[key] = None if None in found else max(one for one in found if one is not None)
        return self._surplus[key]

    def _surpluses(self, table: Table, other: Table) -> list[int | None]:
        found: list[int | None] = []
        for option, theirs in other.items():
            for cost, below in theirs:
                dearer = [
                    price - cost + more
                    for price, there in table.get(option, ())
                    if (more := self._surplus_below(there, below)) is not None
                ]
                found.append(min(dearer, default=None))
        return found

    def _covers(self, one: Alternative, other: Alternative) -> bool:
        more = self._surplus_below(one[1], other[1])
        return more is not None and one[0] + more <= other[0]

    def _surplus_below(self, one: tuple[int, ...], other: tuple[int, ...]) -> int | None:
        total = 0
        for child, here, there in zip(self.children, one, other, strict=True):
            if here != there:
                more = child.surplus(here, there)
                if more is None:
                    return None
                total += more
        return total

    def end(self, number: int) -> int:
        """Return the least cost of the states a plan may end with."""
        if number not in self._ends:
            self._ends[number] = min((cost for cost, *_ in self._endings(number)), default=OUT_OF_REACH)
        return self._ends[number]

    def cheapest_state(self, number: int, *, is_end: bool) -> dict[int, int]:
        """Return the cheapest state by addon; with ``is_end`` the cheapest that a plan may end with."""
        if is_end:
            _, option, below = min(self._endings(number))
        else:
            found = ((*one, option) for option, alternatives in self.tables[number].items() for one in alternatives)
            _, below, option = min(found)
        state = {self.at: option}
        for child, table in zip(self.children, below, strict=True):
            state |= child.cheapest_state(table, is_end=is_end)
        return state

    def _endings(self, number: int) -> Iterator[tuple[int, int, tuple[int, ...]]]:
        for option, alternatives in self.tables[number].items():
            if self.addon.ends(option):
                for cost, below in alternatives:
                    yield cost + sum(map(CostTables.end, self.children, below)), option, below

    def cost(self, number: int, state: Choice) -> int:
        """Return the cost of a state; :data:`OUT_OF_REACH` or more if the table lacks it."""
        alternatives = self.tables[number].get(state[self.at], ())
        sums = (
            cost + sum([child.cost(table, state) for child, table in zip(self.children, below, strict=True)])
            for cost, below in alternatives
        )
        return min(sums, default=OUT_OF_REACH)
