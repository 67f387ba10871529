"""A management cluster with a real node: Helm, kubectl, images, and the operator's pods."""

from __future__ import annotations

import asyncio
import copy
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from clusterstacks.csctl.shared.registry_options import ServerTrust, open_registry
from clusterstacks.dev import installation, process_records
from clusterstacks.dev.provider.kinds import GROUP, TEMPLATES
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.oci.reference import Reference
from clusterstacks.net.pool import Pool
from tests.support.builders.manifests import crd
from tests.support.node import node_files
from tests.support.observing.write_counter import writes
from tests.support.running.doc_pages import VERSION
from tests.support.running.kubectl import Kubectl
from tools.image.pushing import Stored, push

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from clusterstacks.dev.binaries import Binary
    from clusterstacks.model.names import ReleaseName
    from clusterstacks.model.objects import Manifest
    from tests.support.node.environment import NodeEnvironment
    from tests.support.servers.registries import RegistryServer

ROOT = Path(__file__).parents[3]
CHART = ROOT / "charts" / "cluster-stack-operator"
NAME = "cluster-stack-operator"
NAMESPACE = "cluster-stack-system"
IMAGE_HOST = "registry.test"
"""Name of the registry in image references; containerd finds its address in a file of the node."""
FIRST, SECOND = VERSION, f"{VERSION.rpartition('.')[0]}.99"
"""Versions of the two builds; the second is a later patch version."""
LEASE = "clusterstack.x-k8s.io"
TIMEOUT_SECONDS = 300
"""Timeout of each wait, for a busy machine."""
POLL_SECONDS = 0.2
CLASS_KINDS = [{"kind": kind, "group": GROUP, "resource": f"{kind.lower()}s"} for kind in TEMPLATES]
FIGURES: dict[str, str] = {}
"""Figures that tests measured, by name; printed at the end."""


class NodeCluster:
    """The management cluster of an environment with a node.

    Args:
        environment: The environment with its node.
        registry: A registry that the node reaches.
        programs: Helm and clusterctl.
        root: Directory for files of the tests.
    """

    def __init__(
        self, environment: NodeEnvironment, registry: RegistryServer, programs: Mapping[str, Binary], root: Path
    ) -> None:
        self.environment = environment
        self.state = environment.state
        self.registry = registry
        self.programs = programs
        self.root = root
        self.kubectl = Kubectl(self.state.kubeconfig, "default", TIMEOUT_SECONDS)
        self._look_at(NAMESPACE, NAME)

    def with_operator(self, namespace: str, name: str) -> NodeCluster:
        """The same cluster with another operator: its namespace, and ``app.kubernetes.io/name`` of its pods."""
        found = copy.copy(self)
        found._look_at(namespace, name)
        return found

    def _look_at(self, namespace: str, name: str) -> None:
        self.namespace = namespace
        self.operator = Kubectl(self.state.kubeconfig, namespace, TIMEOUT_SECONDS)
        self._selector = f"--selector=app.kubernetes.io/name={name}"

    def serve_images_of(self, host: str) -> None:
        """Have the node pull the images of a host from the registry."""
        hosts = node_files.registries(self.state) / host / "hosts.toml"
        hosts.parent.mkdir()
        hosts.write_text(f'[host."{self.registry.url}"]\ncapabilities = ["pull", "resolve"]\n')

    def push_image(self, stored: Stored, version: str) -> None:
        """Push a build of the operator's image."""
        asyncio.run(_push(stored, Reference.parse(f"{self.registry.host}/{NAME}:{version}")))

    def helm(self, *arguments: str) -> str:
        """Run Helm, expect success and give what it printed."""
        done = subprocess.run(
            [self.programs["helm"].path, *arguments],
            env={**os.environ, "KUBECONFIG": str(self.state.kubeconfig), "HELM_CACHE_HOME": str(self.root / "helm")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.explain()}"
        return done.stdout

    def install(self, version: str, *more: str, **other_values: object) -> None:
        """Install the chart, or upgrade it, with a build of the image; return when all pods are ready."""
        values = self.root / "values.yaml"
        values.write_text(yaml.safe_dump({**self.values(version), **other_values}))
        arguments = ("upgrade", "--install", NAME, str(CHART), f"--namespace={NAMESPACE}", f"--values={values}")
        self.helm(*arguments, *more, "--wait", f"--timeout={TIMEOUT_SECONDS}s")

    def values(self, version: str) -> Manifest:
        """The values of an installation that uses the releases of the registry."""
        location = f"{self.registry.host}/stacks"
        return {
            "image": {"repository": f"{IMAGE_HOST}/{NAME}", "tag": version},
            "source": {"type": "oci", "location": location, "plainHTTP": True, "interval": "2s"},
            "secrets": {"namespaces": ["default"]},
            "rbac": {"classKinds": CLASS_KINDS},
        }

    def push_release(self, release: ReleaseName) -> None:
        """Push a release of the directory ``releases`` as its authors do."""
        csctl = Path(sys.executable).with_name("csctl")
        directory = self.root / "releases" / release.release
        command = (csctl, "push", directory, f"{self.registry.host}/stacks", "--plain-http")
        subprocess.run(command, check=True, capture_output=True)

    def await_release(self, release: ReleaseName) -> None:
        """Wait until the operator offers a release."""
        for condition in ("create", "jsonpath={.status.ready}=true"):
            wait = f"--timeout={TIMEOUT_SECONDS}s"
            self.kubectl("wait", f"--for={condition}", wait, f"clusterstackrelease/{release.release}")

    def await_addons(self, release: ReleaseName) -> None:
        """Wait until the cluster has the addons of a release."""

        def delivered() -> bool:
            found = self.kubectl.get("clusteraddons")["items"]
            return any(
                one["spec"].get("clusterStack") == release.class_name and one.get("status", {}).get("ready")
                for one in found
            )

        self.until(delivered, f"the delivery of {release}")

    def pods(self) -> list[Manifest]:
        """The operator's pods that are not being deleted."""
        found = self.operator.get("pods", self._selector)["items"]
        return [pod for pod in found if not pod["metadata"].get("deletionTimestamp")]

    def leader(self) -> str:
        """The identity in the Lease, which begins with the name of the leading pod."""
        lease = self.operator.get("lease", LEASE)
        return str(lease["spec"].get("holderIdentity", ""))

    def metric(self, pod: str, series: str) -> float:
        """A series of a pod, read through the API server; 0 when it does not exist yet."""
        done = self.operator.tried("get", "--raw", f"/api/v1/namespaces/{self.namespace}/pods/{pod}:8080/proxy/metrics")
        values = [line.rpartition(" ")[2] for line in done.stdout.splitlines() if line.startswith(f"{series} ")]
        return float(values[0]) if values else 0.0

    def await_leader(self, *not_pods: str) -> str:
        """Wait until a pod leads that is none of these, and give its name."""
        leading: list[str] = []

        def leads() -> bool:
            leading[:] = [self.leader().partition("_")[0]]
            return leading[0] not in {"", *not_pods}

        self.until(leads, f"a leader {f'other than {not_pods}' if not_pods else ''}")
        return leading[0]

    def await_reconciled_by_leader(self) -> None:
        """Wait until the present leader has reconciled every kind of ours once."""
        series = 'clusterstacks_reconcile_total{{controller="{}",result="success"}}'

        def done() -> bool:
            pod = self.leader().partition("_")[0]
            return bool(pod) and all(self.metric(pod, series.format(one)) for one in ("clusterstack", "clusteraddon"))

        self.until(done, "a reconcile of the leader")

    def until(self, reached: Callable[[], bool], about: str) -> None:
        """Wait for a condition; a request that fails and a field that is missing count as not yet."""
        end = time.monotonic() + TIMEOUT_SECONDS
        last = ""
        while True:
            try:
                if reached():
                    return
            except (AssertionError, LookupError, subprocess.SubprocessError) as error:
                last = repr(error)
            assert time.monotonic() < end, f"{about} did not happen; last error: {last}\n{self.explain()}"
            time.sleep(POLL_SECONDS)

    def explain(self) -> str:
        """Pods, events and logs of the operator, for a failed test."""
        commands: Sequence[Sequence[str]] = (
            ("get", "pods", "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp"),
            ("logs", self._selector, "--tail=30", "--prefix"),
        )
        return "\n".join(self.operator.tried(*command).stdout for command in commands)

    def workload_writes(self, cluster: str) -> Counter[str]:
        """The writes that the API server of a workload cluster has received, without its own."""
        return asyncio.run(_writes(self.state.cluster_kubeconfig("default", cluster)))

    def kill_operator(self, pod: Manifest) -> None:
        """Kill the first process of a pod's container with SIGKILL, from outside."""
        number = next(pid for pid in _processes(pod["metadata"]["uid"]) if NAME in _command(pid))
        os.kill(number, signal.SIGKILL)

    def memory(self, pod: Manifest) -> int:
        """Resident bytes of all processes of a pod, as its cgroup counts them."""
        first = _processes(pod["metadata"]["uid"])[0]
        own = next(line for line in Path(f"/proc/{first}/cgroup").read_text().splitlines() if ":memory:" in line)
        directory = Path("/sys/fs/cgroup/memory") / own.partition(":memory:/")[2]
        statistics = dict(line.split() for line in (directory.parent / "memory.stat").read_text().splitlines())
        return int(statistics["total_rss"])

    def objects(self) -> set[tuple[str, str, str]]:
        """Kind, namespace and name of all objects that somebody created."""
        columns = "custom-columns=:.kind,:.metadata.namespace,:.metadata.name"
        found: set[tuple[str, str, str]] = set()

        def listed() -> bool:
            names = self.kubectl("api-resources", "--verbs=list", "--output=name").split()
            kinds = ",".join(one for one in names if not one.startswith(("events", "endpoint", "componentstatuses")))
            lines = self.kubectl("get", kinds, "--all-namespaces", "--no-headers", f"--output={columns}").splitlines()
            found.update((kind, namespace, name) for kind, namespace, name in map(str.split, lines))
            return True

        self.until(listed, "a list of all kinds")  # fails when a CRD is deleted after its kind was listed
        return found

    @contextmanager
    def probed(self, kind: str, name: str) -> Iterator[AdmissionProbe]:
        """Send dry-run updates of an object, which the webhooks validate, until the end of the block."""
        probe = AdmissionProbe(self.state.kubeconfig, kind, name)
        probe.start()
        try:
            yield probe
        finally:
            probe.stop()


def serve_cert_manager(node: NodeCluster) -> None:
    """Serve the kinds of cert-manager, of which clusterctl and the chart of the Go operator create objects."""
    kinds = [crd(kind, "cert-manager.io") for kind in ("Certificate", "Issuer")]
    installation.install(node.state.kubeconfig, kinds)


class AdmissionProbe:
    """Dry-run updates of a Cluster Stacks object in namespace default, one after the other, in a thread."""

    def __init__(self, kubeconfig: Path, kind: str, name: str) -> None:
        self.answered = 0
        self.failures: list[str] = []
        self._target = (kubeconfig, kind, name)
        self._end = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()

    async def _run(self) -> None:
        kubeconfig, kind, name = self._target
        async with Pool() as pool:
            client = Client(load_kubeconfig([kubeconfig]), pool)
            resource = await client.resource("clusterstack.x-k8s.io", kind)
            while not self._end.is_set():
                patch = {"metadata": {"annotations": {"probe": str(self.answered)}}}
                try:
                    await client.merge_patch(resource, name, patch, "default", manager="probe", dry_run=True)
                except Exception as error:  # noqa: BLE001 - every kind of failure is a gap
                    self.failures.append(f"{datetime.now(UTC):%H:%M:%S.%f} {error!r}")
                else:
                    self.answered += 1
            await client.close()


async def _push(stored: Stored, target: Reference) -> None:
    async with open_registry(target, ServerTrust(None, plain_http=True)) as registry:
        await push(stored, registry, target.tag)


async def _writes(kubeconfig: Path) -> Counter[str]:
    async with Pool() as pool:
        client = Client(load_kubeconfig([kubeconfig]), pool)
        try:
            return await writes(client)
        finally:
            await client.close()


def _processes(pod_uid: str) -> list[int]:
    """The processes of a pod's containers, oldest first; the machine sees those of the node."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                cgroups = (entry / "cgroup").read_text()
            except OSError:
                continue
            if f"pod{pod_uid}" in cgroups:
                found.append(int(entry.name))
    return sorted(found, key=lambda pid: int(process_records.identity_of(pid).rpartition(":")[2] or 0))


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""
