"""What is read to decide whether a Cluster may use a release."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.clusterapi import ClusterView, cluster_view
from clusterstacks.model.kinds.names import API_VERSION, Kind
from clusterstacks.model.names import parse_release
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.model.versions import StackVersion
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.class_offer import OfferState
from tests.support.builders.class_access import CLASSES, READ, RELEASES, STACKS, class_access
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.model.names import ReleaseName

NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NAME = "openstack-scs-1-35-v1"
V1, V2 = parse_release(NAME), parse_release("openstack-scs-1-35-v2")
GOLD = {"from": "Selector", "selector": {"matchLabels": {"tier": "gold"}}}
OFFERED, PENDING, REFUSED = OfferState.OFFERED, OfferState.PENDING, OfferState.REFUSED


def stack(key: str = "scs", **spec: Any) -> Manifest:
    series = {"provider": "openstack", "name": "scs", "kubernetesVersion": "1.35", "autoSubscribe": False}
    metadata = {"name": key, "namespace": "stacks"}
    return {"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK, "metadata": metadata, "spec": {**series, **spec}}


def release(*owners: str) -> Manifest:
    references = [{"apiVersion": API_VERSION, "kind": Kind.CLUSTER_STACK.value, "name": one} for one in owners]
    return {"metadata": {"name": NAME, "namespace": "stacks", "ownerReferences": references}}


def cluster(namespace: str = "team", uid: str = "u1", **annotations: str) -> ClusterView:
    metadata = {"name": "one", "namespace": namespace, "uid": uid, "annotations": annotations}
    return cluster_view(
        {"metadata": metadata, "spec": {"topology": {"classRef": {"name": NAME, "namespace": "stacks"}}}}
    )


def addon(**admitted: str) -> Manifest:
    """The ClusterAddon of the Cluster; its spec is what a user may write."""
    return {
        "metadata": {"name": "cluster-addon-one", "namespace": "team"},
        "spec": {"clusterStack": NAME, "addons": [{"name": "cni", "release": NAME}]},
        "status": {"admitted": admitted} if admitted else {},
    }


def api() -> FakeApi:
    return FakeApi(NAMESPACES, *READ)


@pytest.mark.regression("U-26")
@pytest.mark.parametrize(
    ("typed", "spec", "similar"),
    [
        ("openstack-szs-1-35-v1", {"versions": ["v1"]}, [NAME]),
        ("openstack-scs-1-53-v1", {"versions": ["v1"]}, [NAME]),
        ("opnstack-scs-1-35-v1", {"versions": ["v1"]}, [NAME]),
        ("docker-kind-1-35-v1", {"versions": ["v1"]}, []),
        # Users are not told the names of classes that they may not use.
        ("opnstack-scs-1-35-v1", {"versions": ["v1"], "clusterNamespaces": {"from": "Same"}}, []),
    ],
)
async def test_u_26_a_misspelt_class_names_the_similar_ones_that_are_offered(
    typed: str, spec: Manifest, similar: list[str]
) -> None:
    access = class_access(api(), stacks=[stack(**spec)], releases=[release("scs")])

    decision = await access.decide(cluster(), [parse_release(typed)])

    assert decision.state is PENDING
    assert await access.similar(cluster(), parse_release(typed)) == similar
    assert (f"did you mean {NAME}?" in decision.message) is bool(similar)


@pytest.mark.regression("SEC-28")
@pytest.mark.parametrize(
    ("spec", "state"),
    [
        ({"versions": ["v1"]}, OFFERED),
        ({"versions": ["v2"]}, REFUSED),
        ({"versions": []}, REFUSED),
        ({"versions": ["v1"], "clusterNamespaces": {"from": "Same"}}, REFUSED),
        ({"versions": ["v1"], "clusterNamespaces": {"from": "Unheard-of"}}, REFUSED),
        ({"versions": ["v1"], "kubernetesVersion": "1.36"}, PENDING),
        ({"versions": ["v1"], "provider": "docker"}, PENDING),
        ({"versions": ["v1"], "name": "other"}, PENDING),
    ],
)
async def test_versions_of_a_stack_of_the_series_are_offered(spec: Manifest, state: OfferState) -> None:
    access = class_access(api(), stacks=[stack(**spec)])

    assert (await access.decide(cluster(), [V1])).state is state


@pytest.mark.regression("SEC-28")
@pytest.mark.parametrize(
    ("subscribes", "listed", "state"),
    [
        (True, [NAME, "unrelated"], OFFERED),
        (True, [V2.release], REFUSED),
        (True, None, PENDING),
        (False, [NAME], REFUSED),
        (False, None, REFUSED),
    ],
)
async def test_releases_of_the_source_are_offered_by_a_stack_that_subscribes(
    *, subscribes: bool, listed: list[str] | None, state: OfferState
) -> None:
    access = class_access(api(), stacks=[stack(autoSubscribe=subscribes)], listed=listed)

    assert (await access.decide(cluster(), [V1])).state is state


@pytest.mark.parametrize(
    ("owners", "stacks", "state"),
    [
        (["scs"], [stack()], OFFERED),
        (["other"], [stack(), stack("other", clusterNamespaces={"from": "Same"})], REFUSED),
        ([], [stack()], OFFERED),
        ([], [stack(clusterNamespaces={"from": "Same"})], REFUSED),
        ([], [], OFFERED),
        (["gone"], [], PENDING),
    ],
)
async def test_existing_release_is_offered_by_its_stack_or_if_it_has_none(
    owners: list[str], stacks: list[Manifest], state: OfferState
) -> None:
    server = api()
    await server.create(CLASSES, {"metadata": {"name": NAME, "namespace": "stacks"}})
    access = class_access(server, stacks=stacks, releases=[release(*owners)])

    assert (await access.decide(cluster(), [V1])).state is state


async def test_release_and_stack_of_an_unwatched_namespace_are_read_from_the_server() -> None:
    server = api()
    await server.create(RELEASES, release("scs"))
    await server.create(STACKS, stack())

    assert (await class_access(server).decide(cluster(), [V1])).state is OFFERED


@pytest.mark.parametrize(
    ("metadata", "spec", "state"),
    [
        ({}, {}, OFFERED),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}, {}, REFUSED),
        ({}, {"clusterNamespaces": {"from": "Same"}}, REFUSED),
    ],
)
async def test_class_that_clusterctl_moved_before_its_release_is_offered(
    metadata: Manifest, spec: Manifest, state: OfferState
) -> None:
    server = api()
    await server.create(CLASSES, {"metadata": {"name": NAME, "namespace": "stacks", **metadata}})
    access = class_access(server, stacks=[stack(versions=["v2"], **spec)])

    assert (await access.decide(cluster(), [V1])).state is state


@pytest.mark.regression("SEC-28")
@pytest.mark.parametrize(
    ("admitted", "has"),
    [
        ({"class": NAME, "classNamespace": "stacks", "clusterUid": "u1"}, True),
        ({"class": NAME, "classNamespace": "stacks"}, True),  # written by an earlier version
        ({"class": NAME, "classNamespace": "stacks", "clusterUid": "u0"}, False),
        ({"class": NAME, "classNamespace": "team", "clusterUid": "u1"}, False),
        ({"class": V2.class_name, "classNamespace": "stacks", "clusterUid": "u1"}, False),
        ({}, False),
    ],
)
async def test_only_the_recorded_admission_of_this_cluster_proves_that_it_has_its_class(
    admitted: dict[str, str], *, has: bool
) -> None:
    access = class_access(api(), stacks=[stack(versions=["v2"])], addons=[addon(**admitted)])

    assert access.has_class(cluster()) is has
    assert (await access.decide(cluster(), [V1])).state is (OFFERED if has else REFUSED)
    assert (await access.decide(cluster(), [replace(V1, version=StackVersion.parse("v3"))])).state is REFUSED
    assert await access.counts(cluster(), V1) is has


@pytest.mark.regression("SEC-34")
async def test_cluster_without_an_offer_does_not_count_as_a_user() -> None:
    closed = class_access(api(), stacks=[stack(clusterNamespaces={"from": "Same"})], releases=[release("scs")])
    none = class_access(api())

    assert not await closed.counts(cluster(), V1)
    assert await closed.counts(cluster("stacks"), V1)
    assert not await none.counts(cluster(), V1)


@pytest.mark.regression("SEC-40")
@pytest.mark.parametrize(
    ("annotation", "delivered", "named", "counts"),
    [
        ("addon-release", [], V2, False),
        ("addon.cni", [], V2, False),
        ("addon.cni", ["openstack-scs-1-36-v1"], V2, False),
        ("addon.cni", [V2.release], V2, True),
        ("addon.cni", [], V1, True),
    ],
)
async def test_admitted_cluster_counts_for_the_releases_that_it_was_admitted_with(
    annotation: str, delivered: list[str], named: ReleaseName, *, counts: bool
) -> None:
    """A user may annotate an admitted Cluster, and write the spec of its ClusterAddon, but not the status."""
    admitted = addon(**{"class": NAME, "classNamespace": "stacks", "clusterUid": "u1"})
    admitted["spec"]["addons"] = [{"name": "cni", "release": V2.release}]
    admitted["status"]["addons"] = [{"name": "cni", "release": one} for one in delivered]
    closed = stack(clusterNamespaces={"from": "Same"}, versions=["v1", "v2"])
    access = class_access(api(), stacks=[closed], releases=[release("scs")], addons=[admitted])

    annotated = cluster(**{f"clusterstack.x-k8s.io/{annotation}": V2.release})
    assert await access.counts(annotated, named) is counts


@pytest.mark.regression("SEC-34")
async def test_unreadable_cluster_counts_if_it_was_admitted() -> None:
    access = class_access(api(), addons=[addon(**{"class": NAME, "classNamespace": "stacks"})])

    assert access.had_class(ObjectKey("team", "one"), ObjectKey("stacks", NAME))
    assert not access.had_class(ObjectKey("team", "two"), ObjectKey("stacks", NAME))
    assert not access.had_class(ObjectKey("team", "one"), ObjectKey("team", NAME))
    assert not access.had_class(ObjectKey("team", "one"), ObjectKey("stacks", "foreign"))


async def test_addons_of_another_release_need_their_own_offer() -> None:
    admitted = addon(**{"class": NAME, "classNamespace": "stacks"})
    access = class_access(api(), stacks=[stack()], addons=[admitted])

    decision = await access.decide(cluster(), [V1, V2])

    assert decision.state is REFUSED
    assert "release stacks/openstack-scs-1-35-v2, which an annotation names, is not offered" in decision.message


@pytest.mark.parametrize(
    ("namespace", "rule", "requests"),
    [
        ("team", None, 0),
        ("team", {"from": "All"}, 0),
        ("team", {"from": "Same"}, 0),
        ("stacks", GOLD, 0),
        ("team", GOLD, 1),
    ],
)
async def test_labels_of_a_namespace_are_read_only_for_a_selector(
    namespace: str, rule: Manifest | None, requests: int
) -> None:
    server = api()
    await server.create(NAMESPACES, {"metadata": {"name": "team", "labels": {"tier": "gold"}}})
    access = class_access(server, stacks=[stack(clusterNamespaces=rule)], releases=[release("scs")])

    state = (await access.decide(cluster(namespace), [V1])).state

    assert state is (REFUSED if rule == {"from": "Same"} else OFFERED)
    assert server.count("get") == requests


async def test_namespace_that_does_not_exist_has_no_labels() -> None:
    access = class_access(api(), stacks=[stack(clusterNamespaces=GOLD)], releases=[release("scs")])

    assert (await access.decide(cluster(), [V1])).state is REFUSED
