from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from clusterstacks.devcluster import clusterapi, golang
from clusterstacks.devcluster.programs import CLUSTER_API

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
    module = tmp_path / "gomod" / f"{CLUSTER_API}@{golang.cluster_api_version()}"
    bases, webhook = module / "core/config/crd/bases", module / "core/config/webhook"
    bases.mkdir(parents=True)
    webhook.mkdir()
    (bases / "clusters.yaml").write_text(CRD)
    (webhook / "manifests.yaml").write_text(WEBHOOKS)
    return module


def test_manifests_are_copied_out_of_the_module_cache_once(tmp_path: Path, module: Path) -> None:
    environ = {"GOMODCACHE": str(tmp_path / "gomod"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    found = clusterapi.manifests(environ=environ)
    (module / "core/config/webhook/manifests.yaml").unlink()

    assert clusterapi.manifests(environ=environ) == found
    assert sorted(path.name for path in found.iterdir()) == ["crds", "webhooks.yaml"]


def test_the_module_cache_is_where_go_has_it() -> None:
    assert str(clusterapi.module_cache({"HOME": "/h"})) == "/h/go/pkg/mod"
    assert str(clusterapi.module_cache({"HOME": "/h", "GOPATH": "/a:/b"})) == "/a/pkg/mod"


def test_definitions_and_webhooks_point_at_the_manager_on_this_machine(tmp_path: Path, module: Path) -> None:
    clusterapi.keep(module / clusterapi.CONFIG, tmp_path / "kept")
    url = "https://127.0.0.1:9443"

    (crd,) = clusterapi.definitions(tmp_path / "kept", url, b"CA")
    (configuration,) = clusterapi.webhook_configurations(tmp_path / "kept", url, b"CA")

    assert crd["spec"]["group"] == "cluster.x-k8s.io"
    assert crd["spec"]["conversion"]["webhook"]["clientConfig"] == {"url": f"{url}/convert", "caBundle": "Q0E="}
    assert configuration["metadata"] == {"name": "cluster-api-core-mutating"}
    assert configuration["webhooks"][0]["clientConfig"] == {"url": f"{url}/mutate", "caBundle": "Q0E="}
