"""``clusterctl move`` between two live management clusters: nothing is rendered, written or lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
import yaml

from clusterstacks.csctl.building.release_builder import build_release
from clusterstacks.dev import process_records
from clusterstacks.dev.binaries import resolve
from clusterstacks.dev.demo.scenario import stacks
from clusterstacks.dev.provider import kinds
from clusterstacks.model.kinds.clusterresourcesync import SYNC_API_VERSION, binding_name
from clusterstacks.model.kinds.names import RECONCILE_ANNOTATION, Kind
from tests.support.builders.e2e_objects import cluster, namespace, stack
from tests.support.builders.manifests import config_map, named
from tests.support.observing.request_audit import RequestAudit
from tests.support.running.doc_pages import Page, environ_of_reader
from tests.support.running.kubectl import Kubectl
from tests.support.running.local_environment import AUDIT_LOG, local_environment
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from clusterstacks.model.objects import Manifest
    from tests.support.observing.request_audit import AuditedRequest
    from tests.support.running.local_environment import Local

pytestmark = pytest.mark.timeout(1800)
HOME = "moving"
ADDON, BINDING = "clusteraddon/cluster-addon-prod", f"clusterresourcesyncbinding/{binding_name('extra', 'prod')}"
OURS = ",".join(f"{kind.lower()}s.{kind.group}" for kind in Kind if kind is not Kind.COMPATIBILITY_RULE)
MOVED = f"clusters,clusterclasses,machinedeployments,{OURS}"
LOCAL = ",".join(f"{kind.lower()}s.{kinds.GROUP}" for kind in (kinds.CLUSTER, kinds.CONTROL_PLANE))
SERVERS = ("kube-apiserver", "local-cluster-api-provider")
WAIT = "--timeout=300s"
RANDOM = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: random, namespace: kube-system}
data: {token: {{ randAlphaNum 20 }}}
"""
"""A template that is different at each render: an addon that is rendered again is written again."""


@dataclass(frozen=True, slots=True)
class Side:
    """A management cluster, and its provider, which stands still during a move: it would end its API servers."""

    local: Local
    kubectl: Kubectl
    audit: RequestAudit

    @classmethod
    def of(cls, local: Local) -> Side:
        return cls(local, Kubectl(local.state.kubeconfig, HOME), RequestAudit(local.state.management / AUDIT_LOG))

    def signal_provider(self, number: signal.Signals) -> None:
        (provider,) = [one for one in process_records.read_all(self.local.state.records) if one.name == "provider"]
        os.kill(provider.pid, number)

    def statuses(self) -> list[Manifest]:
        """Return the objects of the provider, whose status clusterctl does not move."""
        found: list[Manifest] = self.kubectl.get(LOCAL)["items"]
        return found

    def report(self, statuses: Sequence[Manifest]) -> None:
        """Write what a provider that runs here would write of infrastructure that exists."""
        for one in statuses:
            kind = f"{one['kind'].lower()}s.{kinds.GROUP}"
            patch = json.dumps({"status": one["status"]})
            self.kubectl("patch", kind, one["metadata"]["name"], "--subresource=status", "--type=merge", f"-p={patch}")

    def objects(self) -> dict[str, Manifest]:
        """Return the spec of every moved object."""
        items = self.kubectl.get(MOVED)["items"]
        return {f"{one['kind']} {one['metadata']['name']}": one.get("spec", {}) for one in items}

    def writes_of_operator(self) -> list[str]:
        """Return the writes of the operator to this management cluster since the last call."""
        found = [one for one in writes(self.audit) if one.agent == "cluster-stack-operator" and not one.is_lease]
        return [f"{one} {one.name}" for one in found]


def writes(audit: RequestAudit) -> list[AuditedRequest]:
    return [one for one in audit.since_last() if one.is_write and not one.dry_run]


@contextmanager
def sides(local: Local, scratch: Path) -> Iterator[tuple[Side, Side]]:
    """Run a second environment beside the first; both have the kinds as 'clusterctl init' installs them."""
    with local_environment(scratch) as second:
        releases = scratch / "releases-of-both"
        releases.mkdir()
        found = Side.of(replace(local, releases=releases)), Side.of(replace(second, releases=releases))
        for side in found:
            side.kubectl("label", "crd", "--all", "--overwrite", "clusterctl.cluster.x-k8s.io=")
        try:
            yield found
        finally:
            for side in found:
                side.signal_provider(signal.SIGCONT)


def create_everything(side: Side, class_name: str) -> None:
    """Create a Cluster and an object of each of our kinds that belong to a namespace."""
    side.kubectl("create", "-f-", manifest=namespace(HOME))
    source = config_map("extra", HOME, objects=yaml.safe_dump(config_map("extra", "kube-system", a="b")))
    source["metadata"]["labels"] = {"clusterctl.cluster.x-k8s.io/move": ""}
    resources = [{"kind": "ConfigMap", "name": "extra"}]
    sync = {"clusterSelector": {"matchLabels": {"stage": "prod"}}, "resources": resources}
    upgrade = {"clusters": {"names": ["prod"]}, "to": class_name}
    target = cluster(HOME, "prod", class_name)
    target["metadata"]["labels"] = {"stage": "prod"}
    for one in (
        stack(HOME, versions=["v1"]),
        source,
        named(SYNC_API_VERSION, Kind.CLUSTER_RESOURCE_SYNC, "extra", HOME, spec=sync),
        target,
    ):
        side.kubectl("create", "-f-", manifest=one)
    side.kubectl("wait", "--for=create", WAIT, ADDON)
    ready(side)
    side.kubectl(
        "create", "-f-", manifest=named("clusterstack.x-k8s.io/v1alpha1", "ClusterUpgrade", "u", HOME, spec=upgrade)
    )
    side.kubectl("wait", "--for=jsonpath={.status.phase}=Done", WAIT, "clusterupgrade/u")


def ready(side: Side) -> None:
    for one in (ADDON, BINDING, "cluster/prod"):
        condition = "Available" if one == "cluster/prod" else "Ready"
        side.kubectl("wait", f"--for=condition={condition}", WAIT, one)


async def compare_everything(side: Side, word: str) -> None:
    """Have all objects compared by dry runs, as a user does, and wait until the operator has done so."""
    side.kubectl("annotate", "--overwrite", "cluster/prod", f"{RECONCILE_ANNOTATION}={word}")

    async def compared() -> bool:
        handled = [side.kubectl.get(one)["status"].get("lastHandledReconcileAt") for one in (ADDON, BINDING)]
        assert handled == [word, word]
        return True

    await eventually(compared, seconds=300, about=f"the comparison {word}")


def move(page: Page, source: Side, target: Side, scratch: Path) -> str:
    """Move as the page says, with the provider of both sides standing still; return what the last command printed."""
    for name, side in (("source", source), ("target", target)):
        shutil.copy(side.local.state.kubeconfig, scratch / f"{name}.kubeconfig")
    environ = environ_of_reader(source.local.state.kubeconfig)
    environ |= {"CLUSTERCTL_DISABLE_VERSIONCHECK": "true", "GOPROXY": "off", "XDG_CONFIG_HOME": str(scratch)}
    (scratch / "bin").mkdir(exist_ok=True)
    if not (program := scratch / "bin" / "clusterctl").exists():
        program.symlink_to(resolve(["clusterctl"])["clusterctl"].path)
    environ["PATH"] = os.pathsep.join((str(program.parent), environ["PATH"]))
    statuses = source.statuses()
    for side in (source, target):
        side.signal_provider(signal.SIGSTOP)
    moving, looking = page.blocks
    create, go, wait = moving.commands.splitlines(keepends=True)
    page.part([replace(moving, commands=create + go)]).run(scratch, environ, seconds=900)
    target.report(statuses)
    *_, history = page.part([replace(moving, commands=wait), looking]).run(scratch, environ, seconds=900)
    ready(target)
    return history


async def test_a_cluster_moves_there_and_back_and_nothing_is_written_to_it(
    local: Local, tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    changes = tmp_path / "changes"
    (changes / "cluster-addon" / "metrics" / "templates").mkdir(parents=True)
    (changes / "cluster-addon" / "metrics" / "templates" / "random.yaml").write_text(RANDOM)
    page = Page.read("how-to/bootstrap-and-pivot.md", {"team-a": HOME})
    with (
        sides(local, tmp_path_factory.mktemp("second")) as (first, second),
        first.local.operator(HOME),
        second.local.operator(HOME),
    ):
        versions = dict.fromkeys(("cluster_stack", "cluster_addon", "node_image"), "v1")
        release = build_release(stacks() / "demo/1-35", first.local.releases, changes=changes, **versions)
        create_everything(first, release.class_name)
        await compare_everything(first, "before")
        expected = first.objects()
        assert {kind.partition(" ")[0] for kind in expected} >= {*Kind} - {Kind.COMPATIBILITY_RULE}
        workload = RequestAudit(local.state.cluster_kubeconfig(HOME, "prod").parent / AUDIT_LOG)
        workload.since_last()

        for source, target, word in ((first, second, "there"), (second, first, "back")):
            history = move(page, source, target, tmp_path)
            during = source.writes_of_operator()
            await compare_everything(target, word)

            assert ADDON.removeprefix("clusteraddon/cluster-addon-") in history
            assert "metrics" in history
            assert target.objects() == expected
            assert not source.objects(), f"{word}: {[*source.objects()]} are left, or were made again: {during}"
            assert source.writes_of_operator() == []
            written = [one for one in writes(workload) if not (one.agent.startswith(SERVERS) or one.is_lease)]
            assert not written, f"{word}: {[f'{one} {one.name} by {one.agent}' for one in written]}"
        first.signal_provider(signal.SIGCONT)
        first.kubectl("delete", "cluster", "prod", WAIT)
