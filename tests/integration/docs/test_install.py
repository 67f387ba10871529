"""The commands of "install the operator", with a real API server, kubectl and Helm."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev.binaries import resolve
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.running.doc_pages import CHECKOUT, VERSION, Block, Page
from tests.support.running.world import foreign_crds, install
from tests.support.servers.garbage_collector import garbage_collector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.dev.apiserver import ApiServer

NAME, HOME = "cluster-stack-operator", "cluster-stack-system"
IMAGE = f"registry.example.org/kaas/cluster-stack-operator:{VERSION}"
TEAMS = ("team-a", "team-b", "team-c")
INSTALL, UPGRADE, UNINSTALL, AIR_GAP = (
    f"how-to/{name}.md" for name in ("install", "upgrade-the-operator", "uninstall", "air-gap")
)
HERE = {
    INSTALL: {" --wait\n": "\n"},  # without a node no pod becomes ready
    UNINSTALL: {
        "helm uninstall cluster-stack-operator --": "helm uninstall cluster-stack-operator --no-hooks --",  # no node
        "kubectl delete namespace cluster-stack-system\n": "",  # nothing deletes what is in it
        "kubectl delete -f -": "kubectl delete --wait=false -f -",  # a busy API server may take minutes
    },
}
CRDS = {f"{one}.clusterstack.x-k8s.io" for one in ("clusterstacks", "clusterstackreleases", "clusteraddons")}


@pytest.fixture
def administrator(server: ApiServer, tmp_path: Path) -> dict[str, str]:
    """The environment of an administrator in a copy of the checkout."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, found in resolve(["helm", "kubectl"]).items():
        (programs / name).symlink_to(found.path)
    for part in ("charts", "deploy"):
        shutil.copytree(CHECKOUT / part, tmp_path / part)
    path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
    return {"HOME": str(tmp_path), "KUBECONFIG": str(server.kubeconfig_path), "PATH": os.pathsep.join(path)}


def blocks(*words: str, path: str = INSTALL) -> Page:
    """Take the blocks of a page that have one of the words, in the page's order."""
    page = Page.read(path, HERE.get(path))
    return page.part([one for one in page.blocks if any(word in one.commands for word in words)])


def found(kind: str, environ: Mapping[str, str], *arguments: str) -> dict[str, Any]:
    """Return the objects of a kind by name."""
    command = ["kubectl", "get", kind, "-o=json", *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    return {one["metadata"]["name"]: one for one in json.loads(done.stdout)["items"]}


def image(environ: Mapping[str, str]) -> str:
    (container,) = found("deployments", environ, f"-n={HOME}")[NAME]["spec"]["template"]["spec"]["containers"]
    return str(container["image"])


def create_teams(directory: Path, environ: Mapping[str, str]) -> None:
    commands = "".join(
        f"kubectl create namespace {one} --dry-run=client -o yaml | kubectl apply -f -\n" for one in TEAMS
    )
    Page((Block(commands),), {}).run(directory, environ)


def test_installation_commands_without_helm_work(tmp_path: Path, administrator: dict[str, str]) -> None:
    create_teams(tmp_path, administrator)
    overlay, binding = blocks("mkdir -p overlay"), blocks("create rolebinding")
    overlay.part([*overlay.blocks, *binding.blocks]).run(tmp_path, administrator)
    assert image(administrator) == IMAGE
    assert f"{NAME}-source" in found("secrets", administrator, f"-n={HOME}")
    assert f"{NAME}-secrets" in found("rolebindings", administrator, "-n=team-c")
    assert found("crds", administrator).keys() >= CRDS

    blocks("csctl crds", path=UNINSTALL).run(tmp_path, administrator)
    left = found("crds", administrator)
    assert not [name for name in CRDS & left.keys() if "deletionTimestamp" not in left[name]["metadata"]]


def test_installation_commands_with_helm_work(tmp_path: Path, administrator: dict[str, str]) -> None:
    create_teams(tmp_path, administrator)
    Page((Block(f"helm lint charts/{NAME} --set image.repository=example.org/operator\n"),), {}).run(
        tmp_path, administrator
    )
    install, *later = blocks("helm upgrade", "create rolebinding").blocks
    rules = [{"apiGroups": ["example.org"], "resources": ["bundles"], "verbs": ["get"]}]
    aggregated = f"kubectl patch clusterrole {NAME}-class-kinds --type=merge -p '{json.dumps({'rules': rules})}'\n"
    Page((install, Block(aggregated), *later), {}).run(tmp_path, administrator)
    assert found("clusterroles", administrator)[f"{NAME}-class-kinds"]["rules"] == rules
    assert image(administrator) == IMAGE
    assert f"{NAME}-secrets" in found("rolebindings", administrator, "-n=team-b")
    (container,) = found("deployments", administrator, f"-n={HOME}")[NAME]["spec"]["template"]["spec"]["containers"]
    assert {"secretRef": {"name": "registry-login"}} in container["envFrom"]

    blocks("helm uninstall", path=UNINSTALL).run(tmp_path, administrator)
    assert NAME not in found("deployments", administrator, f"-n={HOME}")
    assert NAME not in found("clusterroles", administrator)
    assert found("crds", administrator).keys() >= CRDS

    # Definitions that csctl applied; deleting Helm's first may take a busy API server minutes.
    others = (
        "kubectl label crds --all app.kubernetes.io/managed-by-\n"
        "kubectl annotate crds --all meta.helm.sh/release-name- meta.helm.sh/release-namespace-\n"
        "csctl crds | kubectl apply --server-side --force-conflicts -f -\n"
    )
    again = f"helm install {NAME} charts/{NAME} -n {HOME} --set image.repository=example.org/operator"
    refused = Block(f"{others}! {again}\n", "...\n...invalid ownership metadata...\n")
    Page((refused, Block(f"{again} --take-ownership\n")), {}).run(tmp_path, administrator)


async def test_with_csctl(tmp_path: Path, server: ApiServer, administrator: dict[str, str]) -> None:
    async with Pool() as pool:
        await install(Client(load_kubeconfig([server.kubeconfig_path]), pool), foreign_crds())
    create_teams(tmp_path, administrator)
    blocks("csctl install").run(tmp_path, administrator)
    assert image(administrator) == IMAGE
    assert f"{NAME}-secrets" in found("rolebindings", administrator, "-n=team-b")
    blocks("csctl install", path=UPGRADE).run(tmp_path, administrator)

    isolated = tmp_path / "isolated"
    isolated.mkdir()
    blocks("csctl install", path=AIR_GAP).run(isolated, administrator)
    assert IMAGE in (isolated / "operator.yaml").read_text()

    kept, everything = blocks("csctl uninstall", path=UNINSTALL).blocks
    Page((kept,), {}).run(tmp_path, administrator)
    assert NAME not in found("deployments", administrator, f"-n={HOME}")
    assert found("crds", administrator).keys() >= CRDS
    blocks("csctl install", path=UPGRADE).run(tmp_path, administrator)
    with garbage_collector(server, tmp_path, "namespace-controller"):
        Page((everything,), {}).run(tmp_path, administrator)
    assert not CRDS & found("crds", administrator).keys()
    assert HOME not in found("namespaces", administrator)
