"""Values of a cluster and the digest of the inputs of its addons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.model.files.addon_config import HealthRule
from clusterstacks.model.yaml import MAX_DEPTH
from clusterstacks.operator.controllers.clusteraddon import addon_inputs
from clusterstacks.operator.controllers.clusteraddon.addon_inputs import (
    MAX_LEVELS,
    cluster_values,
    input_digest,
    snapshot_digest,
    unknown_settings,
)


def test_rules_for_health_change_the_digest_of_an_addon_and_their_absence_does_not() -> None:
    rule = HealthRule("Widget.example.org", "self.status.done")
    inputs = ("1.35", "sha256:chart", "values")

    assert input_digest(*inputs) == input_digest(*inputs, ())
    assert input_digest(*inputs) == "sha256:fbac5f49e36b097753552f768755fab5ed08d090bee927e2ca4b432b6de6748f"
    assert len({input_digest(*inputs, rules) for rules in ((), (rule,), (replace(rule, failed="true"),))}) == 3


def cluster(*variables: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": "one"},
        "spec": {"topology": {"variables": list(variables)}},
    }


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "variables",
    [
        [],
        [{"name": "other", "value": {"cni": {"a": 1}}}],
        [{"name": "addonValues", "value": {}}],
        [{"name": "addonValues", "value": {"csi": {"a": 1}}}],
        [{"name": "addonValues", "value": {"cni": None}}],
        [{"name": "addonValues"}],
    ],
)
def test_cluster_without_addon_values_is_accepted(variables: list[dict[str, Any]]) -> None:
    assert cluster_values("cni", cluster(*variables)) is None


def test_values_of_an_addon_are_read_from_its_variable() -> None:
    value = {"cni": {"a": {"high": 3}}, "csi": {"b": 1}}

    assert cluster_values("cni", cluster({"name": "addonValues", "value": value})) == {"a": {"high": 3}}


@pytest.mark.parametrize("value", ["text", ["a"], {"cni": "text"}, {"cni": 3}])
def test_values_that_are_not_a_mapping_are_rejected_by_name(value: object) -> None:
    words = r"variable addonValues(\.cni)? of Cluster team/one is .*: write the values"

    with pytest.raises(SpecError, match=words):
        cluster_values("cni", cluster({"name": "addonValues", "value": value}))


@pytest.mark.parametrize(
    ("value", "excess"),
    [
        (nested(MAX_DEPTH + 1), "nests deeper than 200 levels"),
        (nested(900), "nests deeper than 200 levels"),
        ({"a": "x" * addon_inputs.MAX_BYTES}, "has more than 1048576 bytes"),
        ({"a": [0] * addon_inputs.MAX_VALUES}, "has more than 20000 values"),
        ({"a": [[]] * 300_000}, "has more than 20000 values"),
    ],
)
def test_values_above_a_limit_are_rejected_by_name(value: object, excess: str) -> None:
    with pytest.raises(SpecError, match=rf"variable addonValues\.cni of Cluster team/one {excess}: write"):
        cluster_values("cni", cluster({"name": "addonValues", "value": {"cni": value}}))


@pytest.mark.parametrize("value", [nested(MAX_DEPTH), {"a": [0] * (addon_inputs.MAX_VALUES - 2)}])
def test_values_within_the_limits_are_accepted(value: object) -> None:
    assert cluster_values("cni", cluster({"name": "addonValues", "value": {"cni": value}})) == value


@pytest.mark.regression("LIVE-M4")
@pytest.mark.parametrize(
    ("values", "annotations", "words"),
    [
        (None, {}, ()),
        ({"cni": {}, "csi": {}}, {"clusterstack.x-k8s.io/addon.cni": "v1"}, ()),
        ({}, {"clusterstack.x-k8s.io/addon-release": "v1", "clusterstack.x-k8s.io/adopt-addons-of": "a/b"}, ()),
        (5, {"clusterstack.x-k8s.io/digest": ""}, ()),
        ({"cin": {}}, {}, ("values for 'cin'", "the addons are 'cni', 'csi'")),
        ({}, {"clusterstack.x-k8s.io/addons.cni": "v1"}, ("annotation clusterstack.x-k8s.io/addons.cni is not read",)),
        ({}, {"clusterstack.x-k8s.io/addon-releases": "v1"}, ("addon-releases",)),
        ({}, {"clusterstack.x-k8s.io/deletion-policy": "delete"}, ("is 'delete': write Orphan or Delete",)),
        ({}, {"clusterstack.x-k8s.io/deletion-policy": "Delete"}, ()),
        ({f"a{number}": 1 for number in range(99)}, {}, ("and 89 more",)),
    ],
)
def test_values_of_unknown_addons_are_reported(values: Any, annotations: Any, words: tuple[str, ...]) -> None:
    manifest = cluster({"name": "addonValues", "value": values})
    manifest["metadata"]["annotations"] = annotations

    told = unknown_settings(manifest, {"cni", "csi"})

    assert bool(told) == bool(words)
    assert all(word in told for word in words)


def nested_cluster(levels: int) -> dict[str, Any]:
    """A Cluster of so many levels."""
    value: Any = {}
    for _ in range(levels - 3):
        value = [value]
    return {"kind": "Cluster", "metadata": {"name": "odd", "namespace": "team"}, "spec": {"x": value}}


def digest(manifest: dict[str, Any]) -> str:
    return snapshot_digest("1.35", "sha256:0", {"Cluster": manifest, "ControlPlane": {}})


@pytest.mark.regression("SEC-1")
def test_object_at_the_nesting_limit_has_a_digest() -> None:
    assert digest(nested_cluster(MAX_LEVELS)).startswith("sha256:")


@pytest.mark.regression("SEC-1")
@pytest.mark.parametrize("levels", [MAX_LEVELS + 1, 254, 255, 1024])
def test_object_above_the_nesting_limit_is_named_with_a_remedy(levels: int) -> None:
    with pytest.raises(SpecError, match=r"Cluster team/odd is nested deeper than 200 levels, .*: flatten"):
        digest(nested_cluster(levels))


def test_digests_equal_those_of_earlier_versions() -> None:
    """A digest that changes causes a delivery to every cluster."""
    manifest = {"kind": "Cluster", "metadata": {"name": "a", "labels": {"b": "c"}}, "spec": {"d": [1]}, "status": {}}
    assert digest(manifest) == "sha256:87150b07b5e8bb721e35abdb7b883c7885ae2949aeda2b80405a898007118dc0"


@pytest.mark.parametrize(
    ("annotations", "same"),
    [
        ({"runtime.cluster.x-k8s.io/pending-hooks": "AfterControlPlaneInitialized"}, True),
        ({"topology.internal.cluster.x-k8s.io/upgrade-step": "v1.36.1"}, True),
        ({"before-upgrade.hook.cluster.cluster.x-k8s.io/cluster-stacks": ""}, True),
        ({"cluster.x-k8s.io/cloned-from-name": "a", "cluster.x-k8s.io/cloned-from-groupkind": "b"}, True),
        ({"example.org/region": "north"}, False),
    ],
)
def test_annotations_that_cluster_api_writes_for_itself_change_no_digest(
    annotations: dict[str, str], *, same: bool
) -> None:
    manifest = {"kind": "Cluster", "metadata": {"name": "a"}}
    annotated = {"kind": "Cluster", "metadata": {"name": "a", "annotations": annotations}}

    assert (digest(annotated) == digest(manifest)) == same
