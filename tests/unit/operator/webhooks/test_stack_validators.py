"""Decisions about ClusterStacks, ClusterStackReleases, ClusterAddons and CompatibilityRules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.builders.admission import (
    GROUP,
    cluster,
    own_kinds,
    release,
    review,
    stack,
)

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest


async def test_deletion_is_denied_while_a_cluster_of_another_namespace_uses_the_class() -> None:
    own = await own_kinds(release("p-s-1-35-v1"), seen=(cluster(),), there=(cluster(),))

    assert "in use by 1 Cluster of other namespaces" in (await own.release(review({}, release("p-s-1-35-v1")))).refusal
    assert "in use by 1 Cluster of other namespaces" in (await own.stack(review({}, stack()))).refusal
    assert (await own.release(review({}, release("p-s-1-35-v2")))).allowed
    assert (await own.stack(review({}, stack(kubernetesVersion="1.36")))).allowed


def owned(*stacks: str) -> Manifest:
    owners = [{"apiVersion": f"{GROUP}/v1alpha1", "kind": "ClusterStack", "name": name, "uid": name} for name in stacks]
    return release("p-s-1-35-v1", ownerReferences=owners)


@pytest.mark.regression("LIVE-M7")
async def test_second_stack_of_the_same_minor_gives_a_warning() -> None:
    own = await own_kinds(seen=(stack(), stack("next", kubernetesVersion="1.36")))

    answer = await own.stack(review(stack("twin")))
    assert answer.allowed
    assert "ClusterStack scs of namespace stacks has the same provider" in answer.warnings[0]
    assert not (await own.stack(review(stack()))).warnings  # written again, it is its own twin
    assert not (await own.stack(review(stack("other", provider="t")))).warnings
    elsewhere = stack("twin")
    elsewhere["metadata"]["namespace"] = "others"
    assert not (await own.stack(review(elsewhere))).warnings
    assert "noProvider" in (await own.stack(review(stack("twin", noProvider=False)))).refusal


@pytest.mark.regression("LIVE-M7")
async def test_stack_with_releases_kept_by_another_can_be_deleted() -> None:
    shared = await own_kinds(owned("scs", "twin"), seen=(cluster(),), there=(cluster(), stack()))
    assert (await shared.stack(review({}, stack("twin")))).allowed
    # The other one is gone already, or does not own the release.
    for name, owners, there in (("twin", ("scs", "twin"), ()), ("scs", ("scs",), (stack("twin"),))):
        own = await own_kinds(owned(*owners), seen=(cluster(), stack(name)), there=(cluster(), *there))
        assert "in use by 1 Cluster of other namespaces" in (await own.stack(review({}, stack(name)))).refusal
    leaving = stack()
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/x"]}
    both = await own_kinds(owned("scs", "twin"), seen=(cluster(), stack("twin")), there=(cluster(), leaving))
    assert "in use by 1 Cluster of other namespaces" in (await both.stack(review({}, stack("twin")))).refusal


async def test_deleted_or_changed_cluster_does_not_block_a_release_deletion() -> None:
    for there in ((), (cluster("p-s-1-36-v2"),)):
        own = await own_kinds(seen=(cluster(),), there=there)

        assert (await own.release(review({}, release("p-s-1-35-v1")))).allowed


@pytest.mark.regression("SEC-34")
async def test_cluster_that_is_not_offered_the_class_blocks_no_deletion() -> None:
    closed = stack(clusterNamespaces={"from": "Same"})
    for used in (release("p-s-1-35-v1"), owned("scs")):
        own = await own_kinds(used, seen=(cluster(), closed), there=(cluster(),))

        assert (await own.release(review({}, used))).allowed
        assert (await own.stack(review({}, closed))).allowed


async def test_clusterctl_move_may_delete_releases_and_stacks_in_use() -> None:
    own = await own_kinds(seen=(cluster(),), there=(cluster(),))
    moving = {"annotations": {"clusterctl.cluster.x-k8s.io/delete-for-move": ""}}
    leaving = stack()
    leaving["metadata"] |= moving

    assert (await own.release(review({}, release("p-s-1-35-v1", **moving)))).allowed
    assert (await own.stack(review({}, leaving))).allowed


async def test_stacks_addons_and_rules_are_validated_by_operation() -> None:
    own = await own_kinds()
    metadata = {"namespace": "users", "name": "cluster-addon-one"}
    addon = {"metadata": metadata, "spec": {"clusterRef": {"kind": "Cluster", "name": "one"}}}
    other = {"metadata": {"namespace": "users"}, "spec": {"clusterRef": {"kind": "Cluster", "name": "two"}}}
    rule = {"metadata": {"name": "r"}, "spec": {"severity": "Allow", "message": "m"}}

    assert (await own.stack(review(stack()))).allowed
    assert "providerRef" in (await own.stack(review(stack(noProvider=False)))).refusal
    assert "channel" in (await own.stack(review(stack(channel="custom"), stack()))).refusal
    assert (await own.addon(review(addon))).allowed
    assert "metadata.name" in (await own.addon(review({**addon, "metadata": {**metadata, "name": "x"}}))).refusal
    assert "clusterRef.name" in (await own.addon(review(other, addon))).refusal
    assert "overrides" in (await own.rule(review(rule))).refusal
    assert (await own.rule(review({}, rule))).allowed


def provided(kind: str = "FooClusterStackRelease", namespace: str = "", name: str = "a") -> Manifest:
    reference = {"apiVersion": "infrastructure.clusterstack.x-k8s.io/v1alpha1", "kind": kind, "name": name}
    reference |= {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": "p-s-1-35-v1", "namespace": "stacks"}, "spec": {"providerRef": reference}}


@pytest.mark.regression("SEC-4")
async def test_provider_object_references_are_validated_when_they_take_effect() -> None:
    own = await own_kinds()
    foreign, of_core = provided(namespace="other"), provided("Secret")

    assert (await own.release(review(provided()))).allowed
    assert (await own.release(review(provided(namespace="stacks")))).allowed
    assert "spec.providerRef.namespace is other" in (await own.release(review(foreign))).refusal
    assert "--provider-kinds" in (await own.release(review(of_core))).refusal
    assert "spec.providerRef.namespace" in (await own.release(review(foreign, provided()))).refusal
    assert (await own.release(review({"metadata": {}, "spec": {}}))).allowed

    renamed = provided(namespace="other", name="b")
    assert (await own.release(review(renamed, foreign))).allowed  # it is a condition already


@pytest.mark.regression("SEC-4")
async def test_template_references_are_validated_when_they_take_effect() -> None:
    own = await own_kinds()
    right = provided("FooClusterStackReleaseTemplate")["spec"]
    wrong = provided("FooClusterStackReleaseTemplate", "other")["spec"]
    of_nothing = stack(**wrong)

    assert (await own.stack(review(stack(noProvider=False, **right)))).allowed
    assert "spec.providerRef.namespace" in (await own.stack(review(stack(noProvider=False, **wrong)))).refusal
    assert (await own.stack(review(of_nothing))).allowed
    assert (
        "spec.providerRef.namespace" in (await own.stack(review(stack(noProvider=False, **wrong), of_nothing))).refusal
    )
    before = stack(noProvider=False, **wrong)
    assert (await own.stack(review(stack(noProvider=False, versions=["v1"], **wrong), before))).allowed
