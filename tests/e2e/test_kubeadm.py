"""``csctl dev up --with kubeadm --crds DIR``: cluster classes for kubeadm, as cluster stacks in the field hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.dev import binaries, capi_managers, teardown
from clusterstacks.dev.state_directory import StateDirectory
from clusterstacks.model.yaml import dump
from tests.support.running.csctl import Csctl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"
CLASS = """
apiVersion: local.clusterstack.x-k8s.io/v1alpha1
kind: LocalClusterTemplate
metadata: {name: small}
spec: {template: {spec: {}}}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DemoMachineTemplate
metadata: {name: small}
spec: {template: {spec: {flavor: tiny}}}
---
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlaneTemplate
metadata: {name: small}
spec:
  template:
    spec:
      kubeadmConfigSpec:
        clusterConfiguration: {apiServer: {extraArgs: {profiling: "false"}}}
        initConfiguration: {nodeRegistration: {kubeletExtraArgs: {cloud-provider: external}}}
---
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: small}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {node-labels: tier=demo}}}}}}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata: {name: small}
spec:
  infrastructure:
    ref: {apiVersion: local.clusterstack.x-k8s.io/v1alpha1, kind: LocalClusterTemplate, name: small}
  controlPlane:
    ref: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, name: small}
    machineInfrastructure:
      ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DemoMachineTemplate, name: small}
  workers:
    machineDeployments:
    - class: default
      template:
        bootstrap:
          ref: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: small}
        infrastructure:
          ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DemoMachineTemplate, name: small}
"""


def definition(kind: str) -> dict[str, Any]:
    """A definition of an infrastructure provider as generators write it: contract labels are stated elsewhere."""
    plural = f"{kind.lower()}s"
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{INFRASTRUCTURE}"},
        "spec": {
            "group": INFRASTRUCTURE,
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "scope": "Namespaced",
            "versions": [{"name": "v1beta1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "conversionReviewVersions": ["v1"],
                    "clientConfig": {"service": {"name": "webhook-service", "namespace": "nowhere"}},
                },
            },
        },
    }


@pytest.fixture
def csctl(tmp_path: Path) -> Iterator[Csctl]:
    # Cold, the two managers are compiled here: half a minute after the core manager, minutes without its build cache.
    binaries.resolve(capi_managers.programs_of(capi_managers.chosen(["kubeadm"])))
    yield Csctl(tmp_path)
    teardown.down(StateDirectory(tmp_path / "cluster-stacks" / "default"), binaries.silent)


@pytest.fixture
def definitions(tmp_path: Path) -> Path:
    crds = tmp_path / "crds"
    (crds / "bases").mkdir(parents=True)
    (crds / "bases" / "templates.yaml").write_text(dump(definition("DemoMachineTemplate")))
    kustomization = {
        "resources": ["bases/templates.yaml"],
        "labels": [{"pairs": {"cluster.x-k8s.io/v1beta1": "v1beta1"}}],
    }
    (crds / "kustomization.yaml").write_text(dump(kustomization))
    return crds


@pytest.mark.timeout(1800)
def test_templates_of_kubeadm_keep_their_fields_and_their_class_is_accepted(
    csctl: Csctl, definitions: Path, tmp_path: Path
) -> None:
    told = csctl("up", "--detach", "--no-operator", "--with=kubeadm", f"--crds={definitions}")
    assert "conversion webhooks of other providers do not run here: 1 CRDs are set to none" in told
    assert {"cluster-api", "kubeadm-bootstrap", "kubeadm-control-plane"} <= set(csctl.components())

    objects = tmp_path / "class.yaml"
    objects.write_text(CLASS)
    csctl("kubectl", "apply", "-f", str(objects))

    assert_fields_intact(csctl)

    csctl("kubectl", "wait", "--for=condition=VariablesReady", "clusterclass/small", "--timeout=120s")
    csctl("kubectl", "wait", "--for=condition=RefVersionsUpToDate=False", "clusterclass/small", "--timeout=120s")
    assert outdated(csctl) == [
        "* KubeadmConfigTemplate small: current: v1beta1, latest: v1beta2",
        "* KubeadmControlPlaneTemplate small: current: v1beta1, latest: v1beta2",
    ]
    objects.write_text(
        CLASS.replace("controlplane.cluster.x-k8s.io/v1beta1, ", "controlplane.cluster.x-k8s.io/v1beta2, ").replace(
            "bootstrap.cluster.x-k8s.io/v1beta1, ", "bootstrap.cluster.x-k8s.io/v1beta2, "
        )
    )
    csctl("kubectl", "apply", "-f", str(objects))
    csctl("kubectl", "wait", "--for=condition=RefVersionsUpToDate", "clusterclass/small", "--timeout=120s")

    code, refused = csctl.tried(
        "kubectl",
        "patch",
        "kubeadmcontrolplanetemplate",
        "small",
        "--type=merge",
        "-p",
        '{"spec":{"template":{"spec":{"rollout":{"strategy":{"rollingUpdate":{"maxSurge":7}}}}}}}',
    )
    assert code == 1
    assert "maxSurge" in refused, "the webhook validates"


def test_definitions_without_contract_labels_are_refused_before_anything_starts(
    csctl: Csctl, definitions: Path
) -> None:
    code, told = csctl.tried("up", "--detach", f"--crds={definitions / 'bases'}")

    assert code == 2
    assert f"demomachinetemplates.{INFRASTRUCTURE}" in told
    assert "no contract label" in told
    assert set(csctl.components()) == {"supervisor"}


def assert_fields_intact(csctl: Csctl) -> None:
    control_plane = csctl.get("kubeadmcontrolplanetemplates.v1beta2.controlplane.cluster.x-k8s.io", "small")
    stored = control_plane["spec"]["template"]["spec"]
    kubeadm = stored["kubeadmConfigSpec"]
    assert kubeadm["clusterConfiguration"]["apiServer"]["extraArgs"] == [{"name": "profiling", "value": "false"}]
    assert kubeadm["initConfiguration"]["nodeRegistration"]["kubeletExtraArgs"] == [
        {"name": "cloud-provider", "value": "external"}
    ]
    assert stored["rollout"]["strategy"]["rollingUpdate"] == {"maxSurge": 1}, "the webhook fills in defaults"
    workers = csctl.get("kubeadmconfigtemplates.v1beta2.bootstrap.cluster.x-k8s.io", "small")
    joining = workers["spec"]["template"]["spec"]["joinConfiguration"]["nodeRegistration"]
    assert joining["kubeletExtraArgs"] == [{"name": "node-labels", "value": "tier=demo"}]


def outdated(csctl: Csctl) -> list[str]:
    """What Cluster API says about references to older versions."""
    conditions = csctl.get("clusterclasses", "small")["status"]["conditions"]
    message = next(found["message"] for found in conditions if found["type"] == "RefVersionsUpToDate")
    return sorted(line for line in message.splitlines() if line.startswith("*"))
