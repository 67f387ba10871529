"""Changes that a real API server refuses: what works without help, what the message says, and that its remedy works."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery, Revision
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER
from clusterstacks.deliver.apply.policy import RECREATE_ANNOTATION
from clusterstacks.deliver.apply.targets import digest_of
from tests.integration.apply.test_foreign_fields import deliver, live_of
from tests.integration.apply.test_sweep import SPACE, Sweeps, User
from tests.support.builders.every_kind import stateful_set
from tests.support.builders.manifests import config_map, crd, deployment, named, with_annotation
from tests.support.running.world import install
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.integration.apply.conftest import Cluster

pytestmark = pytest.mark.regression("CASE-09")


def with_spec(manifest: Manifest, **fields: Any) -> Manifest:
    return {**manifest, "spec": {**manifest["spec"], **fields}}


async def refusal(cluster: Cluster, unique: str, manifest: Manifest) -> str:
    report = await Delivery(cluster.client).install(unique, Revision.of([manifest], digest_of(manifest)))
    (result,) = report.objects
    assert not result.synced
    return result.error


ROLLING = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}


@pytest.mark.parametrize("before", [{}, {"strategy": {"type": "RollingUpdate"}}, {"strategy": ROLLING}])
async def test_deployment_gets_another_strategy_than_the_default(
    cluster: Cluster, unique: str, before: Manifest
) -> None:
    first = with_spec(deployment(unique, SPACE), **before)
    user = User(cluster, first)
    await deliver(cluster, unique, first)
    uid = (await live_of(user))["metadata"]["uid"]

    await deliver(cluster, unique, with_spec(first, strategy={"type": "Recreate"}))

    live = await live_of(user)
    assert (live["spec"]["strategy"], live["metadata"]["uid"]) == ({"type": "Recreate"}, uid)
    assert {(one["manager"], one["operation"]) for one in live["metadata"]["managedFields"]} == {
        (FIELD_MANAGER, "Apply")
    }
    assert await Sweeps(cluster, unique).find() == []

    await deliver(cluster, unique, with_spec(first, **{"strategy": {}, **before}))
    assert (await live_of(user))["spec"]["strategy"]["type"] == "RollingUpdate"


async def test_stateful_set_gets_another_strategy_than_the_default(cluster: Cluster, unique: str) -> None:
    first = stateful_set(unique, SPACE)
    await deliver(cluster, unique, first)

    await deliver(cluster, unique, with_spec(first, updateStrategy={"type": "OnDelete"}))

    assert (await live_of(User(cluster, first)))["spec"]["updateStrategy"]["type"] == "OnDelete"


async def test_field_of_a_user_that_contradicts_the_manifest_is_named_and_the_remedy_works(
    cluster: Cluster, unique: str
) -> None:
    first = deployment(unique, SPACE)
    user = User(cluster, first)
    await deliver(cluster, unique, first)
    await user.patch({"spec": {"strategy": {"rollingUpdate": {"maxSurge": 5}}}}, manager="kubectl-edit")
    second = with_spec(first, strategy={"type": "Recreate"})

    error = await refusal(cluster, unique, second)

    assert error.startswith("spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is")
    assert f"delete Deployment.apps {SPACE}/{unique}, or allow its deletion" in error
    assert f"{RECREATE_ANNOTATION}: allowed in its definition" in error
    await deliver(cluster, unique, with_annotation(second, RECREATE_ANNOTATION, "allowed"))
    assert (await live_of(user))["spec"]["strategy"] == {"type": "Recreate"}


async def test_rule_of_a_definition_about_a_change_is_explained_and_the_remedy_works(
    cluster: Cluster, unique: str
) -> None:
    """Authors of definitions choose the words of such rules."""
    group = f"{unique}.example.org"
    definition = crd("Gadget", group)
    rule = {"rule": "self == oldSelf", "message": "choose it well, once"}
    size = {"type": "integer", "x-kubernetes-validations": [rule]}
    spec = {"type": "object", "properties": {"size": size}}
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {"spec": spec}}
    await install(cluster.user, [definition])
    first = named(f"{group}/v1", "Gadget", unique, SPACE, spec={"size": 1})
    user = User(cluster, first)
    await deliver(cluster, unique, first)

    async def obeyed() -> bool:
        error = await refusal(cluster, unique, with_spec(first, size=2))
        assert f"delete Gadget.{group} {SPACE}/{unique}, or allow its deletion" in error
        return error.startswith("spec.size: choose it well, once; delete")

    await eventually(obeyed, about="the rule")

    # An object that would not be created has no such remedy.
    assert RECREATE_ANNOTATION not in await refusal(cluster, unique, with_spec(first, size="2"))
    await deliver(cluster, unique, with_annotation(with_spec(first, size=2), RECREATE_ANNOTATION, "allowed"))
    assert (await live_of(user))["spec"] == {"size": 2}


async def test_refused_change_of_a_secret_names_the_field_and_never_a_value(cluster: Cluster, unique: str) -> None:
    first = named("v1", "Secret", unique, SPACE, type="example.org/first", stringData={"password": "a-password"})
    await deliver(cluster, unique, first)
    second = {**first, "type": "example.org/second", "stringData": {"password": "b-password"}}

    error = await refusal(cluster, unique, second)

    assert error.startswith(f"type: field is immutable; delete Secret {SPACE}/{unique}, or allow its deletion")
    assert not [word for word in ("a-password", "b-password", "YS1wYXNzd29yZA", "example.org") if word in error]
    await deliver(cluster, unique, with_annotation(second, RECREATE_ANNOTATION, "allowed"))
    assert (await live_of(User(cluster, first)))["type"] == "example.org/second"


async def test_object_that_would_not_be_created_is_never_deleted(cluster: Cluster, unique: str) -> None:
    first = with_annotation(deployment(unique, SPACE), RECREATE_ANNOTATION, "allowed")
    await deliver(cluster, unique, first, config_map(unique, SPACE))
    uid = (await live_of(User(cluster, first)))["metadata"]["uid"]

    error = await refusal(cluster, unique, with_spec(first, replicas=-1))

    assert "422 Invalid: spec.replicas" in error
    assert (await live_of(User(cluster, first)))["metadata"]["uid"] == uid
