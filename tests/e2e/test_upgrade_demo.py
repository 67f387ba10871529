"""``csctl demo --upgrade`` as its users type it: two upgrades of Kubernetes that wait for a stage, with two workers."""

from __future__ import annotations

import re

import pytest

from tests.support.running.csctl import demo_output


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the demo prints."""
    return demo_output(tmp_path_factory.mktemp("states"), "--upgrade")


def test_each_upgrade_is_held_with_its_cause_and_the_command_that_releases_it(told: str) -> None:
    held = re.findall(
        r"^Held: Cluster API waits since \S+ with the upgrade of Cluster default/upgraded to (\S+), until the stages "
        r"of BeforeClusterUpgrade are complete: (.+); to release it by hand, run '(.+)'$",
        told,
        re.MULTILINE,
    )
    command = (
        "kubectl annotate clusters.cluster.x-k8s.io upgraded -n default "
        "before-upgrade.hook.cluster.cluster.x-k8s.io/cluster-stacks-"
    )
    missing = "waits for ConfigMap kube-system/backup-report, which does not exist"
    older = "waits until this holds: report.data.version == request.data.version"
    assert held == [
        ("v1.35.4", f"stage backup of local-upgrade-1-35-v1 {missing}", command),
        ("v1.36.3", f"stage backup of local-upgrade-1-36-v1 {older}", command),
    ]


def test_then_the_cluster_and_its_workers_arrive_at_the_second_minor(told: str) -> None:
    assert "The cluster went from v1.34.2 to v1.35.4 to v1.36.3, and serves v1.36. Its nodes:" in told
    assert re.findall(r"^  upgraded-pool-\S+  (\S+)$", told, re.MULTILINE) == ["v1.36.3", "v1.36.3"]
    (times,) = re.findall(r"^Time: (.+)$", told, re.MULTILINE)
    assert re.findall(r"(?:^|, )(\D[^,]*?) [\d.]+ s", times)[-4:] == [
        "v1.36.3 held",
        "control plane v1.36.3",
        "workers v1.36.3",
        "addons v1.36.3",
    ]
