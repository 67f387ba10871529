"""What an operator reports that only observes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import DependencyError
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator import observation
from clusterstacks.operator.observation import Observation, Observed, ObservingGate, SweptKind, leave_message
from clusterstacks.runtime.cache import ObjectCache
from clusterstacks.runtime.log_format import log_context
from tests.support.virtual_time import in_virtual_time

if TYPE_CHECKING:
    from pathlib import Path


def gate_with(*refused: tuple[str, str, str]) -> ObservingGate:
    gate = ObservingGate()
    for controller, key, about in refused:
        with log_context(controller, key), pytest.raises(DependencyError, match="only observes"):
            gate.check(about)
    return gate


def test_the_gate_stays_closed_and_keeps_the_first_write_of_each_object() -> None:
    gate = gate_with(
        ("clusteraddon", "a/one", "apply Secret kube-system/record"),
        ("clusteraddon", "a/one", "patch ClusterAddon a/one"),
        ("clusterstack", "a/demo", "patch ClusterStack a/demo"),
    )
    assert not gate.is_open
    assert gate.writes == {
        "clusteraddon a/one": "apply Secret kube-system/record",
        "clusterstack a/demo": "patch ClusterStack a/demo",
    }


@pytest.mark.parametrize(
    ("observed", "message", "code"),
    [
        (Observed({}, 212, {}), "would write 0 objects in 212 clusters", 0),
        (
            Observed({"clusteraddon a/one": "apply Secret b/c"}, 1, {}),
            "would write 1 object in 1 cluster\nclusteraddon a/one: apply Secret b/c",
            3,
        ),
        (
            Observed({}, 2, {"a/far": "away"}),
            "would write 0 objects in 2 clusters; 1 cluster could not be compared\nCluster a/far is not compared: away",
            3,
        ),
    ],
)
def test_the_answer_counts_and_names(observed: Observed, message: str, code: int) -> None:
    assert (observed.message, observed.exit_code) == (message, code)


def test_a_long_answer_ends_with_the_number_of_the_others() -> None:
    observed = Observed({f"clusteraddon a/{number:02}": "apply Secret b/c" for number in range(30)}, 30, {})
    lines = observed.message.splitlines()
    assert len(lines) == 22
    assert lines[-1] == "and 10 more"


def addon(name: str, **conditions: str) -> dict[str, Any]:
    listed = [{"type": kind, "status": "False", "reason": "R", "message": told} for kind, told in conditions.items()]
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"clusterRef": {"name": name}},
        "status": {"conditions": listed},
    }


@pytest.mark.parametrize(
    ("why", "conditions", "refused", "expected"),
    [
        ("", {}, (), Observed({}, 1, {})),
        ("no route", {}, (), Observed({}, 0, {"a/one": "no route"})),
        (
            None,
            {"Ready": "the control plane is not ready"},
            (),
            Observed({}, 0, {"a/one": "the control plane is not ready"}),
        ),
        (None, {"Ready": "x", "Paused": "it is paused"}, (), Observed({}, 0, {"a/one": "it is paused"})),
        (None, {}, (), Observed({}, 0, {"a/one": "its objects are not delivered completely"})),
        (None, {}, (("clusteraddon", "a/one", "apply A"),), Observed({"clusteraddon a/one": "apply A"}, 1, {})),
    ],
)
def test_a_cluster_counts_only_if_it_was_compared_or_would_be_written(
    why: str | None, conditions: dict[str, str], refused: tuple[Any, ...], expected: Observed
) -> None:
    cache = ObjectCache()
    cache.put(ObjectKey("a", "one"), addon("one", **conditions))
    swept = SweptKind(cache, ("spec", "clusterRef", "name"), lambda _: why)
    assert Observation(gate_with(*refused), [swept], lambda: True).observed() == expected


@in_virtual_time
async def test_the_observation_is_complete_when_nothing_was_done_for_some_seconds() -> None:
    states = [True] * 8 + [False] + [True] * 20
    found = await Observation(ObservingGate(), [], lambda: states.pop(0)).completed()
    assert found == Observed({}, 0, {})
    assert len(states) == 10


def test_the_message_is_left_where_kubernetes_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "termination-log"
    monkeypatch.setattr(observation, "TERMINATION_LOG", file)
    leave_message("outside of a container")
    assert not file.exists()
    file.touch()
    leave_message("x" * 5000)
    assert len(file.read_text()) == 4096
