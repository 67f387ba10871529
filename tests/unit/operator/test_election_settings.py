"""Leader election on the command line: the Go operator's flags, and where the Lease is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator.election import ElectionSettings, own_namespace
from clusterstacks.operator.settings import parse_settings
from clusterstacks.runtime.leases import Terms

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("arguments", "elects"),
    [
        ([], True),
        (["--leader-elect"], True),
        (["--leader-elect=true"], True),
        (["--leader-elect=T"], True),
        (["--leader-elect=1"], True),
        (["--leader-elect=false"], False),
        (["--leader-elect=False"], False),
        (["--leader-elect=0"], False),
        (["--leader-elect", "--namespace=team"], True),
    ],
)
def test_it_is_on_unless_it_is_turned_off(arguments: list[str], *, elects: bool) -> None:
    settings = parse_settings(arguments)
    assert (settings.election is not None) == elects
    assert settings.notices == ()


def test_anything_else_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--leader-elect=yes"])
    assert "'yes' is not true or false" in capsys.readouterr().err


def test_the_durations_are_those_of_client_go() -> None:
    settings = parse_settings(["--leader-elect-namespace=stacks", "--leader-elect-identity=one"])
    assert settings.election == ElectionSettings("stacks", "one", Terms(15, 10.0, 2.0))


def test_the_lease_is_in_the_namespace_of_the_pod(tmp_path: Path) -> None:
    file = tmp_path / "namespace"
    assert own_namespace({}, file) == "default"
    file.write_text("by-account\n")
    assert own_namespace({}, file) == "by-account"
    assert own_namespace({"POD_NAMESPACE": "by-pod"}, file) == "by-pod"
    named = parse_settings(["--leader-elect-namespace=by-flag"], {"POD_NAMESPACE": "by-pod"}).election
    assert named is not None
    assert named.namespace == "by-flag"
