from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.documents import DocumentError
from clusterstacks.model.files.addon_config import (
    HEALTH_TIMEOUT,
    HealthRule,
    InvalidAddonConfig,
    LifecycleHook,
    Stage,
    StageAction,
    StageCondition,
    WaitFor,
    WatchedObject,
    parse_addon_config,
)
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
    "health": [
        {"kind": "Widget.example.org", "current": "self.status.done", "failed": "self.status.failed"},
        {"kind": "Pod", "current": "true"},
    ],
}


def stages(*given_stages: object) -> dict[str, Any]:
    return {"addonStages": {"AfterControlPlaneInitialized": list(given_stages)}}


def test_stages_are_read_in_order_with_conditions() -> None:
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


def test_health_rules_are_read_by_kind() -> None:
    assert parse_addon_config(DOCUMENT).health == (
        HealthRule("Widget.example.org", "self.status.done", "self.status.failed"),
        HealthRule("Pod", "true"),
    )
    assert parse_addon_config(stages()).health == ()


@pytest.mark.parametrize(
    ("fields", "wait_for", "timeout"),
    [
        ({}, WaitFor.DELIVERED, HEALTH_TIMEOUT),
        ({"waitFor": "Delivered"}, WaitFor.DELIVERED, HEALTH_TIMEOUT),
        ({"waitFor": None, "timeout": None}, WaitFor.DELIVERED, HEALTH_TIMEOUT),
        ({"waitFor": "Healthy"}, WaitFor.HEALTHY, HEALTH_TIMEOUT),
        ({"waitFor": "Healthy", "timeout": "1h30m"}, WaitFor.HEALTHY, timedelta(minutes=90)),
        ({"timeout": "whatever the Go operator ignores"}, WaitFor.DELIVERED, HEALTH_TIMEOUT),
    ],
)
def test_a_stage_waits_for_the_delivery_or_for_health(
    fields: dict[str, object], wait_for: WaitFor, timeout: timedelta
) -> None:
    config = parse_addon_config(stages({"name": "cni", "action": "apply", **fields}))

    (found,) = config.stages[LifecycleHook.AFTER_CONTROL_PLANE_INITIALIZED]
    assert (found.wait_for, found.timeout) == (wait_for, timeout)


def test_stages_of_an_unknown_hook_are_ignored() -> None:
    config = parse_addon_config({"addonStages": {7: "x", "name": [{"name": "../"}], "AfterClusterUpgrade": None}})

    assert config.addons() == ()


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (None, "clusteraddon.yaml: the document is missing: write a mapping"),
        ({}, "clusteraddon.yaml: addonStages is missing"),
        ({"addonStages": {"AfterClusterUpgrade": {}}}, "addonStages.AfterClusterUpgrade is a mapping: write a list"),
        (stages("cni"), "AfterControlPlaneInitialized[0] is 'cni': write a mapping"),
        (
            stages({"action": "apply"}),
            "AfterControlPlaneInitialized[0].name is missing: use the name of the chart's directory",
        ),
        (stages({"name": "../cni", "action": "apply"}), "[0].name is '../cni': use the name of the chart's directory"),
        (stages({"name": "cni"}), "[0].action is missing: write apply or delete"),
        (stages({"name": "cni", "action": "Apply"}), "[0].action is 'Apply': write apply or delete"),
        (stages({"name": "cni", "action": ["apply"]}), "[0].action is a list: write apply or delete"),
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
        (
            stages({"name": "cni", "action": "apply", "waitFor": "healthy"}),
            "[0].waitFor is 'healthy': write Delivered or Healthy",
        ),
        (stages({"name": "cni", "action": "apply", "waitFor": ["Healthy"]}), "[0].waitFor is a list: write Delivered"),
        (
            stages({"name": "cni", "action": "delete", "waitFor": "Healthy"}),
            "[0].waitFor is 'Healthy': only a stage with action apply can wait for health",
        ),
        (
            stages({"name": "cni", "action": "apply", "waitFor": "Healthy", "timeout": "soon"}),
            "[0].timeout is 'soon': write a duration of at least 1s",
        ),
        (
            stages({"name": "cni", "action": "apply", "waitFor": "Healthy", "timeout": 10}),
            "[0].timeout is 10: write a duration",
        ),
        (
            stages({"name": "cni", "action": "apply", "waitFor": "Healthy", "timeout": "0s"}),
            "[0].timeout is '0s': write a duration",
        ),
        (
            stages({"name": "cni", "action": "apply", "waitFor": "Healthy", "rollback": "onFailure"}),
            "[0].rollback is 'onFailure': write Never or OnFailure",
        ),
        (
            stages({"name": "cni", "action": "apply", "rollback": "OnFailure"}),
            "[0].rollback is 'OnFailure': only a stage that waits for health can fail and roll back: add waitFor: Heal",
        ),
        (
            stages({"name": "cni", "action": "delete", "rollback": "OnFailure"}),
            "[0].rollback is 'OnFailure': only a stage that waits for health",
        ),
        ({"addonStages": {}, "health": {}}, "health is a mapping: write a list"),
        ({"addonStages": {}, "health": [{"current": "true"}]}, "health[0].kind is missing: write kind and API group"),
        (
            {"addonStages": {}, "health": [{"kind": "widgets.example.org", "current": "true"}]},
            "health[0].kind is 'widgets.example.org': write kind and API group (expected for example Widget.exam",
        ),
        (
            {"addonStages": {}, "health": [{"kind": "Pod"}]},
            "health[0].current is missing: write a CEL expression that is true if the object self is healthy",
        ),
        (
            {"addonStages": {}, "health": [{"kind": "Pod", "current": "true"}] * 2},
            "health[1].kind is 'Pod': write one entry for each kind",
        ),
    ],
)
def test_error_names_stage_value_and_remedy(document: object, complaint: str) -> None:
    with pytest.raises(InvalidAddonConfig) as raised:
        parse_addon_config(document)

    assert complaint in raised.value.message
    assert raised.value.message.startswith("clusteraddon.yaml: ")


def test_error_has_a_message_for_each_fault() -> None:
    with pytest.raises(InvalidAddonConfig) as raised:
        parse_addon_config({**stages({"name": "cni"}, "x"), "health": [{"kind": "pod"}]})

    assert [fault.partition(" is ")[0].rpartition(".")[2] for fault in raised.value.faults] == [
        "action",
        "AfterControlPlaneInitialized[1]",
        "kind",
        "current",
    ]
    assert raised.value.message == raised.value.faults[0]


@pytest.mark.parametrize("name", ["..", ".", "a/b", "a\\b", "-a", "a-", "A", "a" * 64, "cni\n", "a.b"])
def test_addon_name_is_a_single_path_segment(name: str) -> None:
    with pytest.raises(InvalidAddonConfig):
        parse_addon_config(stages({"name": name, "action": "apply"}))


@given(JSON | damaged(DOCUMENT) | st.dictionaries(st.just("addonStages"), JSON))
def test_arbitrary_document_is_read_or_rejected_with_its_own_error(document: object) -> None:
    try:
        parse_addon_config(document)
    except DocumentError as error:
        assert "clusteraddon.yaml" in error.message  # noqa: PT017 - most documents raise, some rightly do not
