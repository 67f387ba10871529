"""``csctl install`` and ``csctl uninstall`` as administrators use them, against a real API server."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from clusterstacks.csctl.install.installed_objects import CHART_KINDS
from clusterstacks.csctl.install.operator_chart import NAME
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.names import UPGRADE_HOLD_ANNOTATION, Kind
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.manifests import crd
from tests.support.builders.operator_chart import everything, of_kind
from tests.support.running.installed_operator import account_kubeconfig, running, said
from tests.support.running.installer import cluster_api, csctl
from tests.support.running.kubectl import Kubectl
from tests.support.running.world import cluster_manifest, install
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer

HOME = "cluster-stack-system"
IMAGE = f"registry.example.org/kaas/{NAME}"


def labelled(kubectl: Kubectl) -> set[str]:
    """Give the objects of the installation by kind and name."""
    plurals = ",".join(f"{kind}.{group}" if group else kind for group, kind in CHART_KINDS if "monitoring" not in group)
    selector = f"--selector=clusterstack.x-k8s.io/installation={HOME}"
    listed = json.loads(kubectl("get", plurals, "--all-namespaces", selector, "-o=json"))
    return {f"{one['kind']} {one['metadata']['name']}" for one in listed["items"]}


async def job_of_helm(server: ApiServer, *flags: str) -> str:
    """Return the log of the program that the Job after 'helm uninstall' runs."""
    flags = ("--release-upgrades", f"--kubeconfig={server.kubeconfig_path}", *flags)
    program = (sys.executable, "-m", "clusterstacks.operator.main")
    job = await asyncio.create_subprocess_exec(*program, *flags, stderr=asyncio.subprocess.PIPE)
    _, log = await job.communicate()
    assert job.returncode == 0, log
    return log.decode()


async def results(server: ApiServer, *arguments: str) -> tuple[int, dict[str, dict[str, str]]]:
    code, out, err = await csctl(server, "install", "--check", "-o", "json", *arguments)
    assert code in {0, 3}, err
    return code, {one["check"]: one for one in json.loads(out)}


async def test_an_upgrade_is_observed_by_a_job_that_is_gone_afterwards(server: ApiServer, kubectl: Kubectl) -> None:
    """The test is the controller of Jobs and the kubelet."""
    await cluster_api(server)
    assert (await csctl(server, "install", "--image", IMAGE))[0] == 0
    flags = ("--image", f"{IMAGE}:v2", "--observe", "--timeout=2m", "-o", "json")
    observing = asyncio.create_task(csctl(server, "install", *flags))

    async def started() -> dict[str, Any]:
        jobs = json.loads(await asyncio.to_thread(kubectl, "get", "jobs", "-o=json"))["items"]
        assert len(jobs) == 1
        return dict(jobs[0])

    job = await eventually(started, about="the Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"{IMAGE}:v2"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "observer", "labels": {"batch.kubernetes.io/job-name": job["metadata"]["name"]}},
        "spec": job["spec"]["template"]["spec"],
    }
    kubectl.create(pod)
    ended = {"exitCode": 3, "reason": "Error", "message": "would write 1 object in 2 clusters"}
    status = {"name": container["name"], "image": "", "imageID": "", "ready": False, "restartCount": 0}
    patch = json.dumps({"status": {"containerStatuses": [{**status, "state": {"terminated": ended}}]}})
    await asyncio.to_thread(kubectl, "patch", "pod", "observer", "--subresource=status", "--type=merge", f"-p={patch}")
    code, out, err = await observing
    assert (code, json.loads(out)) == (3, {"wouldWrite": True, "message": ended["message"]}), err
    kubectl("delete", "pod", "observer", "--grace-period=0", "--force")
    assert not kubectl("get", "jobs", "-o=name").strip()


async def test_the_exported_objects_are_those_of_install_yaml() -> None:
    code, out, err = await csctl(None, "install", "--export", "--image", IMAGE)
    assert code == 0, err
    objects = list(yaml.safe_load_all(out))
    assert objects[0]["kind"] == "Namespace"
    assert of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] == f"{IMAGE}:0.1.0"
    code, _, err = await csctl(None, "install", "--export")
    assert code == 2
    assert "--image is missing" in err


async def test_the_operator_is_not_installed_where_it_cannot_work(server: ApiServer, kubectl: Kubectl) -> None:
    code, found = await results(server)
    assert code == 3
    assert found["Cluster API"]["result"] == "problem"
    code, _, err = await csctl(server, "install", "--image", IMAGE)
    assert code == 2
    assert "CRD clusters.cluster.x-k8s.io does not exist" in err
    code, _, err = await csctl(server, "install", "--image", IMAGE, "--observe")
    assert code == 2
    assert "runs beside an installed operator" in err
    assert not labelled(kubectl)


async def test_install_upgrade_and_uninstall_leave_nothing_but_what_is_said(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    code, found = await results(server)
    assert code == 0
    assert {one["result"] for one in found.values()} <= {"ok", "unknown"}, found

    code, out, err = await csctl(server, "install", "--image", IMAGE)
    assert code == 0, err
    assert f"installed in namespace {HOME}" in out
    assert "secrets.namespaces" in err
    first = labelled(kubectl)
    assert {f"Deployment {NAME}", f"ClusterRole {NAME}", f"PodDisruptionBudget {NAME}"} <= first
    code, found = await results(server)
    assert "0 of 2 replicas" in found["operator"]["details"]

    values = tmp_path / "values.yaml"
    values.write_text(json.dumps({"image": {"repository": IMAGE}, "podDisruptionBudget": {"enabled": False}}))
    code, _, err = await csctl(server, "install", "--values", str(values))
    assert code == 0, err
    assert f"deleted PodDisruptionBudget.policy {HOME}/{NAME}" in err
    assert labelled(kubectl) == first - {f"PodDisruptionBudget {NAME}"}

    kubectl.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{NAME}-webhook"}})
    kubectl("create", "--namespace=default", "-f-", manifest=cluster_manifest("default", "held", "local-demo-1-35-v1"))
    kubectl("annotate", "cluster/held", "--namespace=default", f"{UPGRADE_HOLD_ANNOTATION}=yes")
    code, out, err = await csctl(server, "uninstall", "--dry-run")
    assert code == 0, err
    assert "would release the upgrades of Cluster default/held" in out
    assert f"would delete Deployment.apps {HOME}/{NAME}" in out
    assert labelled(kubectl)
    code, out, err = await csctl(server, "uninstall")
    assert code == 0, err
    assert f"Kept: {len(all_crds())} CustomResourceDefinitions." in out
    assert "released the upgrades of Cluster default/held" in err
    assert UPGRADE_HOLD_ANNOTATION not in kubectl("get", "cluster", "held", "--namespace=default", "-o=yaml")
    kubectl("annotate", "cluster/held", "--namespace=default", f"{UPGRADE_HOLD_ANNOTATION}=yes")
    code, out, err = await csctl(server, "uninstall", "--release-upgrades", "--watch-namespace=other")
    assert (code, out) == (0, ""), err
    code, out, err = await csctl(server, "uninstall", "--release-upgrades")
    assert code == 0, err
    for refused in (("--release-upgrades", "--delete-crds"), ("--watch-namespace=other",)):
        code, _, err = await csctl(server, "uninstall", *refused)
        assert code == 2, err
    assert "released the upgrades of Cluster default/held" in out
    kubectl("annotate", "cluster/held", "--namespace=default", f"{UPGRADE_HOLD_ANNOTATION}=yes")
    logs = [await job_of_helm(server, "--namespace=other"), await job_of_helm(server)]
    assert ["released the upgrades of Cluster default/held" in log for log in logs] == [False, True]
    kubectl("delete", "cluster", "held", "--namespace=default")
    assert not labelled(kubectl)
    assert not kubectl("get", "secrets", "-o=name").strip()

    code, out, err = await csctl(server, "uninstall", "--delete-crds")
    assert code == 0, err
    assert "Nothing is installed" in out
    assert "Kept" not in out
    assert "clusterstacks" not in kubectl("get", "crds", "-o=name")


async def test_definitions_are_kept_while_clusters_or_other_operators_use_them(
    server: ApiServer, kubectl: Kubectl
) -> None:
    await cluster_api(server)
    code, _, err = await csctl(server, "install", "--image", IMAGE)
    assert code == 0, err
    code, _, err = await csctl(server, "uninstall", "--namespace", "other", "--delete-crds")
    assert code == 2
    assert f"Deployment.apps {HOME}/{NAME} also uses the CustomResourceDefinitions" in err

    reference = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "one", "namespace": HOME}
    addon = {"kind": Kind.CLUSTER_ADDON, "metadata": {"name": "cluster-addon-one"}, "spec": {"clusterRef": reference}}
    kubectl.create({"apiVersion": "clusterstack.x-k8s.io/v1alpha1", **addon})
    code, _, err = await csctl(server, "uninstall", "--delete-crds")
    assert code == 2
    assert "1 Clusters still get addons" in err
    assert f"Deployment {NAME}" in labelled(kubectl)


async def test_every_object_of_the_chart_is_found_again(server: ApiServer, kubectl: Kubectl, tmp_path: Path) -> None:
    await cluster_api(server)
    async with Pool() as pool:
        definitions = [crd(kind, "monitoring.coreos.com") for kind in ("ServiceMonitor", "PrometheusRule")]
        await install(Client(load_kubeconfig([server.kubeconfig_path]), pool), definitions)
    kubectl("create", "namespace", "team-a")
    values = tmp_path / "values.yaml"
    values.write_text(json.dumps(everything()))
    code, out, err = await csctl(server, "install", "--export", "--values", str(values))
    assert code == 0, err
    kinds = {one["kind"] for one in yaml.safe_load_all(out)} - {"Namespace", "CustomResourceDefinition"}
    assert kinds <= {kind for _, kind in CHART_KINDS}
    code, _, err = await csctl(server, "install", "--values", str(values))
    assert code == 0, err
    code, _, err = await csctl(server, "uninstall")
    assert code == 0, err
    assert not labelled(kubectl)


async def test_what_helm_installed_is_left_to_helm(server: ApiServer, kubectl: Kubectl) -> None:
    await cluster_api(server)
    assert (await csctl(server, "install", "--image", IMAGE))[0] == 0
    marks = ("meta.helm.sh/release-name=ours", f"meta.helm.sh/release-namespace={HOME}")
    kubectl("annotate", "deployment", NAME, *marks)
    code, _, err = await csctl(server, "install", "--image", IMAGE)
    assert code == 2
    assert f"helm upgrade ours -n {HOME}" in err
    code, _, err = await csctl(server, "uninstall")
    assert code == 2
    assert f"helm uninstall ours -n {HOME}" in err


async def test_missing_rights_and_a_running_go_operator_are_found_before_anything_is_written(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    labels = {"cluster.x-k8s.io/provider": "cluster-stack-operator"}
    kubectl("create", "namespace", "cso-system")
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "manager", "image": "example.org/cso"}]}}
    go = {"selector": {"matchLabels": labels}, "template": pod}
    metadata = {"name": "cso-controller-manager", "namespace": "cso-system", "labels": labels}
    Kubectl(server.kubeconfig_path, "cso-system").create(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": go}
    )
    kubectl("create", "clusterrolebinding", "go", "--clusterrole=cluster-admin", "--serviceaccount=cso-system:default")
    code, found = await results(server)
    assert code == 3
    assert "cso-system/cso-controller-manager runs" in found["Go operator"]["details"]
    kubectl("scale", "deployment", "cso-controller-manager", "--namespace=cso-system", "--replicas=0")
    code, found = await results(server)
    assert (code, found["Go operator"]["result"]) == (0, "ok")

    kubectl("create", "clusterrolebinding", "reader", "--clusterrole=view", "--user=reader")
    document: dict[str, Any] = yaml.safe_load(server.kubeconfig_path.read_text())
    document["users"][0]["user"]["as"] = "reader"
    weak = tmp_path / "weak"
    weak.write_text(yaml.safe_dump(document))
    code, out, err = await csctl(server, "install", "--check", "--kubeconfig", str(weak))
    assert code == 3, err
    assert "you lack the right to create and patch deployments in namespace cluster-stack-system" in out
    assert "you lack the right to create and patch clusterroles" in out
    assert "you lack the right to list and delete clusterroles" in out


@pytest.mark.regression("SEC-35")
async def test_the_check_recommends_a_network_policy_until_there_is_one(server: ApiServer, kubectl: Kubectl) -> None:
    await cluster_api(server)
    assert (await csctl(server, "install", "--image", IMAGE))[0] == 0

    # An API server on a loopback address writes none.
    slices = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "servers", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.12"]}, {"addresses": ["192.0.2.11"]}],
    }
    kubectl("create", "-n=default", "-f=-", manifest=slices)

    _, found = await results(server)
    assert "apiServers to [192.0.2.11/32, 192.0.2.12/32]" in found["network policy"]["details"]

    policy = {"podSelector": {}, "policyTypes": ["Ingress"]}
    manifest = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "own"},
        "spec": policy,
    }
    kubectl("create", "-n=cluster-stack-system", "-f=-", manifest=manifest)
    _, found = await results(server)
    assert "network policy" not in found


async def test_the_check_has_the_api_server_call_the_webhooks(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    assert (await csctl(server, "install", "--image", IMAGE))[0] == 0
    deployment = json.loads(kubectl("get", "deployment", NAME, "-o=json"))
    kubeconfig = account_kubeconfig(server.kubeconfig_path, deployment, tmp_path)
    log = tmp_path / "operator.log"
    (tmp_path / "releases").mkdir()
    async with Pool() as pool:
        client = Client(load_kubeconfig([server.kubeconfig_path]), pool)
        async with running(client, deployment, kubeconfig, log, tmp_path / "releases"):

            async def reachable() -> bool:
                _, found = await results(server)
                assert found["webhooks"]["result"] == "ok", said(log)
                return True

            await eventually(reachable, about="reachable webhooks")
    _, found = await results(server)
    assert found["webhooks"]["result"] == "warning"
    assert "do not answer" in found["webhooks"]["details"]

    code, _, err = await csctl(server, "uninstall")
    assert code == 0, err
    assert not kubectl("get", "validatingwebhookconfigurations", "-o=name").strip()
    assert not kubectl("get", "secrets,leases", "-o=name").strip()
