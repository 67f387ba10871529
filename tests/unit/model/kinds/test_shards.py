"""Who delivers to a Cluster, which shards it may ask for, and the names of Leases."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.kinds.names import SHARDS_ANNOTATION
from clusterstacks.model.kinds.shards import (
    MAIN,
    NAME,
    ShardStep,
    decide_step,
    inherited_labels,
    lease_name,
    shard_of,
    shard_refusal,
)

SHARDS = (MAIN, "emea", "apac")


@pytest.mark.parametrize(
    ("own", "wanted", "holder", "step"),
    [
        (MAIN, MAIN, MAIN, ShardStep.WORK),
        ("emea", "emea", "emea", ShardStep.WORK),
        (MAIN, "emea", MAIN, ShardStep.HAND_OVER),
        ("emea", MAIN, "emea", ShardStep.HAND_OVER),
        ("emea", "apac", "emea", ShardStep.HAND_OVER),
        ("emea", "emea", MAIN, ShardStep.IGNORE),
        ("apac", MAIN, "emea", ShardStep.IGNORE),
        (MAIN, "emea", "emea", ShardStep.IGNORE),
        (MAIN, MAIN, "emea", ShardStep.HAND_OVER_FOR),
        (MAIN, "apac", "emea", ShardStep.HAND_OVER_FOR),
    ],
)
def test_only_the_holder_works_and_hands_over(own: str, wanted: str, holder: str, step: ShardStep) -> None:
    assert decide_step(own, wanted, holder) is step


@dataclass
class Instances:
    """A Cluster, and instances that see its label late; a hand-over is atomic."""

    wanted: str = MAIN
    holder: str = MAIN
    seen: dict[str, str] = field(default_factory=lambda: dict.fromkeys(SHARDS, MAIN))
    writing: set[str] = field(default_factory=lambda: {MAIN})

    def reconcile(self, own: str) -> None:
        step = decide_step(own, self.seen[own], self.holder)
        self.writing.discard(own)  # the reconcile before it ended
        if step is ShardStep.WORK:
            self.writing.add(own)
        elif step is ShardStep.HAND_OVER:
            self.holder = self.seen[own]


@given(st.lists(st.tuples(st.sampled_from(("label", "see", "reconcile")), st.sampled_from(SHARDS)), max_size=60))
def test_never_two_instances_write_however_late_they_see_the_label(steps: list[tuple[str, str]]) -> None:
    world = Instances()
    for step, shard in steps:
        if step == "label":
            world.wanted = shard
        elif step == "see":
            world.seen[shard] = world.wanted
        else:
            world.reconcile(shard)
        assert world.writing <= {world.holder}

    for shard in SHARDS * 4:  # all catch up
        world.seen[shard] = world.wanted
        world.reconcile(shard)
    assert world.writing == {world.wanted} == {world.holder}


def test_label_names_the_shard_and_is_inherited() -> None:
    labels = {"clusterstack.x-k8s.io/shard": "emea", "cluster.x-k8s.io/watch-filter": "x", "other": "y"}

    assert shard_of({"metadata": {"labels": labels}}) == "emea"
    assert shard_of(None) == shard_of({"metadata": {}}) == MAIN
    assert inherited_labels(labels) == {name: labels[name] for name in labels if name != "other"}


@pytest.mark.parametrize("name", ["a", "emea", "eu-1", "x" * 30])
def test_names_of_shards(name: str) -> None:
    assert NAME.fullmatch(name)
    assert lease_name(name) == f"{name}.clusterstack.x-k8s.io"


@pytest.mark.parametrize("name", ["", "main", "EMEA", "-a", "a-", "a.b", "x" * 31, "a\n"])
def test_texts_that_name_no_shard(name: str) -> None:
    assert not NAME.fullmatch(name)


def test_lease_of_the_main_instance_is_that_of_the_go_operator_and_filters_have_their_own() -> None:
    leases = {lease_name(MAIN), lease_name(MAIN, "one"), lease_name(MAIN, "two"), lease_name("emea", "one")}

    assert lease_name(MAIN) == "clusterstack.x-k8s.io"
    assert len(leases) == 4


@pytest.mark.parametrize(
    ("wanted", "shards", "limit", "words"),
    [
        ("emea", {"emea", "apac"}, None, ""),
        ("emea", {"emea", "apac"}, "emea, apac", ""),
        ("emea", {"emea", "apac"}, "apac", "of its namespace does not name it: use apac, or remove the label"),
        ("us", {"emea", "apac"}, None, "there is none: use apac or emea, or remove the label"),
        ("us", {"emea"}, "us", "there is none: remove the label"),
        ("emea", set(), None, "there is none: remove the label"),
    ],
)
def test_shards_come_from_the_provider(wanted: str, shards: set[str], limit: str | None, words: str) -> None:
    namespace = {"metadata": {"annotations": {SHARDS_ANNOTATION: limit}}} if limit is not None else None

    refusal = shard_refusal(wanted, shards, namespace)

    assert refusal.endswith(words)
    assert bool(refusal) == bool(words)
