"""Values of one cluster's own."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.api import yaml
from clusterstacks.controllers.clusteraddon.overlays import overlaid
from clusterstacks.domain.errors import SpecError


def cluster(*variables: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"namespace": "team", "name": "one"},
        "spec": {"topology": {"variables": list(variables)}},
    }


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
def test_without_own_values_those_of_the_release_stay_as_they_are(variables: list[dict[str, Any]]) -> None:
    text = "# kept with its comment\na: 1\n"
    assert overlaid(text, "cni", cluster(*variables)) == text


@pytest.mark.parametrize("text", ["", "a: {low: 1, high: 2}\n"])
def test_own_values_win_key_by_key(text: str) -> None:
    found = overlaid(text, "cni", cluster({"name": "addonValues", "value": {"cni": {"a": {"high": 3}}}}))
    assert yaml.load(found, name="values")["a"] == ({"low": 1, "high": 3} if text else {"high": 3})


@pytest.mark.parametrize("value", ["text", ["a"], {"cni": "text"}, {"cni": 3}])
def test_values_that_are_no_mapping_are_refused_by_name(value: object) -> None:
    with pytest.raises(SpecError, match=r"variable addonValues(\.cni)? of Cluster team/one is .*: write the values"):
        overlaid("", "cni", cluster({"name": "addonValues", "value": value}))
