"""Removals that are interrupted and run again."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clusterstacks.csctl.install.installations import INSTALLATION_LABEL
from clusterstacks.csctl.install.removal import plan_removal, remove
from clusterstacks.model.errors import DependencyError
from clusterstacks.model.kinds.names import UPGRADE_HOLD_ANNOTATION, WATCH_FILTER_LABEL
from clusterstacks.model.objects import Manifest, ObjectKey
from clusterstacks.net.kube.resources import Resource
from tests.support.fakes.api_server import FakeApi

CLUSTERS = Resource("cluster.x-k8s.io", "v1beta2", "Cluster", "clusters", namespaced=True)
DEPLOYMENTS = Resource("apps", "v1", "Deployment", "deployments", namespaced=True)
PODS = Resource("", "v1", "Pod", "pods", namespaced=True)
ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts", namespaced=True)
OTHERS = (
    Resource("", "v1", "Secret", "secrets", namespaced=True),
    Resource("", "v1", "Namespace", "namespaces", namespaced=False),
    Resource("coordination.k8s.io", "v1", "Lease", "leases", namespaced=True),
    Resource(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        namespaced=False,
    ),
    Resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", namespaced=False),
)


def named(resource: Resource, key: ObjectKey, *, labels: dict[str, str] | None = None, **content: Any) -> Manifest:
    metadata = {"name": key.name, "namespace": key.namespace, "labels": labels or {}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


async def half_removed() -> FakeApi:
    """Return a cluster whose removal was interrupted after the Deployment, with the operator of another team."""
    api = FakeApi(CLUSTERS, DEPLOYMENTS, PODS, ACCOUNTS, *OTHERS)
    ours = {INSTALLATION_LABEL: "ours"}
    await api.create(ACCOUNTS, named(ACCOUNTS, ObjectKey("ours", "operator"), labels=ours))
    containers = [{"name": "manager", "args": ["--cache-dir=/cache", "--watch-filter=theirs"]}]
    spec = {"template": {"spec": {"containers": containers}}}
    await api.create(DEPLOYMENTS, named(DEPLOYMENTS, ObjectKey("theirs", "operator"), spec=spec))
    for name, watch_filter in (("one", "ours"), ("two", "theirs")):
        cluster = named(CLUSTERS, ObjectKey("team", name), labels={WATCH_FILTER_LABEL: watch_filter})
        cluster["metadata"]["annotations"] = {UPGRADE_HOLD_ANNOTATION: ""}
        await api.create(CLUSTERS, cluster)
    return api


def held(api: FakeApi) -> set[str]:
    clusters = api.objects(CLUSTERS).values()
    return {one["metadata"]["name"] for one in clusters if UPGRADE_HOLD_ANNOTATION in one["metadata"]["annotations"]}


async def test_a_removal_that_was_interrupted_does_not_release_the_clusters_of_another_operator() -> None:
    api = await half_removed()

    plan = await plan_removal(api, "ours", with_definitions=False, with_namespace=False)
    await remove(api, plan, timedelta(minutes=1), print)

    assert plan.held == (ObjectKey("team", "one"),)
    assert held(api) == {"two"}


async def test_a_removal_that_was_interrupted_releases_nothing_while_a_pod_of_the_operator_runs() -> None:
    api = await half_removed()
    await api.create(PODS, named(PODS, ObjectKey("ours", "operator-abc")))

    plan = await plan_removal(api, "ours", with_definitions=False, with_namespace=False)
    with pytest.raises(DependencyError, match="pods of the operator do not stop: operator-abc"):
        await remove(api, plan, timedelta(0), print)

    assert held(api) == {"one", "two"}
    assert api.objects(ACCOUNTS), "its rights are kept until it stops"
