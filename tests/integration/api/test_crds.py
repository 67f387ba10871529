"""The CRDs on a real API server, used with the real kubectl."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.clusteraddon import ClusterAddon, ClusterAddonStatus, DeliveredAddon
from clusterstacks.model.kinds.clusterstack import ClusterStack
from clusterstacks.model.kinds.crd_manifests import all_crds
from clusterstacks.model.kinds.meta import ConditionEntry
from tests.support.running.kubectl import Kubectl

if TYPE_CHECKING:
    from clusterstacks.dev.apiserver import ApiServer

NAMESPACE = "api-kinds"
PROVIDER_REF = {"apiVersion": "infrastructure.clusterstack.x-k8s.io/v1alpha1", "kind": "FooTemplate", "name": "foo"}


@pytest.fixture(scope="module")
def kubectl(api_server: ApiServer) -> Kubectl:
    kubectl = Kubectl(api_server.kubeconfig_path, NAMESPACE)
    crds = all_crds()
    kubectl("apply", "--server-side", "-f-", manifest={"apiVersion": "v1", "kind": "List", "items": crds})
    names = [f"crd/{crd['metadata']['name']}" for crd in crds]
    kubectl("wait", "--for=condition=Established", "--timeout=120s", *names)
    kubectl("create", "namespace", NAMESPACE)
    return kubectl


def stack(name: str, /, **spec: Any) -> dict[str, Any]:
    plain = {"provider": "docker", "name": "ferrol", "kubernetesVersion": "1.27", "noProvider": True}
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterStack",
        "metadata": {"name": name},
        "spec": {**plain, **spec},
    }


def addon(name: str, /, cluster: str = "a", **spec: Any) -> dict[str, Any]:
    reference = {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "name": cluster, "namespace": NAMESPACE}
    owner = {key: value for key, value in reference.items() if key != "namespace"}
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterAddon",
        "metadata": {"name": name, "ownerReferences": [{**owner, "uid": "u"}]},
        "spec": {"clusterRef": reference, **spec},
    }


def release(name: str, /, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "clusterstack.x-k8s.io/v1alpha1",
        "kind": "ClusterStackRelease",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.mark.parametrize("crd", all_crds(), ids=lambda crd: crd["spec"]["names"]["kind"])
def test_api_server_accepts_the_structural_schema(kubectl: Kubectl, crd: dict[str, Any]) -> None:
    live = json.loads(kubectl("get", "crd", crd["metadata"]["name"], "-o=json"))

    conditions = {condition["type"]: condition["status"] for condition in live["status"]["conditions"]}
    assert conditions["Established"] == "True"
    assert "NonStructuralSchema" not in conditions
    assert live["spec"]["versions"] == crd["spec"]["versions"]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"channel": "stable", "autoSubscribe": False, "versions": ["v2"]},
        {"channel": "custom", "versions": ["v0-sha.abc1234", "v1-beta.1", "v1"]},
        {"versions": None, "providerRef": None, "noProvider": True},
        {"noProvider": None, "providerRef": PROVIDER_REF},
        {"providerRef": {}, "noProvider": False},
        {"provider": "with-dash", "name": "UPPER", "kubernetesVersion": "9.999"},
        {"clusterNamespaces": {"from": "Selector", "selector": {"matchLabels": {"team": "a"}}}},
        {"clusterNamespaces": {}},
        {"source": {"directory": {}}},
        {
            "source": {
                "oci": {"repository": "127.0.0.1:5000/kaas/cluster-stacks", "plainHTTP": True},
                "interval": "1h30m",
            }
        },
        {"source": {"github": {"owner": "team", "repository": ".stacks"}, "credentials": {"secretName": "login"}}},
        {"source": {"http": {"url": "https://stacks.example.org"}, "ca": {"secretName": "ca"}}},
        {
            "source": {
                "directory": {"path": "a/b-c"},
                "verification": {"keys": [{"secretName": "k"}, {"publicKey": "p"}]},
            }
        },
    ],
)
def test_valid_cluster_stacks_are_accepted_and_read(kubectl: Kubectl, spec: dict[str, Any]) -> None:
    live = kubectl.create({**stack("", **spec), "metadata": {"generateName": "accepted-"}})

    read = ClusterStack.parse(live)
    assert (read.spec.channel, read.spec.auto_subscribe) == (spec.get("channel", "stable"), "autoSubscribe" not in spec)


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ({"provider": ""}, "spec.provider"),
        ({"kubernetesVersion": "1.27.3"}, "spec.kubernetesVersion"),
        ({"channel": "beta"}, "spec.channel"),
        ({"autoSubscribe": "yes"}, "spec.autoSubscribe"),
        ({"versions": ["latest"]}, "each version must have the form"),
        ({"noProvider": False}, "providerRef is missing"),
        ({"clusterNamespaces": {"from": "Selector"}}, "needs a selector"),
        ({"source": {}}, "set exactly one of oci, github, http and directory"),
        ({"source": {"directory": {}, "http": {"url": "https://x"}}}, "set exactly one of"),
        ({"source": {"oci": {"repository": "no-host"}}}, "spec.source.oci.repository"),
        ({"source": {"directory": {"path": "../etc"}}}, "spec.source.directory.path"),
        ({"source": {"http": {"url": "https://me:secret@x"}}}, "spec.source.http.url"),
        ({"source": {"directory": {}, "interval": "0s"}}, "must be from 1s to 24h"),
        ({"source": {"directory": {}, "interval": "25h"}}, "must be from 1s to 24h"),
        ({"source": {"directory": {}, "interval": "soon"}}, "spec.source.interval"),
        ({"source": {"directory": {}, "verification": {"keys": []}}}, "spec.source.verification.keys"),
        ({"source": {"directory": {}, "verification": {"keys": [{}]}}}, "either publicKey or secretName"),
    ],
)
def test_invalid_cluster_stacks_are_rejected(kubectl: Kubectl, spec: dict[str, Any], answer: str) -> None:
    done = kubectl.tried("create", "-f-", manifest=stack("refused", **spec))

    assert done.returncode != 0
    assert answer in done.stderr


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"provider": "other"}, "cannot be changed"),
        ({"kubernetesVersion": "1.28"}, "cannot be changed"),
        ({"channel": "custom"}, "cannot be changed"),
        ({"versions": ["no version", "v2"], "noProvider": False}, ""),
    ],
)
def test_changes_rejected_by_the_go_operator_are_rejected(
    kubectl: Kubectl, change: dict[str, Any], answer: str, request: pytest.FixtureRequest
) -> None:
    name = f"changed-{request.node.callspec.indices['change']}"
    kubectl.create(stack(name))

    done = kubectl.tried("patch", "clusterstack", name, "--type=merge", f"--patch={json.dumps({'spec': change})}")

    assert (done.returncode == 0) is (answer == "")
    assert answer in done.stderr


@pytest.mark.parametrize(
    "manifest",
    [
        {**release("bare"), "spec": None},
        release("docker-ferrol-1-27-v1"),
        addon("cluster-addon-a"),
        release("with-provider", providerRef=PROVIDER_REF),
        addon("with-everything", clusterStack="docker-ferrol-1-27-v1", version="v1", hook="BeforeClusterUpgrade"),
    ],
    ids=lambda manifest: manifest["metadata"]["name"],
)
def test_objects_written_by_the_go_operator_are_accepted(kubectl: Kubectl, manifest: dict[str, Any]) -> None:
    kubectl.create(manifest)


@pytest.mark.parametrize(
    ("reference", "answer"),
    [(None, "spec.clusterRef"), ({"kind": "Machine", "name": "a"}, "kind must be Cluster")],
)
def test_cluster_addon_without_a_cluster_is_rejected(kubectl: Kubectl, reference: Any, answer: str) -> None:
    done = kubectl.tried("create", "-f-", manifest=addon("refused", clusterRef=reference))

    assert done.returncode != 0
    assert answer in done.stderr


def test_cluster_of_a_cluster_addon_is_immutable(kubectl: Kubectl) -> None:
    kubectl.create(addon("faithful"))
    move = {"spec": {"clusterRef": {"name": "b"}}}

    done = kubectl.tried("patch", "caddon", "faithful", "--type=merge", f"--patch={json.dumps(move)}")

    assert done.returncode != 0
    assert "name cannot be changed" in done.stderr
    kubectl("patch", "caddon", "faithful", "--type=merge", "--patch", '{"spec":{"paused":true,"hook":""}}')


def test_status_is_written_through_the_subresource_and_printed(kubectl: Kubectl) -> None:
    kubectl.create(addon("shown", cluster="seen"))
    status = ClusterAddonStatus(
        target="docker-ferrol-1-27-v2",
        addons=(DeliveredAddon(name="cni", release="docker-ferrol-1-27-v2", version="v2", objects=3),),
        conditions=(
            ConditionEntry(
                type="Ready",
                status="False",
                severity="Info",
                reason="ObjectsApplyingOngoing",
                message="3 of 7 objects",
                last_transition_time="2026-11-21T10:00:00Z",
            ),
        ),
    )

    patch = json.dumps({"status": status.document()})
    live = kubectl("patch", "caddon", "shown", "--subresource=status", "--type=merge", f"--patch={patch}", "-o=json")

    assert ClusterAddon.parse(json.loads(live)).status == status
    table = kubectl("get", "caddon", "shown", "-o=wide").splitlines()
    assert table[0].split() == [
        "NAME", "READY", "REASON", "CLUSTER", "CLASS", "K8S", "PROGRESS", "AGE", "TARGET", "HOOK", "MESSAGE",
    ]  # fmt: skip
    assert "seen" in table[1]
    assert "3 of 7 objects" in table[1]


@pytest.mark.parametrize("name", ["csk", "cskr", "caddon"])
def test_short_names_are_served(kubectl: Kubectl, name: str) -> None:
    kubectl("get", name)


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("clusterstack.spec.channel", "autoSubscribe follows"),
        ("clusterstack.spec.clusterNamespaces", "Namespaces whose Clusters may use"),
        ("clusterstackrelease.status.resources", "State of the cluster class"),
        ("clusteraddon.status.stages.phase", "waitingForPreCondition"),
    ],
)
def test_kubectl_explains_every_field(kubectl: Kubectl, path: str, answer: str) -> None:
    assert answer in " ".join(kubectl("explain", path).split())
