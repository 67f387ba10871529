"""``csctl install`` and ``csctl uninstall`` over an installation that has no record of the delivery engine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.csctl.install.operator_chart import NAME
from clusterstacks.deliver.apply.record_store import INSTALLATION_RECORD, RECORD_LABEL
from clusterstacks.dev.binaries import resolve
from tests.support.running.doc_pages import CHECKOUT, Block, Page
from tests.support.running.installer import cluster_api, csctl, refused

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from tests.support.running.kubectl import Kubectl

pytestmark = pytest.mark.timeout(900)
HOME = "cluster-stack-system"
IMAGE = {"repository": f"registry.example.org/kaas/{NAME}"}
BEFORE = {"image": IMAGE, "env": [{"name": "ONCE", "value": "set"}], "metrics": {"dashboard": {"enabled": True}}}
AFTER = {"image": IMAGE, "podDisruptionBudget": {"enabled": False}, "replicas": 3}
BY_KUBECTL = {
    "csctl": ("apply", "--server-side", "--force-conflicts", "--field-manager=csctl"),
    "kubectl": ("apply", "--server-side"),
    "kubectl-client-side-apply": ("apply",),
}
"""Field managers of installations, with the arguments of kubectl that write as they do."""
RECORDS = f"--selector={RECORD_LABEL}"
PEOPLE = "--field-manager=people"


async def exported(directory: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of the chart with values, which are also written to a file."""
    (directory / "values.yaml").write_text(json.dumps(values))
    code, out, err = await csctl(None, "install", "--export", "--values", str(directory / "values.yaml"))
    assert code == 0, err
    return list(yaml.safe_load_all(out))


async def install_without_record(kubectl: Kubectl, directory: Path, manager: str) -> None:
    objects = await exported(directory, BEFORE)
    definitions = [one for one in objects if one["kind"] == "CustomResourceDefinition"]
    others = [one for one in objects if one not in definitions]
    for items, arguments in ((definitions, BY_KUBECTL["csctl"]), (others, BY_KUBECTL[manager])):
        kubectl(*arguments, "--filename=-", manifest={"apiVersion": "v1", "kind": "List", "items": items})


def uids(kubectl: Kubectl) -> dict[str, str]:
    kinds = "deployments,services,configmaps,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,crds"
    return {
        f"{one['kind']} {one['metadata']['name']}": one["metadata"]["uid"]
        for one in kubectl.get(kinds)["items"]
        if NAME in one["metadata"]["name"] or "clusterstack.x-k8s.io" in one["metadata"]["name"]
    }


def managers(manifest: dict[str, Any]) -> set[str]:
    return {one["manager"] for one in manifest["metadata"]["managedFields"]}


@pytest.mark.parametrize("manager", BY_KUBECTL)
async def test_an_installation_without_a_record_is_upgraded_in_place(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path, manager: str
) -> None:
    await cluster_api(server)
    await install_without_record(kubectl, tmp_path, manager)
    kubectl("annotate", "deployment", NAME, "example.org/note=theirs", PEOPLE)
    assert manager in managers(kubectl.get("deployment", NAME, "--show-managed-fields"))
    before = uids(kubectl)

    await exported(tmp_path, AFTER)
    code, _, err = await csctl(server, "install", "--values", str(tmp_path / "values.yaml"))

    assert code == 0, err
    assert f"deleted PodDisruptionBudget.policy {HOME}/{NAME}" in err
    assert f"deleted ConfigMap {HOME}/{NAME}-dashboard" in err
    assert before.items() - uids(kubectl).items() == {
        (name, uid) for name, uid in before.items() if name == f"ConfigMap {NAME}-dashboard"
    }
    deployment = kubectl.get("deployment", NAME, "--show-managed-fields")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "ONCE" not in [one["name"] for one in container["env"]]
    assert deployment["spec"]["replicas"] == 3
    assert deployment["metadata"]["annotations"]["example.org/note"] == "theirs"
    assert managers(deployment) == {NAME, "people"}
    (record,) = kubectl.get("secrets", "--all-namespaces", RECORDS)["items"]
    assert (record["metadata"]["namespace"], record["metadata"]["labels"][RECORD_LABEL]) == (HOME, INSTALLATION_RECORD)

    code, _, err = await csctl(server, "uninstall")
    assert code == 0, err
    assert {name.partition(" ")[0] for name in uids(kubectl)} == {"CustomResourceDefinition"}
    assert not kubectl.get("secrets", "--all-namespaces", RECORDS)["items"]


async def test_a_helm_release_that_was_handed_over_is_upgraded_in_place(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    (tmp_path / "values.yaml").write_text(json.dumps(BEFORE))
    (tmp_path / "helm").symlink_to(resolve(["helm"])["helm"].path)
    chart = CHECKOUT / "charts" / NAME
    install = f"./helm install {NAME} {chart} -n {HOME} --create-namespace -f values.yaml\n"
    environ = {"HOME": str(tmp_path), "KUBECONFIG": str(server.kubeconfig_path), "PATH": "/usr/bin:/bin"}
    Page((Block(install),), {}).run(tmp_path, environ)
    await exported(tmp_path, AFTER)
    again = ("install", "--values", str(tmp_path / "values.yaml"))
    assert f"helm upgrade {NAME} -n {HOME}" in await refused(server, *again)
    assert "helm" in managers(kubectl.get("deployment", NAME, "--show-managed-fields"))
    before = uids(kubectl)

    kubectl("delete", "secrets", "--selector=owner=helm")
    kinds = "deployments,clusterroles,clusterrolebindings"
    labels = f"--selector=app.kubernetes.io/name={NAME}"
    marks = ("meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")
    kubectl("annotate", kinds, labels, *marks)
    code, _, err = await csctl(server, *again)

    assert code == 0, err
    assert before.items() <= uids(kubectl).items(), "no object was deleted, not even one that is no longer rendered"
    deployment = kubectl.get("deployment", NAME, "--show-managed-fields")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "ONCE" not in [one["name"] for one in container["env"]]
    assert "helm" not in managers(deployment)


async def test_an_installation_without_a_record_is_removed_but_for_what_is_annotated(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    await install_without_record(kubectl, tmp_path, "csctl")
    kubectl("annotate", "configmap", f"{NAME}-dashboard", "helm.sh/resource-policy=keep")
    kubectl("annotate", "clusterrole", NAME, "clusterstack.x-k8s.io/prune=disabled")
    kubectl("annotate", "deployment", NAME, "clusterstack.x-k8s.io/prune=disabled")
    said = await refused(server, "uninstall")
    assert f"Deployment.apps {HOME}/{NAME} must stop before its rights are deleted" in said
    kubectl("annotate", "deployment", NAME, "clusterstack.x-k8s.io/prune-")
    said = await refused(server, "uninstall", "--delete-namespace")
    assert f"ConfigMap {HOME}/{NAME}-dashboard would be deleted" in said
    code, out, err = await csctl(server, "uninstall", "--dry-run")
    assert code == 0, err
    assert f"would keep ConfigMap {HOME}/{NAME}-dashboard: its annotation helm.sh/resource-policy is keep" in out
    assert f"would delete Service {HOME}/{NAME}" in out

    code, _, err = await csctl(server, "uninstall")

    assert code == 0, err
    assert f"kept ClusterRole.rbac.authorization.k8s.io {NAME}: its annotation disables pruning" in err
    left = {name for name in uids(kubectl) if not name.startswith("CustomResourceDefinition")}
    assert left == {f"ConfigMap {NAME}-dashboard", f"ClusterRole {NAME}"}
    assert not kubectl.get("secrets", RECORDS)["items"]


async def test_a_second_run_repairs_what_people_changed_and_writes_nothing_else(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    await exported(tmp_path, BEFORE)
    install = ("install", "--values", str(tmp_path / "values.yaml"))
    assert (await csctl(server, *install))[0] == 0
    role = kubectl.get("clusterrole", NAME)["metadata"]["resourceVersion"]
    kubectl("delete", "service", f"{NAME}-webhook")
    kubectl("scale", "deployment", NAME, "--replicas=0")

    code, _, err = await csctl(server, *install)

    assert code == 0, err
    assert kubectl.get("service", f"{NAME}-webhook")
    assert kubectl.get("deployment", NAME)["spec"]["replicas"] == 2
    assert kubectl.get("clusterrole", NAME)["metadata"]["resourceVersion"] == role


async def test_objects_that_another_program_took_over_are_neither_changed_nor_deleted(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    await exported(tmp_path, BEFORE)
    assert (await csctl(server, "install", "--values", str(tmp_path / "values.yaml")))[0] == 0
    kubectl("annotate", "clusterrole", NAME, "meta.helm.sh/release-name=a", "meta.helm.sh/release-namespace=b")
    kubectl("label", "configmap", f"{NAME}-dashboard", "clusterstack.x-k8s.io/installation-")

    code, _, err = await csctl(server, "uninstall")

    assert code == 0, err
    left = {name for name in uids(kubectl) if not name.startswith("CustomResourceDefinition")}
    assert left == {f"ConfigMap {NAME}-dashboard", f"ClusterRole {NAME}"}


async def test_an_object_that_the_api_server_refuses_is_named(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    kubectl("create", "clusterrolebinding", NAME, "--clusterrole=view", "--user=reader")
    await exported(tmp_path, BEFORE)
    code, _, err = await csctl(server, "install", "--values", str(tmp_path / "values.yaml"))
    assert code != 0
    assert NAME in err
    assert "roleRef" in err
