"""Rules about what is installed on a management cluster, and what csctl may change there."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.install.installations import (
    INSTALLATION_LABEL,
    Installation,
    Installed,
    OperatorDeployment,
    Program,
    UserObjects,
    definition_conflicts,
    install_conflicts,
    kept_conflicts,
    namespace_conflicts,
    operator_of,
    owner_of,
    removal_conflicts,
)
from clusterstacks.csctl.install.installed_objects import installation_objects
from clusterstacks.model.kinds.names import GROUP, SYNC_GROUP, Kind
from clusterstacks.model.objects import ObjectId, ObjectKey

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

HOME = "home"
CSCTL, CSCTL_AWAY = Installation(Program.CSCTL, HOME), Installation(Program.CSCTL, "away")
HELM, HELM_HOME = Installation(Program.HELM, "away", "kaas"), Installation(Program.HELM, HOME, "kaas")
CLUSTERCTL, PLAIN = Installation(Program.CLUSTERCTL, HOME), Installation(Program.OTHER, HOME)
WANTED = OperatorDeployment(key=ObjectKey(HOME, "cluster-stack-operator"), owner=CSCTL, available=1)
AWAY = replace(WANTED, key=ObjectKey("away", "cluster-stack-operator"), owner=CSCTL_AWAY)
SECOND = replace(WANTED, key=ObjectKey(HOME, "kaas"), owner=HELM_HOME)
GO = OperatorDeployment(
    key=ObjectKey("cso-system", "cso"), owner=Installation(Program.HELM, "cso-system", "cso"), is_go=True
)
CRD = ObjectId("apiextensions.k8s.io", "CustomResourceDefinition", "", "clusterstacks.clusterstack.x-k8s.io")


def marked(owner: Installation, kind: str = "ClusterRole", subject: str = "", **metadata: Any) -> Manifest:
    """Give an object of an installation, with a subject in a namespace."""
    labels, annotations = dict(metadata.pop("labels", {})), {}
    if owner.program is Program.HELM:
        annotations = {
            "meta.helm.sh/release-name": owner.release,
            "meta.helm.sh/release-namespace": owner.namespace,
        }
    elif owner.program is Program.CLUSTERCTL:
        labels["clusterctl.cluster.x-k8s.io"] = ""
    elif owner.program is Program.CSCTL:
        labels["clusterstack.x-k8s.io/installation"] = owner.namespace
    subjects = {"subjects": [{"kind": "ServiceAccount", "name": "operator", "namespace": subject}]} if subject else {}
    metadata = {"name": "cluster-stack-operator", "labels": labels, "annotations": annotations, **metadata}
    return {"kind": kind, "metadata": metadata, **subjects}


@pytest.mark.parametrize("owner", [CSCTL, HELM, CLUSTERCTL, PLAIN])
def test_marks_of_an_object_show_its_installation(owner: Installation) -> None:
    assert owner_of(marked(owner, namespace=owner.namespace)) == owner


def test_clusterctl_and_helm_count_before_the_label_that_a_copy_of_install_yaml_has() -> None:
    copied = {"clusterstack.x-k8s.io/installation": HOME}
    for owner in (HELM, CLUSTERCTL):
        assert owner_of(marked(owner, labels=copied, namespace=owner.namespace)) == owner


@pytest.mark.parametrize(
    ("arguments", "labels", "is_go"),
    [
        (["--cache-dir=/var/cache"], {"app.kubernetes.io/name": "cluster-stack-operator"}, False),
        (["--cache-dir=/var/cache"], {"cluster.x-k8s.io/provider": "cluster-stack-operator"}, False),
        (["-source", "oci"], {"cluster.x-k8s.io/provider": "cluster-stack-operator"}, True),
    ],
)
def test_taken_over_deployment_is_not_a_go_operator(arguments: list[str], labels: dict[str, str], is_go: bool) -> None:  # noqa: FBT001 - a table
    pod = {"spec": {"containers": [{"args": arguments}]}}
    deployment = {"metadata": {"name": "a", "namespace": "b", "labels": labels}, "spec": {"template": pod}}
    assert operator_of(deployment).is_go == is_go


def test_a_deployment_shows_what_it_watches_and_its_replicas() -> None:
    arguments = ["--cache-dir=/a", "--namespace=team-a", "--watch-filter=mine", "--leader-elect"]
    deployment = {
        "metadata": {"name": "a", "namespace": "b"},
        "spec": {"replicas": 3, "template": {"spec": {"containers": [{"args": arguments}]}}},
        "status": {"availableReplicas": 2},
    }
    found = operator_of(deployment)
    assert (found.watched, found.watch_filter, found.desired, found.available) == ("team-a", "mine", 3, 2)


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ({}, {}, True),
        ({"watched": "a"}, {}, True),
        ({"watched": "a"}, {"watched": "a"}, True),
        ({"watched": "a"}, {"watched": "b"}, False),
        ({"watch_filter": "a"}, {"watch_filter": "b"}, False),
        ({"watched": "a", "watch_filter": "c"}, {"watched": "a", "watch_filter": "d"}, False),
    ],
)
def test_operators_share_objects_unless_namespace_or_filter_differ(
    one: dict[str, Any], other: dict[str, Any], *, shared: bool
) -> None:
    assert replace(WANTED, **one).shares_objects_with(replace(AWAY, **other)) == shared
    assert replace(AWAY, **other).shares_objects_with(replace(WANTED, **one)) == shared


@pytest.mark.parametrize(
    ("installed", "wanted", "words"),
    [
        ({}, WANTED, ()),
        ({"operators": (WANTED,)}, WANTED, ()),
        ({"operators": (replace(WANTED, owner=HELM_HOME),), "rights": (marked(HELM_HOME),)}, WANTED, ()),
        ({"operators": (GO,)}, WANTED, ()),
        ({"operators": (AWAY,)}, WANTED, ("Deployment away/cluster-stack-operator", "csctl uninstall -n away")),
        ({"operators": (replace(AWAY, desired=0),)}, WANTED, ()),
        ({"operators": (replace(AWAY, watched="a"),)}, replace(WANTED, watched="b"), ()),
        ({"operators": (replace(AWAY, owner=HELM),)}, WANTED, ("Helm release kaas", "helm upgrade kaas -n away")),
        ({"operators": (WANTED, SECOND)}, WANTED, ("home/kaas is a second operator", "helm uninstall kaas -n home")),
        ({"operators": (replace(SECOND, owner=PLAIN),)}, WANTED, ("second operator", "program that installed it")),
        ({"operators": (replace(SECOND, owner=CSCTL),)}, WANTED, ()),
        ({"operators": (replace(WANTED, owner=PLAIN),), "rights": (marked(PLAIN),)}, WANTED, ()),
        ({"rights": (marked(CSCTL, subject=HOME),)}, WANTED, ()),
        ({"rights": (marked(HELM),)}, WANTED, ("ClusterRole cluster-stack-operator", "helm uninstall kaas -n away")),
        ({"rights": (marked(CSCTL_AWAY),)}, WANTED, ("csctl uninstall -n away", "watchNamespace")),
        ({"rights": (marked(Installation(Program.OTHER), subject="away"),)}, WANTED, ("in namespace away",)),
        ({"rights": (marked(CSCTL, subject="away"),)}, WANTED, ("in namespace away",)),
        ({"deleting": (CRD,)}, WANTED, ("clusterstacks.clusterstack.x-k8s.io is being deleted",)),
    ],
)
def test_an_installation_does_not_take_what_another_one_uses(
    installed: dict[str, Any], wanted: OperatorDeployment, words: tuple[str, ...]
) -> None:
    conflicts = list(install_conflicts(Installed(namespace=HOME, **installed), wanted))
    assert bool(conflicts) == bool(words), conflicts
    assert all(word in "\n".join(conflicts) for word in words), conflicts


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        ((), ""),
        ((WANTED, AWAY), ""),
        ((replace(WANTED, owner=HELM_HOME),), "helm uninstall kaas -n home"),
        ((replace(WANTED, owner=CLUSTERCTL),), "clusterctl delete"),
        ((replace(WANTED, owner=PLAIN),), "the program that installed it"),
        ((replace(GO, key=ObjectKey(HOME, "cso")),), "is the Go operator of Helm release cso"),
    ],
)
def test_what_another_program_installed_is_not_removed(operators: tuple[OperatorDeployment, ...], words: str) -> None:
    conflicts = "\n".join(removal_conflicts(Installed(namespace=HOME, operators=operators)))
    assert bool(conflicts) == bool(words)
    assert words in conflicts


def objects(*kinds: str) -> UserObjects:
    return UserObjects(objects=tuple(ObjectId(GROUP, kind, HOME, "one") for kind in kinds))


BINDING_OF_SET = UserObjects(objects=(ObjectId(SYNC_GROUP, Kind.CLUSTER_RESOURCE_SYNC_BINDING, HOME, "crs.cni.prod"),))


@pytest.mark.parametrize(
    ("installed", "contents", "words"),
    [
        ({}, objects(), ""),
        ({"operators": (WANTED,)}, objects(Kind.CLUSTER_STACK, Kind.CLUSTER_STACK_RELEASE), ""),
        ({"operators": (WANTED, AWAY)}, objects(), "Deployment.apps away/cluster-stack-operator also uses"),
        ({"operators": (WANTED, replace(AWAY, desired=0))}, objects(), "also uses"),
        ({"operators": (GO,)}, objects(), "Deployment.apps cso-system/cso also uses"),
        ({"helm_releases": (ObjectKey("away", "kaas"),)}, objects(), "helm uninstall kaas -n away"),
        ({"operators": (WANTED,)}, objects(Kind.CLUSTER_ADDON), "1 Clusters still get addons"),
        ({"operators": (WANTED,)}, objects(Kind.COMPATIBILITY_RULE), "kubectl delete compatibilityrules"),
        ({"operators": (WANTED,)}, objects(Kind.CLUSTER_RESOURCE_SYNC), "kubectl delete crsync"),
        ({"operators": (WANTED,)}, BINDING_OF_SET, "kubectl annotate clusterresourceset --all"),
        ({}, objects(Kind.CLUSTER_STACK), "no operator is installed in namespace home"),
        ({"operators": (replace(WANTED, available=0),)}, objects(Kind.CLUSTER_STACK_RELEASE), "no replica"),
    ],
)
def test_definitions_are_kept_while_something_uses_them(
    installed: dict[str, Any], contents: UserObjects, words: str
) -> None:
    conflicts = "\n".join(definition_conflicts(Installed(namespace=HOME, **installed), contents))
    assert bool(conflicts) == bool(words), conflicts
    assert words in conflicts


CLUSTER = ObjectId("cluster.x-k8s.io", "Cluster", HOME, "one")


@pytest.mark.parametrize(
    ("contents", "options", "words"),
    [
        (objects(), {}, ""),
        (objects(), {"is_installed": False}, "kubectl delete namespace home"),
        (objects(Kind.CLUSTER_STACK), {}, "ClusterStack.clusterstack.x-k8s.io home/one"),
        (objects(Kind.CLUSTER_STACK), {"with_definitions": True}, ""),
        (UserObjects(clusters=(CLUSTER,)), {"with_definitions": True}, "Cluster.cluster.x-k8s.io home/one"),
        (UserObjects(objects=(ObjectId(GROUP, Kind.CLUSTER_STACK, "team-a", "one"),)), {}, ""),
    ],
)
def test_a_namespace_is_kept_unless_it_is_only_the_operators(
    contents: UserObjects, options: dict[str, bool], words: str
) -> None:
    chosen = {"is_installed": True, "with_definitions": False, **options}
    conflicts = "\n".join(namespace_conflicts(Installed(namespace=HOME), contents, **chosen))
    assert bool(conflicts) == bool(words), conflicts
    assert words in conflicts


@pytest.mark.parametrize(
    ("kept", "with_namespace", "words"),
    [
        (ObjectId("apps", "Deployment", HOME, "one"), False, "must stop before its rights are deleted"),
        (ObjectId("", "ConfigMap", HOME, "one"), False, ""),
        (ObjectId("", "ConfigMap", HOME, "one"), True, "ConfigMap home/one would be deleted"),
        (ObjectId("", "Namespace", "", HOME), True, "Namespace home would be deleted"),
        (ObjectId("rbac.authorization.k8s.io", "ClusterRole", "", HOME), True, ""),
        (ObjectId("rbac.authorization.k8s.io", "Role", "team-a", "one"), True, ""),
    ],
)
def test_an_object_that_is_kept_prevents_only_what_would_delete_or_break_it(
    kept: ObjectId, words: str, *, with_namespace: bool
) -> None:
    conflicts = "\n".join(kept_conflicts({kept: "its annotation says so"}, HOME, with_namespace=with_namespace))
    assert bool(conflicts) == bool(words)
    assert words in conflicts


@pytest.mark.regression("SEC-36")
@pytest.mark.parametrize(
    ("kind", "name", "namespace", "included"),
    [
        ("ClusterRoleBinding", "operator", "", True),
        ("Deployment", "operator", "ours", True),
        ("RoleBinding", "operator-secrets", "watched", True),
        ("RoleBinding", "of-a-tenant", "watched", False),
        ("Role", "of-a-tenant", "watched", False),
        ("Deployment", "operator-secrets", "watched", False),
        ("ServiceAccount", "operator-secrets", "watched", False),
    ],
)
def test_label_alone_makes_no_object_of_another_namespace_a_part_of_the_installation(
    kind: str, name: str, namespace: str, *, included: bool
) -> None:
    def labelled(kind: str, name: str, namespace: str) -> Manifest:
        return {
            "kind": kind,
            "metadata": {"name": name, "namespace": namespace, "labels": {INSTALLATION_LABEL: "ours"}},
        }

    cluster_role, found = labelled("ClusterRole", "operator-secrets", ""), labelled(kind, name, namespace)
    assert installation_objects([cluster_role, found], "ours") == [cluster_role, *([found] if included else [])]
