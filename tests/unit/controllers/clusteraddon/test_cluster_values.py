"""Values of one cluster's own."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.api.yaml import MAX_DEPTH
from clusterstacks.controllers.clusteraddon import addon_inputs
from clusterstacks.controllers.clusteraddon.addon_inputs import AddonValuesInvalid, cluster_values, unknown_settings


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
def test_a_cluster_may_have_no_own_values(variables: list[dict[str, Any]]) -> None:
    assert cluster_values("cni", cluster(*variables)) is None


def test_own_values_are_those_of_the_addon() -> None:
    value = {"cni": {"a": {"high": 3}}, "csi": {"b": 1}}

    assert cluster_values("cni", cluster({"name": "addonValues", "value": value})) == {"a": {"high": 3}}


@pytest.mark.parametrize("value", ["text", ["a"], {"cni": "text"}, {"cni": 3}])
def test_values_that_are_no_mapping_are_refused_by_name(value: object) -> None:
    words = r"variable addonValues(\.cni)? of Cluster team/one is .*: write the values"

    with pytest.raises(AddonValuesInvalid, match=words):
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
def test_values_over_a_bound_are_refused_by_name(value: object, excess: str) -> None:
    with pytest.raises(AddonValuesInvalid, match=rf"variable addonValues\.cni of Cluster team/one {excess}: write"):
        cluster_values("cni", cluster({"name": "addonValues", "value": {"cni": value}}))


@pytest.mark.parametrize("value", [nested(MAX_DEPTH), {"a": [0] * (addon_inputs.MAX_VALUES - 2)}])
def test_values_within_the_bounds_are_taken(value: object) -> None:
    assert cluster_values("cni", cluster({"name": "addonValues", "value": {"cni": value}})) == value


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
        ({f"a{number}": 1 for number in range(99)}, {}, ("and 89 more",)),
    ],
)
def test_live_m4_settings_for_what_is_not_there_are_named(
    values: Any, annotations: Any, words: tuple[str, ...]
) -> None:
    manifest = cluster({"name": "addonValues", "value": values})
    manifest["metadata"]["annotations"] = annotations

    told = unknown_settings(manifest, {"cni", "csi"})

    assert bool(told) == bool(words)
    assert all(word in told for word in words)
