from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from clusterstacks.model.kinds.names import UPGRADE_HOLD_ANNOTATION
from clusterstacks.model.objects import ObjectKey
from clusterstacks.operator.controllers.clusteraddon.hold_review import HoldReview, recorded_target
from clusterstacks.operator.controllers.clusteraddon.rollout_plan import Target
from clusterstacks.operator.controllers.clusteraddon.snapshot import ContractKinds, read_snapshot
from tests.support.fakes.api_server import FakeApi
from tests.unit.operator.controllers.clusteraddon.test_snapshot import CLUSTERS, RELEASES

if TYPE_CHECKING:
    from clusterstacks.operator.controllers.status_reconciler import StatusPatch

OLD, NEW = "v1.35.4", "v1.36.1"


@pytest.mark.parametrize(
    ("status", "control_plane", "recorded"),
    [
        ({"deliveredKubernetesVersion": OLD, "observedKubernetesVersion": NEW}, [NEW], OLD),
        ({"observedKubernetesVersion": OLD}, [NEW], OLD),
        ({"observedKubernetesVersion": NEW}, [NEW], NEW),
        ({"observedKubernetesVersion": "v1.36.1+k3s1"}, [NEW], NEW),
        # of the Go operator
        ({"ready": True}, [OLD], OLD),
        ({"ready": True}, [NEW, OLD], OLD),
        ({"ready": True}, ["v1.36.1+k3s1"], NEW),
        ({"ready": True}, [], NEW),
    ],
)
async def test_version_whose_addons_the_cluster_has(
    status: dict[str, Any], control_plane: list[str], recorded: str
) -> None:
    api = FakeApi(CLUSTERS, RELEASES)
    cluster = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team"},
        "spec": {"topology": {"classRef": {"name": "local-demo-1-36-v1"}, "version": NEW}},
        "status": {"controlPlane": {"versions": [{"version": version} for version in control_plane]}},
    }
    await api.create(CLUSTERS, cluster)
    snapshot = await read_snapshot(api, ObjectKey("team", "one"), ContractKinds(api))
    assert snapshot is not None
    addon = {"spec": {"clusterStack": "local-demo-1-36-v1"}, "status": status}
    patch = cast("StatusPatch", SimpleNamespace(manifest=addon, status=status))

    assert recorded_target(patch, snapshot) == Target("local-demo-1-36-v1", recorded)


@pytest.mark.parametrize("state", ["Held", "Released", "Absent", "NotHonoured"])
async def test_a_hold_is_described_while_the_note_is_about_the_upgrade_before(state: str) -> None:
    """The annotation is set again once an upgrade has begun; nothing updates its note while an addon is paused."""
    api = FakeApi(CLUSTERS, RELEASES)
    cluster = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {"name": "one", "namespace": "team", "annotations": {UPGRADE_HOLD_ANNOTATION: ""}},
        "spec": {"topology": {"classRef": {"name": "local-demo-1-36-v1"}, "version": "v1.36.2"}},
        "status": {"controlPlane": {"versions": [{"version": NEW}]}},
    }
    await api.create(CLUSTERS, cluster)
    snapshot = await read_snapshot(api, ObjectKey("team", "one"), ContractKinds(api))
    assert snapshot is not None
    note = {"class": "local-demo-1-36-v1", "version": NEW, "state": state, "since": "2026-05-06T07:00:00Z"}
    patch = cast("StatusPatch", SimpleNamespace(manifest={}, status={"upgradeHold": note}))
    parts: Any = dict.fromkeys(("client", "stacks", "cached_reads", "clock", "metrics"))

    described = HoldReview(**parts).describe(patch, snapshot)

    assert described.startswith("the operator holds the upgrade to v1.36.2 until the stages")
