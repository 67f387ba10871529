from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.domain.addon_config import (
    InvalidAddonConfig,
    LifecycleHook,
    Stage,
    StageAction,
    StageCondition,
    WatchedObject,
    parse_addon_config,
)
from clusterstacks.domain.documents import DocumentError
from tests.support.builders.documents import JSON, damaged

WATCHED = {"key": "ds", "apiVersion": "apps/v1", "kind": "DaemonSet", "name": "cilium", "namespace": "kube-system"}
DOCUMENT: dict[str, Any] = {
    "apiVersion": "clusteraddonconfig.x-k8s.io/v1alpha1",
    "clusterAddonVersion": "clusteraddons.clusterstack.x-k8s.io/v1alpha1",
    "addonStages": {
        "AfterControlPlaneInitialized": [
            {"name": "cni", "action": "apply", "waitForPostCondition": {}},
            {
                "name": "csi",
                "action": "apply",
                "waitForPreCondition": {"objects": [WATCHED], "conditions": "ds.status.numberReady > 0"},
            },
        ],
        "BeforeClusterUpgrade": [{"name": "old", "action": "delete"}],
        "name": "not a hook",
    },
}


def stages(*given_stages: object) -> dict[str, Any]:
    return {"addonStages": {"AfterControlPlaneInitialized": list(given_stages)}}


def test_reads_stages_in_their_order_with_conditions() -> None:
    config = parse_addon_config(DOCUMENT)
    check = StageCondition(
        "ds.status.numberReady > 0", (WatchedObject("ds", "apps/v1", "DaemonSet", "cilium", "kube-system"),)
    )

    assert config.stages[LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED] == (
        Stage("cni", StageAction.APPLY),
        Stage("csi", StageAction.APPLY, pre=check),
    )
    assert config.stages[LifecycleHook.BEFORE_CLUSTER_UPGRADE] == (Stage("old", StageAction.DELETE),)
    assert config.stages[LifecycleHook.AFTER_CLUSTER_UPGRADE] == ()
    assert config.addons() == ("cni", "csi", "old")


def test_a_key_that_is_no_hook_is_kept_for_a_word_to_the_author() -> None:
    assert parse_addon_config(DOCUMENT).ignored_hooks == ("name",)
    assert parse_addon_config({"addonStages": {7: [], "AfterClusterUpgrade": None}}).ignored_hooks == ("7",)


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (None, "clusteraddon.yaml: the document is missing: write a mapping"),
        ({}, "clusteraddon.yaml: addonStages is missing"),
        ({"addonStages": {"AfterClusterUpgrade": {}}}, "addonStages.AfterClusterUpgrade is a mapping: write a list"),
        (stages("cni"), "AfterControlPlaneInitialized[0] is 'cni': write a mapping"),
        (stages({"action": "apply"}), "AfterControlPlaneInitialized[0].name is missing: name the directory"),
        (stages({"name": "../cni", "action": "apply"}), "[0].name is '../cni': use the name of the chart's directory"),
        (stages({"name": "cni"}), "[0].action is missing: the action of stage cni must be apply or delete"),
        (stages({"name": "cni", "action": "Apply"}), "[0].action is 'Apply': the action of stage cni must be"),
        (stages({"name": "cni", "action": ["apply"]}), "[0].action is a list: the action of stage cni must be"),
        (
            stages({"name": "cni", "action": "apply", "waitForPreCondition": {"objects": [WATCHED]}}),
            "[0].waitForPreCondition.conditions is missing: write a CEL expression",
        ),
        (
            stages(
                {"name": "a", "action": "apply", "waitForPreCondition": {"objects": [{"key": "1d"}], "conditions": "x"}}
            ),
            "[0].waitForPreCondition.objects[0].key is '1d': a CEL variable",
        ),
        (
            stages(
                {"name": "a", "action": "apply", "waitForPostCondition": {"objects": [WATCHED] * 2, "conditions": "ds"}}
            ),
            "[0].waitForPostCondition.objects[1].key is 'ds': use a different key",
        ),
    ],
)
def test_a_complaint_names_stage_value_and_way_out(document: object, complaint: str) -> None:
    with pytest.raises(InvalidAddonConfig) as raised:
        parse_addon_config(document)

    assert complaint in raised.value.message
    assert raised.value.message.startswith("clusteraddon.yaml: ")


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", "-a", "a-", "A", "a" * 64, "cni\n", "a.b"])
def test_an_addon_is_a_single_path_segment(name: str) -> None:
    with pytest.raises(InvalidAddonConfig):
        parse_addon_config(stages({"name": name, "action": "apply"}))


@given(JSON | damaged(DOCUMENT) | st.dictionaries(st.just("addonStages"), JSON))
def test_no_document_raises_anything_else(document: object) -> None:
    try:
        parse_addon_config(document)
    except DocumentError as error:
        assert "clusteraddon.yaml" in error.message  # noqa: PT017 - most documents raise, some rightly do not
