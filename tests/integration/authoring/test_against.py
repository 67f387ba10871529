"""Class objects validated by a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.csctl.authoring.linter import Linter
from clusterstacks.deliver.render.renderer import Renderer
from clusterstacks.dev.installation import install
from clusterstacks.model.errors import DependencyError
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from tests.support.builders.tiny_stack import TEMPLATE, tiny
from tests.support.servers.api_servers import started_api_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd

TEMPLATE_FILE = "cluster-class/templates/template.yaml"


def definition(group: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": {"type": "object", **spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            # Kubernetes wants to know who allows a group below k8s.io.
            "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [
                {"name": "v1beta2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}},
            ],
        },
    }


OPEN = {"x-kubernetes-preserve-unknown-fields": True}
FLAVOURS = {
    "properties": {
        "template": {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"flavour": {"type": "string", "enum": ["plain", "hot"]}}}
            },
        }
    }
}


@pytest.fixture(scope="module")
def management(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    definitions = [
        definition("cluster.x-k8s.io", "ClusterClass", OPEN),
        definition("infrastructure.cluster.x-k8s.io", "TinyClusterTemplate", FLAVOURS),
    ]
    for server in started_api_server("lint", etcd, tmp_path_factory):
        install(server.kubeconfig_path, definitions)
        yield server


@pytest.fixture
async def client(management: ApiServer) -> AsyncIterator[Client]:
    async with Pool() as pool:
        yield Client(parse_kubeconfig(management.kubeconfig, base=None), pool)


async def complaints(client: Client, template: str) -> list[tuple[str, int, str]]:
    renderer = Renderer()
    try:
        report = await Linter(renderer, client=client).lint(tiny({TEMPLATE_FILE: template}), "1-35")
    finally:
        await renderer.close()
    return [(one.rule, one.problem.line, one.problem.message) for one in report.findings]


async def test_accepted_class_has_no_finding_and_leaves_no_object(client: Client) -> None:
    assert await complaints(client, TEMPLATE) == []
    templates = await client.resource("infrastructure.cluster.x-k8s.io", "TinyClusterTemplate")
    assert (await client.list(templates)).items == []


async def test_every_error_of_the_server_is_a_finding(client: Client) -> None:
    ((rule, line, message),) = await complaints(client, TEMPLATE.replace("plain", "sour"))

    assert (rule, line) == ("server", 2)
    assert "spec.template.spec.flavour" in message


async def test_unserved_version_is_a_finding(client: Client) -> None:
    ((rule, _, message),) = await complaints(client, TEMPLATE.replace("v1beta2", "v1beta9"))

    assert rule == "server"
    assert "v1beta2, not infrastructure.cluster.x-k8s.io/v1beta9" in message


async def test_unserved_kind_is_a_finding(client: Client) -> None:
    other = TEMPLATE.replace("TinyClusterTemplate", "OtherTemplate")

    assert ("server", 2) in [(rule, line) for rule, line, _ in await complaints(client, other)]


async def test_unreachable_server_ends_lint() -> None:
    async with Pool() as pool:
        document = {
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "a", "user": {}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        }
        nowhere = Client(parse_kubeconfig(document, base=None), pool)
        with pytest.raises(DependencyError):
            await complaints(nowhere, TEMPLATE)
