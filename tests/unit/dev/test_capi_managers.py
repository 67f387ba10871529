from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev import capi_managers, go_build
from clusterstacks.dev.toolchain import ALWAYS, CLUSTER_API, TOOLS

if TYPE_CHECKING:
    from pathlib import Path

CRD = """
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusters.cluster.x-k8s.io}
spec: {group: cluster.x-k8s.io}
"""
WEBHOOKS = """
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: mutating}
webhooks:
- name: default.cluster.x-k8s.io
  clientConfig: {service: {name: webhook-service, namespace: system, path: /mutate}}
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    module = tmp_path / "gomod" / f"{CLUSTER_API}@{go_build.cluster_api_version()}"
    bases, webhook = module / "core/config/crd/bases", module / "core/config/webhook"
    bases.mkdir(parents=True)
    webhook.mkdir()
    (bases / "clusters.yaml").write_text(CRD)
    (bases.parent / "kustomization.yaml").write_text("labels: [{pairs: {cluster.x-k8s.io/v1beta2: v1beta2}}]")
    (webhook / "manifests.yaml").write_text(WEBHOOKS)
    return module


def test_manifests_are_copied_from_the_module_cache_once(tmp_path: Path, module: Path) -> None:
    environ = {"GOMODCACHE": str(tmp_path / "gomod"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = capi_managers.manifests(capi_managers.CORE, environ=environ)
    (module / "core/config/webhook/manifests.yaml").unlink()

    assert capi_managers.manifests(capi_managers.CORE, environ=environ) == found
    assert sorted(path.name for path in found.iterdir()) == ["crds", "kustomization.yaml", "webhooks.yaml"]


def test_module_cache_is_the_one_of_go() -> None:
    assert str(capi_managers.module_cache({"HOME": "/h"})) == "/h/go/pkg/mod"
    assert str(capi_managers.module_cache({"HOME": "/h", "GOPATH": "/a:/b"})) == "/a/pkg/mod"


def test_crds_and_webhooks_refer_to_the_local_manager(tmp_path: Path, module: Path) -> None:
    capi_managers.keep(module / capi_managers.CORE.config, tmp_path / "kept")
    url = "https://127.0.0.1:9443"

    (crd,) = capi_managers.definitions(tmp_path / "kept", url, b"CA")
    (configuration,) = capi_managers.webhook_configurations(capi_managers.CORE, tmp_path / "kept", url, b"CA")

    assert crd["metadata"]["labels"] == {"cluster.x-k8s.io/v1beta2": "v1beta2"}
    assert crd["spec"]["group"] == "cluster.x-k8s.io"
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"] == {"url": f"{url}/convert", "caBundle": "Q0E="}
    assert configuration["metadata"] == {"name": "cluster-api-mutating"}
    assert configuration["webhooks"][0]["clientConfig"] == {"url": f"{url}/mutate", "caBundle": "Q0E="}


def test_manifests_kept_without_labels_are_read(tmp_path: Path, module: Path) -> None:
    capi_managers.keep(module / capi_managers.CORE.config, tmp_path / "kept")
    (tmp_path / "kept" / "kustomization.yaml").unlink()

    (crd,) = capi_managers.definitions(tmp_path / "kept", "https://127.0.0.1:9443", b"CA")

    assert crd["metadata"]["labels"] == {}
    assert capi_managers.definition_names(tmp_path / "kept") == {"clusters.cluster.x-k8s.io"}


def test_only_requested_managers_and_their_programs_are_added() -> None:
    assert capi_managers.chosen(()) == (capi_managers.CORE,)
    assert capi_managers.programs_of(capi_managers.chosen(())) == ALWAYS

    managers = capi_managers.chosen(("kubeadm", "kubeadm"))
    assert [manager.name for manager in managers] == ["cluster-api", "kubeadm-bootstrap", "kubeadm-control-plane"]
    assert set(capi_managers.programs_of(managers)) == set(TOOLS) - {
        "clusterctl",
        "helm",
        "kubelet",
        "kube-proxy",
        "kube-scheduler",
        "kwok",
        "orc",
    }
