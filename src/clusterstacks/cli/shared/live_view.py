"""Live view of a tree of nodes: redrawn in place on a terminal, printed line by line in a file or a pipe."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from textwrap import shorten
from typing import TYPE_CHECKING, Self

import click

from clusterstacks.cli.shared import output
from clusterstacks.devcluster.demo.view import NodeState, ViewNode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    from rich.live import Live
    from rich.tree import Tree

DETAIL_LENGTH = 160
"""Maximum length of a node's detail; the object has the full text."""

_SIGNS = {NodeState.DONE: "✓", NodeState.WORKING: "…", NodeState.FAILED: "✗"}
_STYLES = {NodeState.DONE: "green", NodeState.WORKING: "yellow", NodeState.FAILED: "red"}


class LiveView:
    """Shows the changes of a tree of nodes; use it as a context manager.

    On a terminal the tree is redrawn in place. Elsewhere a node is printed when it appears or changes its state, and
    when the detail of a ready node changes.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
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
        """Print a line that stays on the screen."""
        if self._live is not None:
            from rich.text import Text

            self._live.console.print(Text(f"\n{text}", "bold"))
        else:
            click.echo(f"\n{text}")

    def show(self, nodes: Sequence[ViewNode]) -> None:
        """Show the current nodes."""
        if self._live is not None:
            self._live.update(_tree(nodes), refresh=True)
        else:
            self._print_changes(nodes)

    def _draw(self) -> None:
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            from rich.console import Console
            from rich.live import Live

            self._live = Live(auto_refresh=False, console=Console(no_color=output.SETTINGS.colours is False))
            self._live.start()

    def _leave(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _print_changes(self, nodes: Sequence[ViewNode]) -> None:
        for root in nodes:
            for depth, node in root.lines():
                place = f"{root.title}/{node.title}"
                news = (node.state, node.detail if node.state is NodeState.DONE else "")
                if self._printed.get(place) != news:
                    self._printed[place] = news
                    elapsed = time.monotonic() - self._began
                    click.echo(
                        f"{elapsed:6.1f} s  {'  ' * depth}{_SIGNS[node.state]} {node.title}  {_brief(node)}".rstrip()
                    )


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

    style = _STYLES[node.state]
    branch = tree.add(Text.assemble((_SIGNS[node.state], style), " ", node.title, "  ", (_brief(node), "dim")))
    for child in node.children:
        _grow(branch, child)
