"""Every verb against a real API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import (
    AlreadyExists,
    Conflict,
    FieldCause,
    FieldConflict,
    Forbidden,
    Invalid,
    KindNotServed,
    NotFound,
    Unauthorized,
)
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.kube.resources import Resource

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.pool import Pool

MANAGER = "cluster-stack-operator"


def config_map(name: str, **data: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default", "labels": {"test": name}},
        "data": data,
    }


def deployment(name: str, **spec: Any) -> Manifest:
    labels = {"app": name}
    containers = [{"name": "main", "image": "registry.example/main:1"}]
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            **spec,
        },
    }


@pytest.fixture
async def config_maps(client: Client) -> Resource:
    return await client.resource("", "ConfigMap")


@pytest.fixture
async def deployments(client: Client) -> Resource:
    return await client.resource("apps", "Deployment")


async def test_server_is_ready_and_reports_its_version(client: Client) -> None:
    await client.ready()

    version = await client.version()
    assert version.git_version.startswith("v1.")
    assert f"v{version.minor}." in version.git_version


async def test_discovery_finds_kinds_in_their_preferred_version(client: Client) -> None:
    secret = await client.resource("", "Secret")
    crd = await client.resource("apiextensions.k8s.io", "CustomResourceDefinition")

    assert (secret.api_version, secret.plural, secret.namespaced) == ("v1", "secrets", True)
    assert (crd.api_version, crd.namespaced) == ("apiextensions.k8s.io/v1", False)
    assert (await client.resource("policy", "PodDisruptionBudget", "v1beta1")).version == "v1"
    with pytest.raises(KindNotServed, match=r"does not serve Nothing\.example\.com"):
        await client.resource("example.com", "Nothing")


async def test_object_lives_from_create_to_delete(client: Client, config_maps: Resource) -> None:
    created = await client.create(config_maps, config_map("life", a="1"))
    with pytest.raises(AlreadyExists):
        await client.create(config_maps, config_map("life"))

    patched = await client.merge_patch(config_maps, "life", {"data": {"b": "2"}}, "default", manager="somebody")
    assert patched["data"] == {"a": "1", "b": "2"}
    assert patched["metadata"]["managedFields"][-1]["manager"] == "somebody"
    operations = [{"op": "replace", "path": "/data/a", "value": "3"}]
    assert (await client.json_patch(config_maps, "life", operations, "default"))["data"]["a"] == "3"
    with pytest.raises(Conflict, match="delete ConfigMap default/life: 409 Conflict"):
        await client.delete(config_maps, "life", "default", uid="another")
    await client.delete(config_maps, "life", "default", uid=created["metadata"]["uid"])

    assert await client.find(config_maps, "life", "default") is None
    with pytest.raises(NotFound, match='get ConfigMap default/life: 404 NotFound: configmaps "life" not found'):
        await client.get(config_maps, "life", "default")
    with pytest.raises(NotFound):
        await client.delete(config_maps, "life", "default")


async def test_apply_creates_changes_and_removes_what_is_left_out(client: Client, config_maps: Resource) -> None:
    await client.apply(config_maps, config_map("applied", a="1", b="2"), manager=MANAGER)

    dry = await client.apply(config_maps, config_map("applied", a="9"), manager=MANAGER, dry_run=True)
    applied = await client.apply(config_maps, config_map("applied", a="1"), manager=MANAGER)

    assert dry["data"] == {"a": "9"}
    assert applied["data"] == {"a": "1"}
    assert (await client.get(config_maps, "applied", "default"))["data"] == {"a": "1"}


async def test_apply_names_fields_of_other_managers_until_forced(client: Client, deployments: Resource) -> None:
    await client.apply(deployments, deployment("shared", replicas=1), manager='the "other"')

    with pytest.raises(Conflict) as caught:
        await client.apply(deployments, deployment("shared", replicas=2), manager=MANAGER)
    assert caught.value.conflicts == (FieldConflict('the "other"', ".spec.replicas"),)
    assert str(caught.value) == (
        'apply Deployment.apps default/shared: 409 Conflict: .spec.replicas is managed by the "other"'
    )

    forced = await client.apply(deployments, deployment("shared", replicas=2), manager=MANAGER, force=True)
    assert forced["spec"]["replicas"] == 2


async def test_json_patch_of_a_status_is_refused_when_a_test_in_it_fails(client: Client, deployments: Resource) -> None:
    written = await client.apply(deployments, deployment("tested"), manager=MANAGER)
    value = {"op": "add", "path": "/status/observedGeneration", "value": 7}

    for uid, generation in (("another", 0), (written["metadata"]["uid"], 7)):
        operations = [{"op": "test", "path": "/metadata/uid", "value": uid}, value]
        try:
            after = await client.json_patch(deployments, "tested", operations, "default", subresource="status")
        except Invalid:
            after = await client.get(deployments, "tested", "default")
        assert after["status"].get("observedGeneration", 0) == generation


async def test_apply_writes_a_status(client: Client, deployments: Resource) -> None:
    await client.apply(deployments, deployment("reported"), manager=MANAGER)
    status = {**deployment("reported"), "status": {"observedGeneration": 1}}

    applied = await client.apply(deployments, status, manager=MANAGER, subresource="status", force=True)

    assert applied["status"]["observedGeneration"] == 1
    patch = {"status": {"readyReplicas": 1, "replicas": 1}}
    patched = await client.merge_patch(deployments, "reported", patch, "default", subresource="status")
    assert patched["status"]["readyReplicas"] == 1


async def test_broken_object_is_refused_with_its_fields(client: Client, deployments: Resource) -> None:
    broken = deployment("broken", replicas=-1)
    broken["spec"]["template"]["spec"]["containers"][0]["name"] = "No Name"

    with pytest.raises(Invalid) as caught:
        await client.apply(deployments, broken, manager=MANAGER)

    fields = {cause.field: cause.reason for cause in caught.value.causes}
    assert fields["spec.replicas"] == "FieldValueInvalid"
    assert "spec.template.spec.containers[0].name" in fields
    assert str(caught.value).startswith("apply Deployment.apps default/broken: 422 Invalid: spec.")


async def test_object_that_does_not_fit_its_schema_is_refused_at_once(
    client: Client, deployments: Resource, answers: list[tuple[str, int]]
) -> None:
    answers.clear()

    with pytest.raises(Invalid) as caught:
        await client.apply(deployments, deployment("misfit", nonsense=1), manager=MANAGER)

    assert answers == [("PATCH", 500)]
    assert caught.value.causes == (FieldCause("spec.nonsense", "SchemaMismatch", "field not declared in schema"),)


async def test_secret_never_shows_up_in_a_refusal(client: Client) -> None:
    secrets = await client.resource("", "Secret")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}

    for content in ({"data": {"key": "hunter2 is no base64"}}, {"stringData": {"key": ["hunter2"]}}):
        with pytest.raises(Exception, match="the server's message is withheld") as caught:
            await client.apply(secrets, {**secret, **content}, manager=MANAGER)
        assert "hunter2" not in str(caught.value)


async def test_missing_namespace_is_an_object_that_is_not_there(client: Client, config_maps: Resource) -> None:
    lost = config_map("lost")
    lost["metadata"]["namespace"] = "nowhere"

    with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
        await client.apply(config_maps, lost, manager=MANAGER)


async def test_path_that_is_not_served_is_not_a_missing_object(client: Client) -> None:
    gone = Resource("apps", "v1beta1", "Deployment", "deployments", namespaced=True)
    unknown = Resource("example.com", "v1", "Thing", "things", namespaced=True)

    for resource in (gone, unknown):
        with pytest.raises(KindNotServed):
            await client.find(resource, "any", "default")
        with pytest.raises(KindNotServed):
            await client.list(resource)


async def test_name_cannot_change_the_request_path(client: Client, config_maps: Resource) -> None:
    for name in ("../secrets/s", "..", "a/b", "a%2Fb", ""):
        with pytest.raises(SpecError):
            await client.delete(config_maps, name, "default")


async def test_names_with_colons_are_sent_as_they_are(client: Client) -> None:
    roles = await client.resource("rbac.authorization.k8s.io", "ClusterRole")
    role = {"apiVersion": roles.api_version, "kind": roles.kind, "metadata": {"name": "demo:sub:view"}, "rules": []}

    await client.apply(roles, role, manager=MANAGER)

    assert (await client.get(roles, "demo:sub:view"))["metadata"]["name"] == "demo:sub:view"


async def test_long_list_is_read_in_pages(
    client: Client, config_maps: Resource, monkeypatch: pytest.MonkeyPatch, answers: list[tuple[str, int]]
) -> None:
    for number in range(7):
        await client.apply(config_maps, {**config_map(f"page-{number}"), "data": {"of": "pages"}}, manager=MANAGER)
    everything = await client.list(config_maps)
    monkeypatch.setattr("clusterstacks.net.kube.paged_list.PAGE_SIZE", 2)
    answers.clear()

    paged = await client.list(config_maps)

    assert paged.items == everything.items
    assert len(answers) >= 4
    assert {(item["apiVersion"], item["kind"]) for item in paged.items} == {("v1", "ConfigMap")}
    assert paged.resource_version.isdecimal()


async def test_lists_are_narrowed_by_namespace_label_and_field(client: Client, config_maps: Resource) -> None:
    await client.apply(config_maps, config_map("wanted"), manager=MANAGER)

    by_label = await client.list(config_maps, "default", labels="test in (wanted,other)")
    by_field = await client.list(config_maps, fields="metadata.name=wanted")
    elsewhere = await client.list(config_maps, "kube-system", labels="test=wanted")

    assert [item["metadata"]["name"] for item in by_label.items] == ["wanted"]
    assert by_field.items == by_label.items
    assert elsewhere.items == []


async def test_metadata_lists_carry_the_real_kind_and_nothing_else(client: Client, config_maps: Resource) -> None:
    await client.apply(config_maps, config_map("slim", big="x" * 1000), manager=MANAGER)

    listing = await client.list_metadata(config_maps, "default", labels="test=slim")

    assert [sorted(item) for item in listing.items] == [["apiVersion", "kind", "metadata"]]
    assert (listing.items[0]["apiVersion"], listing.items[0]["kind"]) == ("v1", "ConfigMap")
    assert listing.resource_version.isdecimal()


async def test_missing_permission_is_forbidden(api_kubeconfig: Manifest, pool: Pool) -> None:
    user = api_kubeconfig["users"][0]["user"]
    impersonating = {**api_kubeconfig, "users": [{"name": "n", "user": {**user, "as": "nobody"}}]}
    context = {"cluster": impersonating["clusters"][0]["name"], "user": "n"}
    impersonating["contexts"] = [{"name": "c", "context": context}]
    impersonating["current-context"] = "c"
    nobody = Client(parse_kubeconfig(impersonating, base=None), pool)

    with pytest.raises(Forbidden, match="list Secret: 403 Forbidden: the server's message is withheld"):
        await nobody.list(await nobody.resource("", "Secret"))

    stranger = {**impersonating, "users": [{"name": "n", "user": {"token": "wrong"}}]}
    with pytest.raises(Unauthorized):
        await Client(parse_kubeconfig(stranger, base=None), pool).version()
