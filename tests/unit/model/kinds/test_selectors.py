"""Label selectors, and the namespaces that may use the classes of a ClusterStack."""

from __future__ import annotations

from typing import Any

import pytest

from clusterstacks.model.kinds.cluster_namespaces import ClusterNamespaces
from clusterstacks.model.kinds.selectors import LabelSelector

LABELS = {"team": "a", "stage": "prod"}


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ({}, True),
        ({"matchLabels": {"team": "a"}}, True),
        ({"matchLabels": {"team": "a", "stage": "dev"}}, False),
        ({"matchLabels": {"missing": ""}}, False),
        ({"matchExpressions": [{"key": "team", "operator": "In", "values": ["a", "b"]}]}, True),
        ({"matchExpressions": [{"key": "missing", "operator": "In", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "missing", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}, False),
        ({"matchLabels": {"team": "a"}, "matchExpressions": [{"key": "stage", "operator": "DoesNotExist"}]}, False),
    ],
)
def test_label_selector_matches_as_in_kubernetes(selector: dict[str, Any], selected: bool) -> None:  # noqa: FBT001 - table
    assert LabelSelector.model_validate(selector).matches(LABELS) is selected


@pytest.mark.parametrize(
    ("document", "admitted"),
    [
        ({}, {"home", "selected", "other"}),
        ({"from": "All"}, {"home", "selected", "other"}),
        ({"from": "Same"}, {"home"}),
        ({"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}, {"home", "selected"}),
        ({"from": "Selector", "selector": {}}, {"home", "selected", "other"}),
        ({"from": "Selector"}, {"home"}),
    ],
)
def test_namespace_selector_of_a_cluster_stack_is_applied(document: dict[str, Any], admitted: set[str]) -> None:
    namespaces = ClusterNamespaces.model_validate(document)
    labels = {"home": {}, "selected": LABELS, "other": {"team": "b"}}

    assert {name for name in labels if namespaces.admit(name, stack_namespace="home", labels=labels[name])} == admitted
