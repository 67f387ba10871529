"""LIVE-H4: messages of a workload cluster about a Secret are not quoted with its content."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.kinds.names import ADDONS_READY_CONDITION, CLUSTER_KIND, Kind
from clusterstacks.net.kube.errors import ApiError
from tests.support.builders.stacks import templates
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

pytestmark = pytest.mark.regression("LIVE-H4")

GROUP = "admissionregistration.k8s.io"
CONTENT = "aHVudGVyMg=="


def secret(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {"key": CONTENT},
    }


async def refuse(world: World, name: str, reason: str) -> None:
    """Refuse the Secret of a name, quoting its content, and wait until the policy is in force."""
    rules = [{"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE"], "resources": ["secrets"]}]
    validation = {"expression": "false", "messageExpression": "'it holds ' + string(object.data.key)", "reason": reason}
    spec: dict[str, Any] = {
        "matchConstraints": {"resourceRules": rules},
        "matchConditions": [{"name": "mine", "expression": f"request.name == '{name}'"}],
        "validations": [validation],
    }
    binding = {"policyName": name, "validationActions": ["Deny"]}
    for kind, content in (("ValidatingAdmissionPolicy", spec), ("ValidatingAdmissionPolicyBinding", binding)):
        resource = await world.workload.resource(GROUP, kind)
        manifest = {"apiVersion": resource.api_version, "kind": kind, "metadata": {"name": name}, "spec": content}
        await world.workload.create(resource, manifest)

    async def in_force() -> bool:
        return bool(await refusal(world, name))

    await eventually(in_force, about="the policy in force")


async def refusal(world: World, name: str) -> str:
    secrets = await world.workload.resource("", "Secret")
    try:
        await world.workload.apply(secrets, secret(name), manager="tests", dry_run=True)
    except ApiError as error:
        return f"{error.status} {error.code} {error.message}"
    return ""


@pytest.fixture
async def names(world: World) -> AsyncIterator[list[str]]:
    """Names of policies that are deleted at the end."""
    given = [f"{world.namespace}-{number}" for number in range(3)]
    yield given
    for kind in ("ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"):
        resource = await world.workload.resource(GROUP, kind)
        for name in given:
            if await world.workload.find(resource, name):
                await world.workload.delete(resource, name)


@pytest.mark.regression("LIVE-H4")
async def test_policy_message_in_a_status_does_not_quote_a_secret(world: World, names: list[str]) -> None:
    reasons = {403: "Forbidden", 413: "RequestEntityTooLarge", 422: "Invalid"}
    for name, (status, reason) in zip(names, reasons.items(), strict=True):
        await refuse(world, name, reason)
        found = await refusal(world, name)

        about = f"apply Secret kube-system/{name}: {status} {reason}"
        assert found.startswith(f"{status} {reason} {about}: the server's message is withheld")
        assert CONTENT not in found


@pytest.mark.regression("LIVE-H4")
async def test_rejected_secret_of_an_addon_is_in_no_status_event_or_log(
    world: World, names: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    refused, release = names[0], world.stack.release("v1")
    await refuse(world, refused, "Forbidden")
    world.publish(release, world.stack.files("v1", {"cni": templates(secret(refused))}))
    async with world.operator():
        await world.create(world.stack.manifest(world.namespace, "v1"))
        await world.release_ready(release)
        cluster = await world.cluster("one", release.class_name)
        words = [f"Secret kube-system/{refused}", "403 Forbidden", "is withheld"]
        await world.says(Kind.CLUSTER_ADDON, "cluster-addon-one", "HelmChartApplied", words=words)
        await world.says(CLUSTER_KIND, "one", ADDONS_READY_CONDITION, words=words)
        addon = await world.addon("one")
        objects = [addon, await world.get(CLUSTER_KIND, "one")]
        events = [*await world.events(addon), *await world.events(cluster)]

    assert CONTENT not in json.dumps([objects, events])
    assert CONTENT not in caplog.text
