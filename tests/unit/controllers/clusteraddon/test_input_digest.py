"""What addons are rendered from is refused where it is nested too deep to be written."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.controllers.clusteraddon.addon_inputs import MAX_LEVELS, NestedTooDeep, snapshot_digest


def cluster(levels: int) -> dict[str, Any]:
    """A Cluster of so many levels."""
    value: Any = {}
    for _ in range(levels - 3):
        value = [value]
    return {"kind": "Cluster", "metadata": {"name": "odd", "namespace": "team"}, "spec": {"x": value}}


def digest(manifest: dict[str, Any]) -> str:
    return snapshot_digest("1.35", "sha256:0", {"Cluster": manifest, "ControlPlane": {}})


def test_sec_1_an_object_of_as_many_levels_as_may_be_has_a_digest() -> None:
    assert digest(cluster(MAX_LEVELS)).startswith("sha256:")


@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 254, 255, 1024])
def test_sec_1_one_of_more_levels_is_named_with_what_to_do(levels: int) -> None:
    with pytest.raises(NestedTooDeep, match=r"Cluster team/odd is nested deeper than 200 levels, .*: flatten"):
        digest(cluster(levels))


def test_digests_are_those_of_earlier_versions() -> None:
    """A digest that changes is a delivery to every cluster."""
    manifest = {"kind": "Cluster", "metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"d": [1]}, "status": {}}
    assert digest(manifest) == "sha256:87150b07b5e8bb721e35abdb7b883c7885ae2949aeda2b80405a898007118dc0"
