"""Loads of shards, and the moves that balance them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.objects import ObjectKey
from clusterstacks.plan.clusters.shard_balance import TOLERANCE, Shard, balancing_moves, shards_in_use

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACED = {ObjectKey("team", f"c{number}"): ("", 10) for number in range(4)} | {ObjectKey("team", "big"): ("emea", 35)}


def lease(name: str, holder: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"holderIdentity": holder}}


def test_shards_are_those_of_leases_and_of_clusters() -> None:
    leases = [lease("clusterstack.x-k8s.io", "a"), lease("apac.clusterstack.x-k8s.io", "b"), lease("node-1", "kubelet")]

    found = {one.title: (one.holder, len(one.clusters), one.load) for one in shards_in_use(PLACED, leases)}

    assert found == {"main": ("a", 4, 40), "apac": ("b", 0, 0), "emea": ("", 1, 35)}


def test_moves_fill_an_empty_shard_and_are_commands() -> None:
    of_main = {key: one for key, one in PLACED.items() if not one[0]}
    shards = shards_in_use(of_main, [lease("apac.clusterstack.x-k8s.io", "b")])

    assert [move.command for move in balancing_moves(shards)] == [
        "kubectl label --namespace team cluster c0 clusterstack.x-k8s.io/shard=apac --overwrite",
        "kubectl label --namespace team cluster c1 clusterstack.x-k8s.io/shard=apac --overwrite",
    ]


def test_a_move_to_the_main_instance_removes_the_label() -> None:
    clusters = {ObjectKey("t", "x"): 5, ObjectKey("t", "y"): 5}

    (move,) = balancing_moves([Shard("", "a", {}), Shard("emea", "b", clusters)])

    assert move.command == "kubectl label --namespace t cluster x clusterstack.x-k8s.io/shard-"


def test_without_shards_nothing_moves() -> None:
    assert balancing_moves([]) == []


LOADS = st.dictionaries(st.integers(0, 40), st.integers(1, 500), max_size=20)


@given(st.lists(LOADS, min_size=1, max_size=4))
def test_moves_end_and_leave_no_single_move_worth_it(sizes: list[Mapping[int, int]]) -> None:
    shards = [
        Shard(f"s{number}", "x", {ObjectKey(f"s{number}", str(name)): load for name, load in one.items()})
        for number, one in enumerate(sizes)
    ]
    loads = {key: load for shard in shards for key, load in shard.clusters.items()}
    place = {key: shard.name for shard in shards for key in shard.clusters}
    spread = [shard.load for shard in shards]

    for move in balancing_moves(shards):
        assert place[move.cluster] != move.shard
        place[move.cluster] = move.shard

    after = {shard.name: sum(loads[key] for key in place if place[key] == shard.name) for shard in shards}
    gap = max(after.values()) - min(after.values())
    heavy = max(after, key=lambda name: after[name])
    small_enough = gap <= TOLERANCE * sum(spread) / len(spread)
    assert gap <= max(spread) - min(spread)
    assert small_enough or not any(0 < loads[key] < gap for key in place if place[key] == heavy)
