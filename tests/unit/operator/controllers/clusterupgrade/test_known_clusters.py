"""What the status of an upgrade and a Cluster itself say about it before it is looked at."""

from __future__ import annotations

import pytest

from clusterstacks.model.kinds.clusterapi import ClusterView, cluster_view
from clusterstacks.model.kinds.clusterupgrade import ClusterUpgrade
from clusterstacks.model.kinds.names import API_VERSION, ClusterPhase, Kind
from clusterstacks.operator.controllers.clusterupgrade.reconciler import state_of
from clusterstacks.operator.controllers.clusterupgrade.schedule import KnownCluster
from tests.support.builders.manifests import named

TARGET = "p-s-1-35-v1"
ENTRY = {"name": "one", "uid": "1", "phase": "Done", "target": TARGET, "step": "2/2"}


def upgrade(**entry: str) -> ClusterUpgrade:
    spec = {"clusters": {"names": ["one"]}, "to": TARGET}
    status = {"target": TARGET, "clusters": [{**ENTRY, **entry}]}
    manifest = named(API_VERSION, Kind.CLUSTER_UPGRADE, "up", "team", spec=spec, status=status)
    manifest["metadata"]["uid"] = "u"
    return ClusterUpgrade.parse(manifest)


def cluster(uid: str = "1") -> ClusterView:
    return cluster_view({"metadata": {"name": "one", "namespace": "team", "uid": uid}, "spec": {}})


@pytest.mark.parametrize(
    ("entry", "view", "phase"),
    [
        ({}, cluster(), ClusterPhase.DONE),
        ({"target": "p-s-1-35-v0"}, cluster(), ClusterPhase.WAITING),
        ({"phase": "Failed"}, cluster(), ClusterPhase.FAILED),
        ({"phase": "Resting"}, cluster(), ClusterPhase.WAITING),
        ({}, cluster("2"), ClusterPhase.WAITING),
        ({"phase": "Running"}, cluster("2"), ClusterPhase.WAITING),
        ({"uid": "", "phase": "Blocked"}, cluster("2"), ClusterPhase.WAITING),
        ({}, None, ClusterPhase.WAITING),
    ],
)
def test_a_cluster_keeps_its_state_but_another_of_its_name_begins_anew(
    entry: dict[str, str], view: ClusterView | None, phase: ClusterPhase
) -> None:
    expected = KnownCluster("one", phase, uid=view.uid if view is not None else "", target=TARGET)
    assert state_of(upgrade(**entry), "one", view, TARGET, "") == expected
