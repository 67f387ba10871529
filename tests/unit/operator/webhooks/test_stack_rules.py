"""Admission rules for the kinds of Cluster Stacks."""

from __future__ import annotations

import pytest

from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.class_offer import ReleaseUse
from clusterstacks.operator.webhooks.stack_rules import (
    AddonReference,
    StackIdentity,
    changed_addon,
    changed_stack,
    created_addon,
    created_stack,
    deletion,
    release_users,
    stack_users,
    uses_of,
)

ONE = ObjectKey("users", "one")
STABLE = StackIdentity("openstack", "scs", "1.35", "stable")
CUSTOM = StackIdentity("openstack", "scs", "1.35", "custom")


def use(release: str, namespace: str = "stacks", cluster: ObjectKey = ONE) -> ReleaseUse:
    return ReleaseUse(cluster, namespace, parse_release(release))


@pytest.mark.parametrize(
    ("versions", "provider", "no_provider", "refused"),
    [
        (["v1", "v0-sha.abc"], True, False, ""),
        ([], False, True, ""),
        ([], False, False, "providerRef"),
        (["v1", "1.2.3"], True, False, "'1.2.3'"),
        (["v0-sha-abc"], True, False, "'v0-sha-abc'"),
    ],
)
def test_new_stack_must_name_versions_and_a_provider(
    versions: list[str], refused: str, *, provider: bool, no_provider: bool
) -> None:
    answer = created_stack(versions, no_provider=no_provider, has_provider=provider)

    assert answer.allowed is not bool(refused)
    assert refused in answer.refusal


@pytest.mark.parametrize("field", ["provider", "name", "kubernetes", "channel"])
def test_identity_of_a_stack_is_immutable(field: str) -> None:
    old = {"provider": "openstack", "name": "scs", "kubernetes": "1.35", "channel": "stable"}

    answer = changed_stack(StackIdentity(**old), StackIdentity(**{**old, field: "other"}), (), ())

    spelled = {"kubernetes": "kubernetesVersion"}.get(field, field)
    assert answer.refusal.startswith(f"spec.{spelled} cannot be changed from {old[field]} to other")


def test_updates_validate_new_versions_only() -> None:
    assert changed_stack(STABLE, STABLE, ["nonsense"], ["nonsense", "v2"]).allowed
    assert "'v2.0'" in changed_stack(STABLE, STABLE, ["v1"], ["v1", "v2.0"]).refusal


@pytest.mark.parametrize(
    ("identity", "release", "owners", "refused"),
    [
        (STABLE, "openstack-scs-1-35-v1", {}, True),
        (STABLE, "openstack-scs-1-35-v0-sha-abc", {}, False),
        (CUSTOM, "openstack-scs-1-35-v0-sha-abc", {}, True),
        (CUSTOM, "openstack-scs-1-35-v0-custom-1", {}, True),
        (CUSTOM, "openstack-scs-1-35-v1", {}, False),
        (CUSTOM, "openstack-scs-1-35-v1", {"openstack-scs-1-35-v1": ["this"]}, True),
        (STABLE, "openstack-scs-1-35-v1", {"openstack-scs-1-35-v1": ["other"]}, False),
        (STABLE, "openstack-scs-1-35-v1", {"openstack-scs-1-35-v1": ["other", "this"]}, True),
        (STABLE, "openstack-scs-1-36-v1", {}, False),
        (STABLE, "docker-scs-1-35-v1", {}, False),
        (STABLE, "openstack-scs2-1-35-v1", {}, False),
    ],
)
def test_stack_can_be_deleted_once_no_cluster_uses_its_releases(
    identity: StackIdentity, release: str, owners: dict[str, list[str]], *, refused: bool
) -> None:
    users = stack_users(identity, "stacks", owners, "this", [use(release)])

    assert deletion("ClusterStack stacks/this", "stacks", users).allowed is not refused


def test_uses_of_another_class_namespace_are_ignored() -> None:
    uses = [use("openstack-scs-1-35-v1", namespace="elsewhere")]

    assert not stack_users(STABLE, "stacks", {}, "this", uses)
    assert not release_users("stacks", "openstack-scs-1-35-v1", uses)


@pytest.mark.regression("U-28")
def test_deletion_of_a_release_in_use_names_the_clusters_of_its_namespace() -> None:
    uses = [use("openstack-scs-1-35-v1", cluster=ObjectKey("stacks", name)) for name in "edcba"]

    found = release_users("stacks", "openstack-scs-1-35-v1", uses)
    assert deletion("ClusterStackRelease stacks/openstack-scs-1-35-v1", "stacks", found).refusal == (
        "ClusterStackRelease stacks/openstack-scs-1-35-v1 is in use by Clusters stacks/a, stacks/b, stacks/c and 2 "
        "more (release openstack-scs-1-35-v1): first change the class of these Clusters, or delete them\n"
        "The releases that Cluster stacks/a could use:\n"
        "  csctl compat matrix stacks/a"
    )
    assert not release_users("stacks", "openstack-scs-1-35-v2", uses)
    assert not release_users("stacks", "foreign", uses)


@pytest.mark.regression("SEC-35")
@pytest.mark.parametrize(
    ("clusters", "words"),
    [
        (["tenant/secret"], "in use by 1 Cluster of other namespaces (release"),
        (["tenant/secret", "zeta/secret"], "in use by 2 Clusters of other namespaces (release"),
        (["tenant/secret", "stacks/a"], "in use by Cluster stacks/a, and by 1 Cluster of other namespaces (release"),
    ],
)
def test_clusters_of_other_namespaces_are_only_counted(clusters: list[str], words: str) -> None:
    uses = [use("openstack-scs-1-35-v1", cluster=ObjectKey(*cluster.split("/"))) for cluster in clusters]

    refusal = deletion("ClusterStack stacks/this", "stacks", uses).refusal

    assert words in refusal
    assert "secret" not in refusal
    assert "tenant" not in refusal
    assert ("csctl status --all-namespaces" in refusal) is ("stacks/a" not in clusters)


def test_cluster_uses_the_releases_of_its_class_and_annotations() -> None:
    annotations = {
        "clusterstack.x-k8s.io/addon-release": "openstack-scs-1-35-v2",
        "clusterstack.x-k8s.io/addon.cni": "openstack-scs-1-36-v0-sha.abc",
        "clusterstack.x-k8s.io/addon.csi": "none",
    }

    uses = uses_of(ONE, "openstack-scs-1-35-v1", "stacks", annotations)

    assert [one.release.release for one in uses] == [
        "openstack-scs-1-35-v1",
        "openstack-scs-1-35-v2",
        "openstack-scs-1-36-v0-sha-abc",
    ]
    assert {one.namespace for one in uses} == {"stacks"}


@pytest.mark.parametrize("name", ["", "quick-start", "openstack-scs-1-35-v0-sha-abc", "capi"])
def test_foreign_class_uses_no_release(name: str) -> None:
    assert uses_of(ONE, name, "stacks", {}) == ()


def test_invalid_annotations_add_no_used_release() -> None:
    uses = uses_of(ONE, "openstack-scs-1-35-v1", "stacks", {"clusterstack.x-k8s.io/addon.cni": "nonsense"})

    assert [one.release.release for one in uses] == ["openstack-scs-1-35-v1"]


@pytest.mark.parametrize(
    ("kind", "name", "words"),
    [
        ("Cluster", "one", ""),
        ("", "one", "spec.clusterRef must name"),
        ("Cluster", "", "spec.clusterRef must name"),
        ("Cluster", "two", "metadata.name must be cluster-addon-two"),
    ],
)
def test_new_cluster_addon_names_a_cluster_and_is_named_after_it(kind: str, name: str, words: str) -> None:
    reference = AddonReference(kind, name, "users")

    answer = created_addon(reference, "cluster-addon-one", f"cluster-addon-{name}")

    assert answer.allowed is not bool(words)
    assert words in answer.refusal


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (AddonReference("Cluster", "two", "users"), "name"),
        (AddonReference("Other", "one", "users"), "kind"),
        (AddonReference("Cluster", "one", "others"), "namespace"),
    ],
)
def test_cluster_of_a_cluster_addon_is_immutable(new: AddonReference, field: str) -> None:
    old = AddonReference("Cluster", "one", "users")

    assert f"spec.clusterRef.{field} cannot be changed" in changed_addon(old, new).refusal
    assert changed_addon(old, old).allowed
