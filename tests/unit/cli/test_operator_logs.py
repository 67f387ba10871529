from __future__ import annotations

import json

import pytest

from clusterstacks.cli.operator_logs import lines_about, parse_line

SUBJECTS = ("team-a/one", "team-a/cluster-addon-one")


def line(message: str = "delivered", about: str = "", time: str = "2026-03-01T12:00:00Z") -> str:
    return json.dumps({"time": time, "level": "info", "message": message, **({"object": about} if about else {})})


@pytest.mark.parametrize(
    "one",
    [
        line(about="team-a/one"),
        line(about="team-a/cluster-addon-one"),
        line("the addons of Cluster team-a/one are delivered"),
        line("Cluster team-a/one: no answer", about="local/other"),
        line("forgot team-a/one."),
        "2026-03-01T12:00:00.000+00:00 info a.b controller=c object=team-a/one reconcileID=0a1b2c3d delivered",
        "2026-03-01T12:00:00.000+00:00 info a.b Cluster team-a/one is delivered",
    ],
)
def test_line_about_the_cluster_is_found(one: str) -> None:
    assert [text for text, _ in lines_about(SUBJECTS, [one])] == [one]


@pytest.mark.parametrize(
    "one",
    [
        line(about="team-a/one-more"),
        line("Cluster team-a/one-more is delivered"),
        line("Cluster my-team-a/one is delivered"),
        line("Cluster team-a/one.b is delivered"),
        "team-a/one is not JSON",
        '["team-a/one"]',
        json.dumps({"message": ["team-a/one"]}),
        "",
    ],
)
def test_other_line_is_skipped(one: str) -> None:
    assert lines_about(SUBJECTS, [one]) == []


def test_lines_of_several_pods_are_sorted_by_time() -> None:
    late, early = line("team-a/one late", time="2026-03-01T12:00:02Z"), line("team-a/one early")

    assert [record["message"] for _, record in lines_about(SUBJECTS, [late, early])] == [
        "team-a/one early",
        "team-a/one late",
    ]


@pytest.mark.parametrize("line", ["", "no line", "[1]", "{", '"text"'])
def test_other_lines_have_no_fields(line: str) -> None:
    assert parse_line(line) == {}
