"""After the documented removal of this operator none of its webhooks is left."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from clusterstacks.csctl.install.installed_objects import webhook_configurations
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.resources import Resource
from clusterstacks.operator.webhooks.configuration import LABELS, Endpoint, WebhookScope, configuration
from tests.support.fakes.api_server import FakeApi

HOW_TO = Path(__file__).parents[2] / "docs/how-to"
RESOURCE = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)
SCOPES = [WebhookScope(), WebhookScope(namespace="go1"), WebhookScope(namespace="team", watch_filter="blue")]

pytestmark = pytest.mark.regression("DROP-M8")


@pytest.mark.parametrize("page", ["replace-the-go-operator.md", "uninstall.md", "run-the-operator.md"])
@pytest.mark.parametrize("scope", SCOPES, ids=lambda scope: scope.name)
def test_command_of_the_page_selects_the_webhooks_of_each_operator(page: str, scope: WebhookScope) -> None:
    labels = configuration(Endpoint(ObjectKey("go1", "webhooks")), scope, b"CA")["metadata"]["labels"]
    commands = re.findall(r"kubectl delete (validatingwebhookconfigurations? .*?)(?:`|$)", _text(page), re.MULTILINE)
    ours = [command for command in commands if "cso-" not in command and "NAME" not in command]
    assert ours
    for command in ours:
        name, _, value = command.partition("--selector ")[2].partition("=")
        assert labels.get(name) == value


@pytest.mark.parametrize("labels", [LABELS, {}], ids=["labelled", "of an early version"])
async def test_csctl_finds_the_webhooks_of_an_installation_by_their_owner(labels: dict[str, str]) -> None:
    api = FakeApi(RESOURCE)
    for namespace in ("go1", "other"):
        manifest = configuration(Endpoint(ObjectKey(namespace, "webhooks")), WebhookScope(namespace=namespace), b"CA")
        name = f"renamed-{namespace}" if labels else manifest["metadata"]["name"]
        await api.create(RESOURCE, {**manifest, "metadata": {"name": name, "labels": labels}})

    found = await webhook_configurations(api, "go1")

    assert [one.name for one in found] == ["renamed-go1" if labels else "cluster-stack-operator-go1"]


def _text(page: str) -> str:
    return (HOW_TO / page).read_text()
