"""Live view of a tree of nodes: redrawn in place on a terminal, printed line by line in a file or a pipe."""

from __future__ import annotations

import time
from contextlib import contextmanager
from textwrap import shorten
from typing import TYPE_CHECKING, Self

from clusterstacks.csctl.shared import output
from clusterstacks.csctl.shared.terminal import ResultMark, is_terminal
from clusterstacks.plan.clusters.cluster_tree import NodeState, ViewNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from rich.console import RenderableType
    from rich.live import Live
    from rich.tree import Tree

COUNTED_SECONDS = 2
"""Time after which the counter of a step shows (arbitrary: a shorter step needs none)."""

REFRESHES_PER_SECOND = 2
"""Redraws of the counter (arbitrary: it shows seconds)."""

DETAIL_LENGTH = 160
"""Maximum length of a node's detail; the object has the full text."""

MARKS = {
    NodeState.DONE: ResultMark.GOOD,
    NodeState.WORKING: ResultMark.WAITING,
    NodeState.FAILED: ResultMark.BAD,
}


class LiveView:
    """Shows the changes of a tree of nodes; use it as a context manager.

    On a terminal the tree is redrawn in place; with ``counts`` it shows how long the present step has been running,
    from ``COUNTED_SECONDS`` on. Elsewhere a node is printed when it appears or changes its state, and when the detail
    of a ready node changes.
    """

    def __init__(self, *, counts: bool = False) -> None:
        self._counts = counts
        self._nodes: Sequence[ViewNode] = ()
        self._began = self._step_began = time.monotonic()
        self._printed: dict[str, tuple[NodeState, str]] = {}
        self._live: Live | None = None

    def __enter__(self) -> Self:
        self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Pause the view, so that other output can be printed below it."""
        self._leave()
        yield
        self._draw()

    def say(self, text: str) -> None:
        """Print the heading of a step; on a terminal, the tree of the step before stays above it."""
        self._step_began = time.monotonic()
        if self._live is None:
            output.say_lines("", *text.splitlines())
            return
        self._leave()
        self._nodes = ()
        output.say("")
        for line in text.splitlines():
            output.say(line, bold=True, wraps=True)
        self._draw()

    def show(self, nodes: Sequence[ViewNode]) -> None:
        """Replace the shown nodes."""
        if self._live is not None:
            self._nodes = nodes
            self._live.refresh()
        else:
            self._print_changes(nodes)

    def _draw(self) -> None:
        if is_terminal():
            from rich.console import Console
            from rich.live import Live

            console = Console(no_color=output.SETTINGS.colours is False)
            self._live = Live(
                get_renderable=self._picture,
                console=console,
                auto_refresh=self._counts,
                refresh_per_second=REFRESHES_PER_SECOND,
            )
            self._live.start()

    def _leave(self) -> None:
        if self._live is not None:
            live, self._live = self._live, None  # the last picture has no counter
            live.stop()

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        tree, elapsed = _tree(self._nodes), time.monotonic() - self._step_began
        if self._live is None or not self._counts or elapsed < COUNTED_SECONDS:
            return tree
        return Group(tree, Text(f"{elapsed:.0f} s", "dim"))

    def _print_changes(self, nodes: Sequence[ViewNode]) -> None:
        for root in nodes:
            for depth, node in root.lines():
                place = f"{root.title}/{node.title}"
                news = (node.state, node.detail if node.state is NodeState.DONE else "")
                if self._printed.get(place) != news:
                    self._printed[place] = news
                    elapsed = time.monotonic() - self._began
                    line = f"{'  ' * depth}{MARKS[node.state].sign} {node.title}  {_brief(node)}"
                    output.say(f"{elapsed:6.1f} s  {line}".rstrip())


def print_nodes(nodes: Sequence[ViewNode]) -> None:
    """Print a tree once, with the whole details."""
    for root in nodes:
        for depth, node in root.lines():
            mark = MARKS[node.state]
            output.say_marked(mark.sign, f"{node.title}  {node.detail}", mark.colour, indent=2 * depth)


def _brief(node: ViewNode) -> str:
    return shorten(node.detail, DETAIL_LENGTH, placeholder=" ...")


def _tree(nodes: Sequence[ViewNode]) -> Tree:
    from rich.tree import Tree

    tree = Tree("", hide_root=True)
    for node in nodes:
        _grow(tree, node)
    return tree


def _grow(tree: Tree, node: ViewNode) -> None:
    from rich.text import Text

    title, detail = output.printable(node.title), output.printable(_brief(node))
    branch = tree.add(Text.assemble(MARKS[node.state].value, " ", title, "  ", (detail, "dim")))
    for child in node.children:
        _grow(branch, child)
