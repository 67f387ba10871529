from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from clusterstacks.cli.shared.live_view import LivePicture
from clusterstacks.devcluster.demo.view import Node, State

if TYPE_CHECKING:
    import pytest


def test_in_a_pipe_a_node_is_printed_when_it_changes_and_not_again(capsys: pytest.CaptureFixture[str]) -> None:
    with LivePicture() as picture:
        picture.show([Node("stack", State.WORKING, "downloading")])
        picture.show([Node("stack", State.WORKING, "still downloading")])
        picture.show([Node("stack", State.DONE, "usable: v1", (Node("class", State.FAILED, "no such kind"),))])
        picture.show([Node("stack", State.DONE, "usable: v1, v2")])
        picture.show([Node("stack", State.DONE, "usable: v1, v2")])

    printed = [line.split("s  ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    assert printed == [
        "… stack  downloading",
        "✓ stack  usable: v1",
        "  ✗ class  no such kind",
        "✓ stack  usable: v1, v2",
    ]


def test_equal_titles_below_different_roots_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    addons = Node("addons", State.DONE)
    with LivePicture() as picture:
        picture.show([Node("one", State.DONE, "", (addons,)), Node("two", State.DONE, "", (addons,))])

    assert capsys.readouterr().out.count("addons") == 2


def test_what_a_node_is_doing_is_told_shortly(capsys: pytest.CaptureFixture[str]) -> None:
    with LivePicture() as picture:
        picture.show([Node("addons", State.WORKING, "failing checks: " + "informer-sync, " * 20)])

    (line,) = capsys.readouterr().out.splitlines()
    assert len(line) < 190
    assert line.endswith("informer-sync, ...")


def test_what_others_print_comes_between(capsys: pytest.CaptureFixture[str]) -> None:
    with LivePicture() as picture:
        picture.show([Node("before", State.DONE)])
        with picture.aside():
            sys.stdout.write("a plan\n")
        picture.show([Node("after", State.DONE)])

    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()] == ["before", "plan", "after"]
