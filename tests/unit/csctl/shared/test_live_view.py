from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from clusterstacks.csctl.shared.live_view import LiveView, print_nodes
from clusterstacks.plan.clusters.cluster_tree import NodeState, ViewNode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def test_piped_view_prints_a_node_only_when_it_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView() as picture:
        picture.show([ViewNode("stack", NodeState.WORKING, "downloading")])
        picture.show([ViewNode("stack", NodeState.WORKING, "still downloading")])
        picture.show(
            [ViewNode("stack", NodeState.DONE, "usable: v1", (ViewNode("class", NodeState.FAILED, "no such kind"),))]
        )
        picture.show([ViewNode("stack", NodeState.DONE, "usable: v1, v2")])
        picture.show([ViewNode("stack", NodeState.DONE, "usable: v1, v2")])

    printed = [line.split("s  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert printed == [
        "… stack  downloading",
        "✓ stack  usable: v1",
        "  ✗ class  no such kind",
        "✓ stack  usable: v1, v2",
    ]


def test_equal_titles_below_different_roots_are_distinguished(capsys: pytest.CaptureFixture[str]) -> None:
    addons = ViewNode("addons", NodeState.DONE)
    with LiveView() as picture:
        picture.show([ViewNode("one", NodeState.DONE, "", (addons,)), ViewNode("two", NodeState.DONE, "", (addons,))])

    assert capsys.readouterr().out.count("addons") == 2


def test_detail_of_a_node_is_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView() as picture:
        picture.show([ViewNode("addons", NodeState.WORKING, "failing checks: " + "informer-sync, " * 20)])

    (line,) = capsys.readouterr().out.splitlines()
    assert len(line) < 190
    assert line.endswith("informer-sync, ...")


def test_other_output_appears_between_two_views(capsys: pytest.CaptureFixture[str]) -> None:
    with LiveView() as picture:
        picture.show([ViewNode("before", NodeState.DONE)])
        with picture.aside():
            sys.stdout.write("a plan\n")
        picture.show([ViewNode("after", NodeState.DONE)])

    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["before", "plan", "after"]


def _watch(nodes: Sequence[ViewNode]) -> None:
    with LiveView() as picture:
        picture.show(nodes)


@pytest.mark.regression("SEC-37")
@pytest.mark.parametrize("print_tree", [_watch, print_nodes])
@pytest.mark.parametrize("picture", ["printed", "drawn"])
def test_node_is_printed_in_one_line(
    print_tree: Callable[[Sequence[ViewNode]], None],
    picture: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("clusterstacks.csctl.shared.live_view.is_terminal", lambda: picture == "drawn")
    print_tree([ViewNode("stack\nforged title", NodeState.WORKING, "waits\nprod/main READY\x1b[2J\u202e")])

    printed = capsys.readouterr().out
    assert "stack forged title  waits prod/main READY\\x1b[2J\\u202e" in printed
    assert not [sign for sign in ("\x1b[2J", "\u202e", "\nforged", "\nprod") if sign in printed]
