"""The programs of the environment and their versions.

The versions are pinned in the Go tool modules (``tools/*/go.mod``), one per dependency graph.
"""

from __future__ import annotations

import functools
import mmap
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from clusterstacks.model.errors import SpecError

VERSION_DEADLINE_SECONDS = 20
"""Timeout for printing a version, which takes 0.1 s on a quiet machine."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One program."""

    name: str
    """File name of the binary."""
    folder: str
    """Tool module that builds it."""
    module: str
    """Go module of the program; they have the same version."""
    package: str
    """Go package to build."""
    ask: tuple[str, ...]
    """Arguments that print its version; empty when it has none."""

    @property
    def version(self) -> str:
        """The pinned version, e.g. ``v1.36.3``."""
        return required_version(self.folder, self.module)

    def fits(self, version: str) -> bool:
        """Return whether a version fits: any patch of the same minor does.

        A kube-apiserver emulates its own minor and the three before, and kube-controller-manager and kubectl belong
        to one minor; so another minor does not fit.
        """
        return version.split(".")[:2] == self.version.split(".")[:2]


ETCD = "go.etcd.io/etcd/server/v3"
KUBERNETES = "k8s.io/kubernetes"
CLUSTER_API = "sigs.k8s.io/cluster-api"
HELM = "helm.sh/helm/v3"
KWOK = "sigs.k8s.io/kwok"
ORC_MODULE = "github.com/k-orc/openstack-resource-controller/v2"
ORC = "orc"
CORE, KUBEADM_BOOTSTRAP, KUBEADM_CONTROL_PLANE = (
    f"cluster-api-{role}" for role in ("core", "kubeadm-bootstrap", "kubeadm-control-plane")
)
TOOLS = {
    tool.name: tool
    for tool in (
        Tool("etcd", "etcd", ETCD, ETCD, ("--version",)),
        Tool("kube-apiserver", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kube-apiserver", ("--version",)),
        Tool(
            "kube-controller-manager",
            "kubernetes",
            KUBERNETES,
            f"{KUBERNETES}/cmd/kube-controller-manager",
            ("--version",),
        ),
        Tool("kubectl", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kubectl", ("version", "--client")),
        Tool("kubelet", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kubelet", ("--version",)),
        Tool("kube-scheduler", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kube-scheduler", ("--version",)),
        Tool("kube-proxy", "kubernetes", KUBERNETES, f"{KUBERNETES}/cmd/kube-proxy", ("--version",)),
        Tool(CORE, "cluster-api", CLUSTER_API, f"{CLUSTER_API}/core", ()),
        Tool(KUBEADM_BOOTSTRAP, "cluster-api", CLUSTER_API, f"{CLUSTER_API}/bootstrap/kubeadm", ()),
        Tool(KUBEADM_CONTROL_PLANE, "cluster-api", CLUSTER_API, f"{CLUSTER_API}/controlplane/kubeadm", ()),
        Tool("clusterctl", "cluster-api", CLUSTER_API, f"{CLUSTER_API}/cmd/clusterctl", ()),
        Tool("helm", "helm", HELM, f"{HELM}/cmd/helm", ("version",)),
        Tool("kwok", "kwok", KWOK, f"{KWOK}/cmd/kwok", ("--version",)),
        Tool(ORC, "orc", ORC_MODULE, f"{ORC_MODULE}/cmd/manager", ()),
    )
}
"""All programs by their names; only tests use clusterctl, Helm, kubelet and kube-proxy."""
ALWAYS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", CORE)
"""Programs of every environment; ``--with`` adds others."""
WORKLOAD_CLUSTER = ("kube-apiserver", "kube-controller-manager")
"""Programs of every workload cluster."""
WORKLOADS = ("kube-scheduler", "kwok")
"""Further programs of a workload cluster whose Pods are simulated."""


def tool_modules() -> Path:
    """The folder of the Go tool modules: beside this package in a wheel, at the root of a checkout."""
    here = Path(__file__)
    installed = here.parent / "tools"
    return installed if installed.is_dir() else here.parents[3] / "tools"


@functools.cache
def required_version(folder: str, module: str) -> str:
    """Read the version of ``module`` out of a tool module's go.mod.

    Raises:
        SpecError: The file does not require that module.
    """
    file = tool_modules() / folder / "go.mod"
    found = re.search(rf"^(?:require)?\s*{re.escape(module)} (v\S+)", file.read_text(), re.MULTILINE)
    if found is None:
        raise SpecError("VersionNotPinned", f"{file} does not require {module}; add it and run 'go mod tidy'")
    return found[1]


def version_of(tool: Tool, path: Path) -> str:
    """Return the version that a binary reports; empty when it reports none."""
    if not tool.ask:
        return _embedded_version(path, tool.module)
    try:
        answer = subprocess.run(
            [path, *tool.ask], capture_output=True, text=True, timeout=VERSION_DEADLINE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"(?:[Vv]ersion:?|Kubernetes) v?(\d+\.\d+\.\d+\S*)", answer.stdout)
    return f"v{found[1]}" if found and answer.returncode == 0 else ""


def _embedded_version(path: Path, module: str) -> str:
    """Find the version of the main module that Go writes into each binary (what ``go version -m`` shows)."""
    sign = f"\nmod\t{module}\t".encode()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = content.find(sign)
            return content[at + len(sign) : at + len(sign) + 64].split(b"\t")[0].decode() if at >= 0 else ""
    except (OSError, ValueError):
        return ""
