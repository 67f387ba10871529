"""Reads and writes the kinds of Cluster Stacks."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterstacks.model.errors import SpecError
from clusterstacks.model.kinds.clusteraddon import ClusterAddon, ClusterAddonStatus, DeliveredAddon, StageStatus
from clusterstacks.model.kinds.clusterstack import Channel, ClusterStack, ClusterStackStatus, ReleaseSummary
from clusterstacks.model.kinds.clusterstackrelease import ClusterStackRelease, ClusterStackReleaseStatus
from clusterstacks.model.kinds.meta import ConditionEntry, ResourceEntry
from clusterstacks.model.kinds.names import ResourceStatus
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import StagePhase
from tests.support.builders.documents import damaged

STACK: dict[str, Any] = {
    "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
    "kind": "ClusterStack",
    "metadata": {"name": "scs", "namespace": "org-a", "managedFields": [{"manager": "kubectl"}]},
    "spec": {
        "provider": "openstack",
        "name": "scs",
        "kubernetesVersion": "1.35",
        "channel": "custom",
        "versions": ["v1", "v0-sha.abc1234"],
        "autoSubscribe": False,
        "providerRef": {"apiVersion": "infra/v1", "kind": "FooTemplate", "name": "foo"},
    },
    "status": {
        "latestRelease": "openstack-scs-1-35-v1 | v1.35.4",
        "summary": [{"name": "v1", "ready": True, "phase": ""}],
    },
}
ADDON: dict[str, Any] = {
    "metadata": {
        "name": "cluster-addon-a",
        "namespace": "org-a",
        "ownerReferences": [{"kind": "Cluster", "name": "a"}],
    },
    "spec": {"clusterRef": {"kind": "Cluster", "name": "a", "namespace": "org-a"}, "hook": "BeforeClusterUpgrade"},
    "status": {"stages": [{"name": "cni", "action": "apply", "phase": "a phase of another version"}], "ready": True},
}


def changed(**spec: Any) -> dict[str, Any]:
    return {**STACK, "spec": {**STACK["spec"], **spec}}


def test_cluster_stack_of_the_go_operator_is_read() -> None:
    stack = ClusterStack.parse(STACK)

    assert stack.key == ObjectKey("org-a", "scs")
    assert stack.spec.channel is Channel.CUSTOM
    assert stack.spec.versions == ("v1", "v0-sha.abc1234")
    assert not stack.spec.auto_subscribe
    assert stack.spec.provider_ref is not None
    assert stack.spec.provider_ref.kind == "FooTemplate"


def test_defaults_equal_those_of_the_go_operator() -> None:
    spec = ClusterStack.parse(
        {"metadata": {"name": "a"}, "spec": {"provider": "docker", "name": "b", "kubernetesVersion": "1.27"}}
    ).spec

    assert (spec.channel, spec.auto_subscribe, spec.no_provider, spec.versions) == ("stable", True, False, ())


def test_null_is_absent_and_unknown_fields_are_ignored() -> None:
    stack = ClusterStack.parse(changed(versions=None, providerRef=None, autoSubscribe=None, ofTheFuture={"a": 1}))

    assert stack.spec.versions == ()
    assert stack.spec.provider_ref is None
    assert stack.spec.auto_subscribe


def test_release_needs_no_spec() -> None:
    release = ClusterStackRelease.parse({"metadata": {"name": "docker-ferrol-1-27-v1"}})

    assert release.spec.provider_ref is None
    assert not release.status.ready


def test_addon_is_read_and_unknown_phases_are_kept() -> None:
    addon = ClusterAddon.parse(ADDON)

    assert addon.spec.cluster_ref.name == "a"
    assert addon.status.stages[0].phase == "a phase of another version"
    assert not addon.spec.paused


def test_objects_of_an_addon_that_the_api_server_does_not_check_are_no_error() -> None:
    assert ClusterAddon.parse({**ADDON, "status": {"ready": True, "resources": "text"}}).status.ready


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"provider": ""}, "spec.provider: "),
        ({"kubernetesVersion": "v1.35"}, "spec.kubernetesVersion: "),
        ({"kubernetesVersion": 1.35}, "spec.kubernetesVersion: "),
        ({"kubernetesVersion": "1.35\n"}, "spec.kubernetesVersion: "),
        ({"channel": "beta"}, "spec.channel: "),
        ({"versions": ["v1", 2]}, "spec.versions[1]: "),
        ({"autoSubscribe": "yes"}, "spec.autoSubscribe: "),
        ({"clusterNamespaces": {"from": "Some"}}, "spec.clusterNamespaces.from: "),
    ],
)
def test_error_names_object_and_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as refusal:
        ClusterStack.parse(changed(**spec))

    assert refusal.value.code == "InvalidClusterStack"
    assert refusal.value.message.startswith("ClusterStack org-a/scs: ")
    assert field in refusal.value.message


def test_error_with_many_faults_is_bounded() -> None:
    with pytest.raises(SpecError, match="and 2 more; correct it"):
        ClusterStack.parse(changed(provider=1, name=2, kubernetesVersion=3, channel=4, versions=5))


@pytest.mark.parametrize("manifest", [{}, {"metadata": {"name": "a"}}, {"metadata": None, "spec": {}}])
def test_object_without_required_fields_is_rejected(manifest: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="spec"):
        ClusterAddon.parse(manifest)


def test_object_of_another_kind_is_rejected() -> None:
    with pytest.raises(SpecError, match="kind: "):
        ClusterAddon.parse({**ADDON, "kind": "ClusterStack"})


@given(damaged(STACK))
def test_arbitrary_document_is_read_or_rejected(manifest: Any) -> None:
    with suppress(SpecError):
        ClusterStack.parse(manifest)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(
    provider=NAMES.filter(bool),
    name=NAMES.filter(bool),
    minor=st.from_regex(r"[0-9]\.[0-9]+", fullmatch=True),
    versions=st.none() | st.lists(NAMES),
    switches=st.dictionaries(st.sampled_from(["autoSubscribe", "noProvider"]), st.booleans()),
    reference=st.none() | st.dictionaries(st.sampled_from(["kind", "name", "apiVersion", "uid", "fieldPath"]), NAMES),
)
def test_documents_valid_for_the_go_schema_are_read(
    provider: str, name: str, minor: str, versions: Any, switches: Any, reference: Any
) -> None:
    spec = {"provider": provider, "name": name, "kubernetesVersion": minor, "versions": versions, **switches}

    stack = ClusterStack.parse({"metadata": {"name": "a"}, "spec": {**spec, "providerRef": reference}})

    assert (stack.spec.provider, stack.spec.kubernetes_version) == (provider, minor)


def test_status_is_written_as_json_without_empty_fields() -> None:
    status = ClusterAddonStatus(
        target="docker-ferrol-1-27-v2",
        stages=(StageStatus(name="cni", action="apply", phase=StagePhase.DONE),),
        addons=(DeliveredAddon(name="cni", version="v2", objects=0),),
        resources=(ResourceEntry(version="v1", kind="ConfigMap", name="a", status=ResourceStatus.SYNCED),),
        conditions=(ConditionEntry(type="Ready", status="True", last_transition_time="2026-11-21T10:00:00Z"),),
    )

    expected = {
        "ready": False,
        "target": "docker-ferrol-1-27-v2",
        "stages": [{"name": "cni", "action": "apply", "phase": "done"}],
        "addons": [{"name": "cni", "version": "v2", "objects": 0}],
        "resources": [{"version": "v1", "kind": "ConfigMap", "name": "a", "status": "synced"}],
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-21T10:00:00Z"}],
    }
    assert status.document() == expected
    assert status.model_dump(by_alias=True, exclude_none=True) == expected


@pytest.mark.parametrize(
    "status",
    [
        ClusterStackStatus(latest_release="a", summary=(ReleaseSummary(name="v1", ready=False, phase="done"),)),
        ClusterStackReleaseStatus(ready=True, digest="sha256:00", resources=(ResourceEntry(name="a", error="no"),)),
        ClusterAddonStatus(observed_inputs="sha256:00"),
    ],
)
def test_written_status_is_read_back_unchanged(
    status: ClusterStackStatus | ClusterStackReleaseStatus | ClusterAddonStatus,
) -> None:
    assert type(status).model_validate(status.document()) == status


def test_empty_required_field_is_written() -> None:
    summary = ReleaseSummary(name="v1", ready=False, phase="").document()

    assert summary == {"name": "v1", "ready": False, "phase": ""}


def test_deletion_of_an_object_is_recognized() -> None:
    metadata = {"name": "a", "deletionTimestamp": "2026-11-21T10:00:00Z"}

    assert ClusterStackRelease.parse({"metadata": metadata}).metadata.deleting
