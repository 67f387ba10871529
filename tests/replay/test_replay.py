"""An upgrade of the operator writes nothing: this build runs on the state that each version in RELEASES left behind."""

from __future__ import annotations

import sys
from collections import Counter
from copy import deepcopy
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.kinds.names import READY_CONDITION, Kind
from tests.replay.expected_writes import AT_START, at_first_start, at_request, refuse_unexpected
from tests.support.running.replayed_operator import replay
from tests.support.running.world import condition_of
from tests.support.servers.recorded_clusters import MANAGEMENT, recorded_clusters
from tools.recordings import RELEASES, commits, recordings

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.etcd import Etcd
    from tests.support.running.replayed_operator import Replay
    from tests.support.servers.recorded_clusters import Objects, RecordedClusters

ALWAYS = (Kind.CLUSTER_STACK, Kind.CLUSTER_STACK_RELEASE, Kind.CLUSTER_ADDON)
"""Kinds that every recorded version has."""
VERSIONS = commits(RELEASES.read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_an_upgrade_from_an_earlier_version_writes_nothing_to_workload_clusters(
    etcd: Etcd, tmp_path: Path, version: str
) -> None:
    with recorded_clusters(etcd, recordings(version), tmp_path) as clusters:
        shown = replay(clusters, tmp_path)

    addons = [one for one in shown.objects if one["kind"] == Kind.CLUSTER_ADDON]
    further = at_first_start(version, addons, datetime.now(UTC).date())
    refuse_unexpected(version, shown.started, (*AT_START, *further))
    refuse_unexpected(version, shown.requested, at_request(shown.objects))
    every_object_was_reconciled_and_is_ready(shown)
    sys.stdout.write(summary(version, clusters, shown))


@pytest.mark.parametrize("version", VERSIONS)
def test_a_write_after_an_upgrade_is_named(etcd: Etcd, tmp_path: Path, version: str) -> None:
    with recorded_clusters(etcd, [recordings(version)[0]], tmp_path, with_other_variable) as clusters:
        shown = replay(clusters, tmp_path)

    record = "apply secrets kube-system/cluster-stack-addon-metrics in default/first"
    with pytest.raises(
        AssertionError, match=rf"the first:\n  {record}\n(.*\n)*  apply deployments kube-system/demo-metrics in"
    ):
        refuse_unexpected(version, shown.started, AT_START)
    status = r"patch cluster(addon)?s/status default/(cluster-addon-)?first \(status\..*\) in management"
    with pytest.raises(AssertionError, match=rf"the first:\n  {status}"):
        refuse_unexpected(version, {**shown.started, "default/first": ()}, AT_START)


def every_object_was_reconciled_and_is_ready(shown: Replay) -> None:
    for kind in Kind:
        objects = [one for one in shown.objects if one["kind"] == kind]
        if kind not in ALWAYS and not objects:
            continue
        assert objects
        assert {condition_of(one, READY_CONDITION)["status"] for one in objects} == {"True"}
        assert shown.reconciles[kind.lower(), "success"] >= len(objects)
    assert {result for (_, result), count in shown.reconciles.items() if count} <= {"success", "error"}


def summary(version: str, clusters: RecordedClusters, shown: Replay) -> str:
    """Return the numbers of objects and writes."""
    held = ", ".join(f"{one.name} {len(one.objects)}" for one in clusters.all)
    counts = {one.name: len(shown.started[one.name]) + len(shown.requested[one.name]) for one in clusters.all}
    kinds = Counter(one.kind for found in (shown.started, shown.requested) for one in found[MANAGEMENT])
    return (
        f"{version}: {sum(len(one.objects) for one in clusters.all)} objects held ({held}); "
        f"{sum(counts[one.name] for one in clusters.workloads)} writes to {len(clusters.workloads)} workload clusters; "
        f"{counts[MANAGEMENT]} expected writes to the management cluster "
        f"({', '.join(f'{kind} {count}' for kind, count in kinds.items())})\n"
    )


def with_other_variable(name: str, objects: Objects) -> Objects:
    """Change what the values of an addon are rendered from, as if this build read it in another way."""
    if name != MANAGEMENT:
        return objects
    changed = deepcopy(dict(objects))
    for variable in changed["/cluster.x-k8s.io/clusters/default/first"]["spec"]["topology"]["variables"]:
        if variable["name"] == "metricsResolution":
            variable["value"] = "30s"
    return changed
