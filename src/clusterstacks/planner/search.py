"""The cheapest way from the start to the goal.

A* (Hart, Nilsson, Raphael 1968) over the moves of class and Kubernetes and, where many addons hang together, of the
addons of the spine. Beside these the parts do not see each other: a way carries for each part what its choices cost so
far. A way that another one to the same place beats for every choice is dropped. What remains is estimated by the fewest
node moves and, for each pattern of addons, by the fewest steps of these alone; so the estimate never exceeds it.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from clusterstacks.planner.estimates import Estimate, ways_to_goal
from clusterstacks.planner.model import ADDON_COST, NODE_COST, Node
from clusterstacks.planner.parts import MOST_CHOICES, split
from clusterstacks.planner.tracks import Tracks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from clusterstacks.planner.effort import Effort
    from clusterstacks.planner.model import Choice, Model
    from clusterstacks.planner.parts import Part
    from clusterstacks.planner.tracks import Step

OUT_OF_REACH = 10**6
"""Steps to where no step leads."""


@dataclass(frozen=True, slots=True)
class Way:
    """A sequence of moves of class, Kubernetes and spine.

    Args:
        node: Where it is.
        cost: Of these moves, and of addon steps that are in every choice of a part.
        state: By addon its option; of addons that are in parts what was installed. None while the class is a bundle's.
        tracks: By part.
        outside: Whether facts may be violated as they were at the start.
        before: The way it extends; None at the start.
        prices: By part, the steps that every choice had to take for the last move; none at the start of tracks.
    """

    node: Node
    cost: int
    state: Choice | None
    tracks: tuple[int, ...]
    outside: bool = False
    before: Way | None = None
    prices: tuple[int, ...] = ()


@dataclass(slots=True)
class Progress:
    """How far a search got.

    Args:
        bound: No plan is cheaper.
        node: Where the way is that came nearest to the goal, in node moves; None before the first.
        moves: How many node moves remain from there at least.
    """

    bound: int = 0
    node: Node | None = None
    moves: int = OUT_OF_REACH


@dataclass
class Search:
    """One search.

    Args:
        model: The numbered world.
        effort: What may be spent.
        only_reach: Whether it only matters if there is a way: then no move costs anything.
        most_choices: Of one part.
    """

    model: Model
    effort: Effort
    only_reach: bool = False
    most_choices: int = MOST_CHOICES
    progress: Progress = field(default_factory=Progress)

    def cheapest(self) -> Way | None:
        """Return the cheapest way; None when there is none.

        Raises:
            Exhausted: It is not known whether there is one.
        """
        self._prepare()
        if self.only_reach and self._is_estimate_exact():
            way = Way(self.model.start, 0, self.model.installed, ())
            return way if self._estimated(self.estimates[0], way.node, self.model.installed) < OUT_OF_REACH else None
        ticket = count()
        heap: list[tuple[int, int, int, int, int, Way]] = []
        settled: dict[tuple[Node, bool, Choice | None], list[Way]] = {}

        def push(way: Way) -> None:
            if way.node in self.moves and (rest := self._rest(way)) < OUT_OF_REACH:
                heapq.heappush(heap, (way.cost + rest, 1, rest, self.moves[way.node], next(ticket), way))

        push(self._start())
        while heap:
            estimate, is_open, *_, way = heapq.heappop(heap)
            self._note(way, estimate)
            if not is_open:
                return way
            ways = settled.setdefault((way.node, way.outside, self._spine_state(way)), [])
            self.effort.look(len(ways) + 1)
            if any(self._beats(other, way) for other in ways):
                continue
            ways.append(way)
            if (total := self._total(way)) is not None:
                heapq.heappush(heap, (total, 0, 0, 0, next(ticket), way))
            for following in self._following(way):
                self.effort.look()
                push(following)
        return None

    def _prepare(self) -> None:
        model, effort = self.model, self.effort
        self.ways, self.moves = ways_to_goal(model, effort)
        self.split = split(model, self.most_choices)
        self.parts = self.split.parts
        self.node_cost, self.addon_cost = (0, 0) if self.only_reach else (NODE_COST, ADDON_COST)
        self.outside = not model.is_bundle(model.start) and self._is_outside(model.start, model.installed)
        self.tracks = [Tracks(part, effort, self.addon_cost) for part in self.parts]
        self.estimates = [Estimate(model, pattern, self.ways, effort, self.outside) for pattern in self.split.patterns]
        home = {addon: at for at, part in enumerate(self.parts) for addon in part.at}
        self.touching: list[list[Estimate]] = [[] for _ in self.parts]
        self.beside: list[Estimate] = []
        for estimate in self.estimates:
            parts = {home[addon] for addon in estimate.part.at if addon in home}
            if not parts:
                self.beside.append(estimate)
            for at in parts:
                self.touching[at].append(estimate)
        self._rests: dict[tuple[int, int, tuple[object, ...]], int] = {}

    def _is_estimate_exact(self) -> bool:
        """Whether the estimate of the only part tells if there is a way.

        Of classes at the same Kubernetes version each leads to where the other does, so they need not be told apart.
        """
        alone = len(self.parts) == len(self.estimates) == 1 and not self.split.spine and not self.parts[0].by_class
        return alone and not self.outside and not self.model.is_bundle(self.model.start)

    def _is_outside(self, node: Node, state: Choice) -> bool:
        return any(scope.violated(node, tuple(state[at] for at in scope.at)) for scope in self.model.scopes)

    def _start(self) -> Way:
        model = self.model
        if model.is_bundle(model.start):
            return Way(model.start, 0, None, ())
        tracks = tuple(
            track.begin(
                track.part.place(model.start, model.installed),
                tuple(model.installed[at] for at in track.part.at),
                outside=self.outside,
            )
            for track in self.tracks
        )
        return Way(model.start, 0, model.installed, tracks, self.outside)

    def _following(self, way: Way) -> Iterator[Way]:
        """Yield what one move of class, Kubernetes or spine leads to."""
        model = self.model
        for node in self.ways[way.node]:
            cost = way.cost + self.node_cost
            if model.is_bundle(node):
                yield Way(node, cost, None, (), before=way)
            elif way.state is None:
                if (following := self._released(way, node)) is not None:
                    yield following
            elif self._frame_allows(node, way.state):
                yield from self._entered(way, node, way.state, cost)
        if way.state is not None:
            yield from self._spine_moves(way, way.state)

    def _spine_moves(self, way: Way, state: Choice) -> Iterator[Way]:
        frame = self.split.frame
        for at in self.split.spine:
            for option in self.model.addons[at].moves[state[at]]:
                there = (*state[:at], option, *state[at + 1 :])
                cost = way.cost + self.addon_cost
                if not way.outside:
                    if self._frame_allows(way.node, there):
                        yield from self._entered(way, way.node, there, cost)
                    continue
                place = frame.place(way.node, there)
                old, new = (tuple(one[number] for number in frame.at) for one in (state, there))
                if not frame.worsens((place, old), (place, new)):
                    yield from self._slid(way, there, cost)

    def _frame_allows(self, node: Node, state: Choice) -> bool:
        frame = self.split.frame
        return not frame.at or frame.allows(frame.place(node, state), tuple(state[at] for at in frame.at))

    def _entered(self, way: Way, node: Node, state: Choice, cost: int) -> Iterator[Way]:
        steps = []
        for track, number in zip(self.tracks, way.tracks, strict=True):
            step = track.enter(number, track.part.place(node, state))
            if step is None:
                return
            steps.append(step)
        yield _extended(way, Way(node, cost, state, ()), steps)

    def _slid(self, way: Way, state: Choice, cost: int) -> Iterator[Way]:
        steps = []
        assert way.state is not None  # noqa: S101 - the caller looked
        for track, number in zip(self.tracks, way.tracks, strict=True):
            old, new = (track.part.place(way.node, one) for one in (way.state, state))
            step = track.slide(number, old, new) if old != new else (0, number)
            if step is None:
                return
            steps.append(step)
        yield _extended(way, Way(way.node, cost, state, (), outside=True), steps)

    def _released(self, way: Way, node: Node) -> Way | None:
        """Out of a bundle the addons are those of the new release; they must allow the old version, too."""
        model = self.model
        old, state = Node(node.candidate, way.node.version), model.offered(node.candidate)
        for scope in model.scopes:
            choice = tuple(state[at] for at in scope.at)
            if scope.violated(node, choice) or not scope.contains(old, choice):
                return None
        tracks = tuple(
            track.begin(track.part.place(node, state), tuple(state[at] for at in track.part.at), outside=False)
            for track in self.tracks
        )
        return Way(node, way.cost + self.node_cost, state, tracks, before=way)

    def _spine_state(self, way: Way) -> Choice | None:
        return None if way.state is None else tuple(way.state[at] for at in self.split.spine)

    def _total(self, way: Way) -> int | None:
        """Return what a way costs when it ends here; None when it cannot."""
        if not self.model.is_goal(way.node):
            return None
        if way.state is None:
            return way.cost
        if not all(self.model.addons[at].ends(way.state[at]) for at in self.split.spine):
            return None
        total = way.cost
        for track, number in zip(self.tracks, way.tracks, strict=True):
            total += track.least(number, _to_end(track.part))
        return total if total < OUT_OF_REACH else None

    def _rest(self, way: Way) -> int:
        """Return what remains at least; :data:`OUT_OF_REACH` and more where no way leads to the goal."""
        rest = self.moves[way.node] * self.node_cost
        if way.state is None:
            return rest
        for estimate in self.beside:
            rest += self._estimated(estimate, way.node, way.state)
        for at, (track, number) in enumerate(zip(self.tracks, way.tracks, strict=True)):
            rest += self._rest_of_part(at, track, number, way)
        return rest

    def _estimated(self, estimate: Estimate, node: Node, state: Sequence[int]) -> int:
        choice = tuple(state[at] for at in estimate.part.at)
        found = estimate.remaining.get((estimate.place(node), choice), OUT_OF_REACH)
        return found if not self.only_reach or found >= OUT_OF_REACH else 0

    def _rest_of_part(self, at: int, track: Tracks, number: int, way: Way) -> int:
        part, estimates = track.part, self.touching[at]
        assert way.state is not None  # noqa: S101 - the caller looked
        outer = tuple(way.state[one] for estimate in estimates for one in estimate.part.at if one not in part.at)
        key = at, number, (*(estimate.place(way.node) for estimate in estimates), outer)
        if key not in self._rests:
            state = list(way.state)

            def rest(choice: Choice) -> int:
                for addon, option in zip(part.at, choice, strict=True):
                    state[addon] = option
                return sum(self._estimated(estimate, way.node, state) for estimate in estimates)

            self._rests[key] = track.least(number, rest)
            self.effort.look(len(track.costs[number]))
        return self._rests[key]

    def _beats(self, one: Way, other: Way) -> bool:
        """Whether ``one`` ends at most as dear as ``other``, however both go on from their common place."""
        surplus = one.cost - other.cost
        for track, ours, theirs in zip(self.tracks, one.tracks, other.tracks, strict=False):
            more = track.surplus(ours, theirs)
            if more is None:
                return False
            surplus += more
        return surplus <= 0

    def _note(self, way: Way, estimate: int) -> None:
        progress = self.progress
        progress.bound = estimate
        if self.moves[way.node] < progress.moves:
            progress.node, progress.moves = way.node, self.moves[way.node]


def _extended(before: Way, way: Way, steps: Sequence[Step]) -> Way:
    """Return a way with the steps of its parts."""
    prices = tuple(price for price, _ in steps)
    tracks = tuple(number for _, number in steps)
    return Way(way.node, way.cost + sum(prices), way.state, tracks, way.outside, before, prices)


def _to_end(part: Part) -> Callable[[Choice], int]:
    return lambda choice: 0 if part.ends(choice) else OUT_OF_REACH
