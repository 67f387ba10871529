"""``csctl install`` and ``csctl uninstall`` leave what others installed, and what people created."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.install.operator_chart import NAME
from clusterstacks.model.kinds.names import Kind
from tests.support.running.doc_pages import CHECKOUT
from tests.support.running.installer import cluster_api, csctl, refused
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer

pytestmark = pytest.mark.timeout(900)
HOME = "cluster-stack-system"
INSTALL = ("install", "--image", f"registry.example.org/kaas/{NAME}")
OURS = "clusterstack.x-k8s.io/v1alpha1"
STACK = {
    "apiVersion": OURS,
    "kind": Kind.CLUSTER_STACK,
    "metadata": {"name": "one", "finalizers": ["clusterstack.x-k8s.io/test"]},
    "spec": {"provider": "tiny", "name": "one", "kubernetesVersion": "1.35", "noProvider": True, "versions": ["v1"]},
}


def deployed(server: ApiServer, namespace: str, labels: dict[str, str], *arguments: str) -> None:
    """Create a Deployment of an operator in a namespace of its own."""
    kubectl = Kubectl(server.kubeconfig_path, namespace)
    kubectl("create", "namespace", namespace)
    container = {"name": "manager", "image": "example.org/operator", "args": [*arguments]}
    pod = {"metadata": {"labels": {"one": "two"}}, "spec": {"containers": [container]}}
    metadata = {"name": "manager", "namespace": namespace, "labels": labels}
    spec = {"selector": {"matchLabels": {"one": "two"}}, "template": pod}
    kubectl.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


def grant(server: ApiServer, namespace: str) -> None:
    """Give the Deployments in a namespace the rights of an operator, as an administrator does."""
    rights = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    Kubectl(server.kubeconfig_path, namespace).create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": namespace},
            "roleRef": rights,
            "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
        }
    )


@pytest.mark.regression("SEC-36")
async def test_labels_alone_make_no_operator(server: ApiServer) -> None:
    await cluster_api(server)
    copied = {"app.kubernetes.io/name": NAME, "clusterstack.x-k8s.io/installation": HOME}
    fakes = {
        "by-nobody": ({"app.kubernetes.io/name": NAME}, "--cache-dir=/a"),
        "by-csctl": (copied, "--cache-dir=/a"),
        "by-itself": ({**copied, "clusterstack.x-k8s.io/installation": "by-itself"}, "--namespace=by-itself"),
        "by-go": ({"cluster.x-k8s.io/provider": NAME}, "--leader-elect"),
    }
    for namespace, (labels, argument) in fakes.items():
        deployed(server, namespace, labels, argument)
    tenant = Kubectl(server.kubeconfig_path, "by-csctl")
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": []}
    tenant.create({**role, "metadata": {"name": "of-a-tenant", "labels": copied}})

    code, out, err = await csctl(server, "install", "--check")
    assert not [name for name in fakes if name in out], f"{code}: {out}{err}"
    assert (await csctl(server, *INSTALL))[0] == 0, "also before the kinds of the operator exist"
    code, out, err = await csctl(server, "uninstall", "--delete-crds", "--dry-run")
    assert code == 0, err
    assert f"Deployment.apps {HOME}/{NAME}" in out
    assert not [name for name in (*fakes, "of-a-tenant") if name in out]

    grant(server, "by-csctl")
    said = await refused(server, "uninstall", "--delete-crds", "--dry-run")
    assert "Deployment.apps by-csctl/manager also uses" in said, "an operator, whatever its labels say"


async def test_a_second_installation_takes_nothing_from_the_first(server: ApiServer, kubectl: Kubectl) -> None:
    await cluster_api(server)
    assert (await csctl(server, *INSTALL))[0] == 0
    code, out, err = await csctl(server, "install", "--check", "--namespace", "other")
    assert code == 3, err
    assert f"Deployment {HOME}/{NAME}" in out
    said = await refused(server, *INSTALL, "--namespace", "other")
    assert f"csctl uninstall -n {HOME}" in said
    assert f"ClusterRole {NAME}" in said
    (subject,) = kubectl.get("clusterrolebinding", NAME)["subjects"]
    assert subject["namespace"] == HOME

    copied = {"app.kubernetes.io/name": NAME, "clusterstack.x-k8s.io/installation": HOME}
    deployed(server, "by-clusterctl", {**copied, "clusterctl.cluster.x-k8s.io": ""}, "--cache-dir=/a")
    code, out, err = await csctl(server, "uninstall", "--dry-run")
    assert code == 0, err
    assert "by-clusterctl" not in out
    assert "clusterctl delete" in await refused(server, "uninstall", "--namespace", "by-clusterctl")
    taken_over = {"app.kubernetes.io/name": "cso", "cluster.x-k8s.io/provider": NAME}
    deployed(server, "cso-system", taken_over, "--cache-dir=/a")
    for namespace in ("by-clusterctl", "cso-system"):
        grant(server, namespace)
    said = await refused(server, "uninstall", "--namespace", "empty", "--delete-crds")
    for one in ("by-clusterctl/manager", "cso-system/manager"):
        assert f"Deployment.apps {one}" in said
    assert not [one for one in kubectl.get("crds")["items"] if "deletionTimestamp" in one["metadata"]]


async def test_what_people_created_is_refused_before_the_first_deletion(server: ApiServer, kubectl: Kubectl) -> None:
    await cluster_api(server)
    assert (await csctl(server, *INSTALL))[0] == 0
    kubectl("create", "namespace", "production")
    said = await refused(server, "uninstall", "--namespace", "production", "--delete-namespace")
    assert "nothing is installed in namespace production" in said

    kubectl.create(STACK)
    kubectl.create(
        {
            "apiVersion": OURS,
            "kind": Kind.COMPATIBILITY_RULE,
            "metadata": {"name": "one"},
            "spec": {
                "when": {"components": {"cni": "<1.9"}},
                "message": "it leaks",
                "way": "wait for 1.9",
                "severity": "Deny",
            },
        }
    )
    said = await refused(server, "uninstall", "--delete-crds", "--dry-run")
    assert "1 CompatibilityRules would be deleted" in said
    assert f"ClusterStack.clusterstack.x-k8s.io {HOME}/one" in said
    assert "no replica of the operator is available" in said
    said = await refused(server, "uninstall", "--delete-namespace")
    assert f"namespace {HOME} contains ClusterStack" in said
    assert "deletionTimestamp" not in kubectl.get("clusterstack", "one")["metadata"]
    assert kubectl.get("deployment", NAME)

    kubectl("delete", "compatibilityrule", "one")
    kubectl("delete", "clusterstack", "one", "--wait=false")
    kubectl("patch", "clusterstack", "one", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    code, out, err = await csctl(server, "uninstall", "--delete-crds", "--delete-namespace", "--dry-run")
    assert code == 0, err
    order = ["Deployment.apps", "ClusterRole.rbac", "CustomResourceDefinition.apiextensions.k8s.io", "Namespace "]
    places = [out.index(f"would delete {one}") for one in order]
    assert places == sorted(places)

    kubectl.create(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "stays", "finalizers": ["example.org/never"]},
        }
    )
    code, out, err = await csctl(server, "uninstall", "--delete-namespace", "--timeout", "1")
    assert code != 0
    assert f"the deletion of Namespace {HOME} is not finished" in err
    said = await refused(server, *INSTALL)
    assert f"Namespace {HOME} is being deleted" in said


async def test_an_installation_replaces_what_kubectl_applied_and_its_disabled_webhooks(
    server: ApiServer, kubectl: Kubectl, tmp_path: Path
) -> None:
    await cluster_api(server)
    kubectl("apply", "--server-side", f"--filename={CHECKOUT / 'deploy' / 'install.yaml'}")
    service = {"namespace": HOME, "name": f"{NAME}-webhook", "path": "/validate"}
    webhook = {
        "name": "clusterstacks.clusterstack.x-k8s.io",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"service": service},
    }
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}
    kubectl.create({**head, "metadata": {"name": NAME}, "webhooks": [webhook]})
    values: dict[str, Any] = {"source": {"type": "directory"}, "webhook": {"enabled": False}}
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    code, _, err = await csctl(server, *INSTALL, "--values", str(tmp_path / "values.yaml"))
    assert code == 0, err
    (container,) = kubectl.get("deployment", NAME)["spec"]["template"]["spec"]["containers"]
    assert "envFrom" not in container
    assert f"deleted ValidatingWebhookConfiguration.admissionregistration.k8s.io {NAME}" in err
    assert err.index("deleted ValidatingWebhook") < err.index(f"deleted Service {HOME}")

    (tmp_path / "values.yaml").write_text(json.dumps({"takeOver": True}))
    assert "takeOver" in await refused(server, *INSTALL, "--values", str(tmp_path / "values.yaml"))
    finalizer = '--patch={"metadata":{"finalizers":["example.org/never"]}}'
    definition = "clusteraddons.clusterstack.x-k8s.io"
    kubectl("patch", "crd", definition, "--type=merge", finalizer)
    kubectl("delete", "crd", definition, "--wait=false")
    assert f"{definition} is being deleted" in await refused(server, *INSTALL)
