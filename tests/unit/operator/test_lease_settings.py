"""Flags of leader election, and the namespace of the Lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.operator.lease_settings import ElectionSettings
from clusterstacks.operator.settings import parse_settings
from clusterstacks.runtime.leases import LeaseDurations

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
def test_leader_election_is_enabled_by_default(arguments: list[str], *, elects: bool) -> None:
    settings = parse_settings(arguments)
    assert (settings.election is not None) == elects
    assert settings.notices == ()


def test_invalid_value_of_leader_elect_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_settings(["--leader-elect=yes"])
    assert "'yes' is not true or false" in capsys.readouterr().err


def test_lease_durations_equal_those_of_client_go() -> None:
    settings = parse_settings(["--leader-elect-namespace=stacks", "--leader-elect-identity=one"])
    assert settings.election == ElectionSettings("stacks", "one", LeaseDurations(15, 10.0, 2.0))


@pytest.mark.parametrize(
    ("arguments", "environ", "account", "namespace"),
    [
        ([], {}, "", "kube-system"),
        ([], {}, "by-account\n", "by-account"),
        ([], {"POD_NAMESPACE": "by-pod"}, "by-account", "by-pod"),
        (["--operator-namespace=own"], {"POD_NAMESPACE": "by-pod"}, "", "own"),
        (["--operator-namespace=own", "--leader-elect-namespace=lease"], {}, "", "lease"),
    ],
)
def test_lease_is_in_the_namespace_of_the_operator(
    tmp_path: Path, arguments: list[str], environ: dict[str, str], account: str, namespace: str
) -> None:
    if account:
        (tmp_path / "namespace").write_text(account)
    election = parse_settings(arguments, environ, tmp_path).election
    assert election is not None
    assert election.namespace == namespace


def test_instances_that_share_no_objects_hold_different_leases() -> None:
    found = [
        settings.election.lease
        for arguments in (
            [],
            ["--watch-filter=a"],
            ["--watch-filter=b"],
            ["--shard=a"],
            ["--shard=a", "--watch-filter=a"],
        )
        if (settings := parse_settings(arguments)).election is not None
    ]
    as_manager = parse_settings(["--watch-filter=a", "--leader-elect"], program="/manager").election

    assert len({*found}) == 5
    assert as_manager is not None
    assert as_manager.lease == found[0] == "clusterstack.x-k8s.io", "the Go operator has one Lease for all filters"


def test_shard_leaves_the_rest_to_the_main_instance() -> None:
    settings = parse_settings(["--shard=emea", "--webhook-port=9443", "--providers=openstack", "--take-over"])

    assert (settings.webhook_port, settings.providers, settings.take_over) == (0, (), False)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--shard=emea", "--leader-elect=false"], "--shard needs leader election"),
        (["--shard=emea", "--shards=emea"], "--shards is for the main instance"),
        (["--shard=main"], "'main' is not a name"),
        (["--shards=emea,EU"], "'EU' is not a name"),
    ],
)
def test_settings_that_no_shard_can_have_are_rejected(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_settings(arguments)
    assert why in capsys.readouterr().err
