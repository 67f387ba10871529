"""The settings of a cluster's sweep as its ClusterStack and its annotation have them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.drift_settings import DriftMode, DriftSettings
from clusterstacks.model.kinds.clusterapi import cluster_view
from clusterstacks.operator.controllers.clusteraddon.sweep_settings import read_sweep_settings
from clusterstacks.runtime.cache import ObjectCache, key_of
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest

MINUTE = timedelta(minutes=1)
VERSION = "clusterstack.x-k8s.io/v1alpha1"
OWNER = {"apiVersion": VERSION, "kind": "ClusterStack", "name": "demo"}
RELEASE = {"metadata": {"name": "test-demo-1-35-v1", "namespace": "stacks", "ownerReferences": [OWNER]}}


def stack(drift: Any) -> Manifest:
    spec = {"provider": "test", "name": "demo", "kubernetesVersion": "1.35", "drift": drift}
    return {**OWNER, "metadata": {"name": "demo", "namespace": "stacks"}, "spec": spec}


def cluster(interval: str) -> Manifest:
    annotations = {"clusterstack.x-k8s.io/drift-interval": interval}
    metadata = {"name": "one", "namespace": "team", "annotations": annotations}
    return {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": metadata, "spec": {}}


async def settings(drift: Any, interval: str = "") -> DriftSettings:
    stacks = ObjectCache()
    stacks.put(key_of(stack(drift)), stack(drift))
    view = cluster_view(cluster(interval))
    return await read_sweep_settings(view, RELEASE, client=FakeApi(), stacks=stacks, default=MINUTE)


async def test_the_annotation_precedes_the_cluster_stack_and_that_the_default() -> None:
    assert (await settings({"mode": "Warn"})).interval == MINUTE
    assert (await settings({"interval": "5m"})).interval == 5 * MINUTE
    assert (await settings({"interval": "5m"}, "off")).interval is None


@pytest.mark.parametrize(
    ("drift", "interval", "complaint"),
    [
        ({"interval": "48h"}, "", "spec.drift.interval of the ClusterStack is not used: '48h' is not a valid interval"),
        ({}, "soon", "the annotation clusterstack.x-k8s.io/drift-interval is not used: 'soon' is not a valid interval"),
    ],
)
async def test_a_complaint_names_the_setting_that_is_not_used(drift: Any, interval: str, complaint: str) -> None:
    found = await settings(drift, interval)

    assert found.complaint.startswith(complaint)
    assert (found.interval, found.mode) == (MINUTE, DriftMode.CORRECT)


async def test_nothing_is_corrected_while_the_cluster_stack_cannot_be_read() -> None:
    found = await settings({"mode": "Report"})

    assert found.mode is DriftMode.WARN
    assert "nothing is corrected" in found.complaint
    assert "mode" in found.complaint
