"""Objects that other programs made, and that become part of an addon, have no fields that a later release drops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.deliver.apply.delivery import Delivery
from clusterstacks.deliver.apply.ownership import FIELD_MANAGER, OWNED_LABEL, PART_OF_LABEL
from tests.integration.apply.test_foreign_fields import autoscaler, deliver, live_of
from tests.integration.apply.test_sweep import SPACE, Sweeps, User
from tests.support.builders.manifests import config_map, deployment, named

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from tests.integration.apply.conftest import Cluster

pytestmark = pytest.mark.regression("CASE-08")


async def create_as(cluster: Cluster, manager: str, manifest: Manifest) -> User:
    """Create an object as a client without server-side apply."""
    client, user = cluster.new_client(user_agent=manager), User(cluster, manifest)
    await client.create(await user.resource(), manifest)
    await client.close()
    return user


async def apply_as(cluster: Cluster, manager: str, manifest: Manifest) -> User:
    user = User(cluster, manifest)
    await cluster.user.apply(await user.resource(), manifest, manager=manager)
    return user


def managers(live: Manifest) -> set[tuple[str, str]]:
    return {(entry["manager"], entry["operation"]) for entry in live["metadata"]["managedFields"]}


def application(name: str, *, old: bool) -> Manifest:
    manifest = deployment(name, SPACE)
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "A", "value": "1"}, *([{"name": "DEBUG", "value": "true"}] if old else [])]
    if old:
        container["args"] = ["--insecure"]
    return manifest


PROGRAMS = [
    ("kubectl-client-side-apply", create_as),
    ("kubectl", apply_as),
    ("helm", create_as),
    ("helm", apply_as),
    ("manager", create_as),  # a ClusterResourceSet
    ("kustomize-controller", apply_as),
]


@pytest.mark.parametrize(("program", "write"), PROGRAMS)
async def test_fields_that_a_later_release_drops_go(cluster: Cluster, unique: str, program: str, write: Any) -> None:
    old = [config_map(unique, SPACE, keep="1", legacy="unused"), application(unique, old=True)]
    new = [config_map(unique, SPACE, keep="1"), application(unique, old=False)]
    settings, workload = [await write(cluster, program, one) for one in old]
    await settings.patch({"data": {"theirs": "1"}}, manager="another-program")

    results = await deliver(cluster, unique, *old)

    assert not any(one.created for one in results.values())
    assert managers(await live_of(settings)) == {("another-program", "Update"), (FIELD_MANAGER, "Apply")}

    await deliver(cluster, unique, *new)

    assert (await live_of(settings))["data"] == {"keep": "1", "theirs": "1"}
    (container,) = (await live_of(workload))["spec"]["template"]["spec"]["containers"]
    assert ([one["name"] for one in container["env"]], container.get("args")) == (["A"], None)
    assert await Sweeps(cluster, unique).find() == []


async def test_fields_that_the_first_release_lacks_go_and_those_of_an_autoscaler_stay(
    cluster: Cluster, unique: str
) -> None:
    old = application(unique, old=True)
    user = await create_as(cluster, "helm", old)
    scaler = autoscaler(old)
    await apply_as(cluster, "helm", scaler)
    await user.patch({"spec": {"replicas": 6}}, subresource="scale", manager="kube-controller-manager")

    await deliver(cluster, unique, application(unique, old=False), scaler)

    live = await live_of(user)
    (container,) = live["spec"]["template"]["spec"]["containers"]
    assert ([one["name"] for one in container["env"]], container.get("args")) == (["A"], None)
    assert live["spec"]["replicas"] == 6


async def test_what_a_user_put_on_an_object_that_shares_no_field_stays(cluster: Cluster, unique: str) -> None:
    """Namespaces exist before the addons, and users label them."""
    labels = {"pod-security.kubernetes.io/enforce": "privileged"}
    theirs = named("v1", "Namespace", unique)
    theirs["metadata"]["labels"] = labels
    user = await create_as(cluster, "kubectl-client-side-apply", theirs)

    for version in ("1", "2"):
        addon = [named("v1", "Namespace", unique), config_map(unique, unique, version=version)]
        await deliver(cluster, unique, *addon)
        live = await live_of(user)
        assert live["metadata"]["labels"].items() >= labels.items()


async def test_object_that_is_handed_over_by_its_label_loses_the_other_fields_of_its_manager(
    cluster: Cluster, unique: str
) -> None:
    ours = config_map(unique, SPACE, key="ours")
    user = await apply_as(cluster, "somebody", config_map(unique, SPACE, key="theirs", legacy="1"))
    with pytest.raises(AssertionError, match="is not managed by this operator"):
        await deliver(cluster, unique, ours)
    records = await Delivery(cluster.client).records()
    assert records[unique].objects[0].uid == ""
    secret = await cluster.live("Secret", f"cluster-stack-addon-{unique}", "kube-system")
    assert secret is not None
    part_of = secret["metadata"]["labels"]["applyset.kubernetes.io/id"]
    await user.patch({"metadata": {"labels": {PART_OF_LABEL: part_of}}}, manager="kubectl-label")

    results = await deliver(cluster, unique, ours)

    assert [one.manager for one in results["ConfigMap"].conflicts] == ["somebody"]
    live = await live_of(user)
    assert live["data"] == {"key": "ours"}
    assert managers(live) == {(FIELD_MANAGER, "Apply")}


async def restore_backup(user: User, backup: Manifest) -> None:
    """Create an object again as a backup has it, without managed fields."""
    kept = {key: backup["metadata"][key] for key in ("name", "namespace", "labels")}
    await user.delete()
    await create_as(user.cluster, "velero-server", {**backup, "metadata": kept})


@pytest.mark.parametrize("by_sweep", [True, False])
async def test_fields_of_an_earlier_revision_that_a_backup_brings_back_go(
    cluster: Cluster,
    unique: str,
    by_sweep: bool,  # noqa: FBT001
) -> None:
    user = User(cluster, config_map(unique, SPACE))
    await deliver(cluster, unique, config_map(unique, SPACE, key="1", legacy="1"))
    backup = await live_of(user)
    await deliver(cluster, unique, config_map(unique, SPACE, key="1"))
    assert (await live_of(user))["data"] == {"key": "1"}
    await restore_backup(user, backup)

    if by_sweep:
        (drift,) = await Sweeps(cluster, unique).restore()
        assert (drift.change, drift.error) == ("was changed", "")
    else:
        await deliver(cluster, unique, config_map(unique, SPACE, key="1"), config_map(f"{unique}-new", SPACE))

    live = await live_of(user)
    assert live["data"] == {"key": "1"}
    assert live["metadata"]["labels"][OWNED_LABEL] == "owned"
    assert managers(live) == {(FIELD_MANAGER, "Apply")}
    assert await Sweeps(cluster, unique).find() == []


async def test_fields_that_a_backup_restores_with_their_managers_are_drift(cluster: Cluster, unique: str) -> None:
    old, new = deployment(unique, SPACE), deployment(unique, SPACE)
    old["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 5}}
    user = User(cluster, old)
    await deliver(cluster, unique, old)
    backup = await live_of(user)
    await deliver(cluster, unique, new)
    for path in (("spec", "strategy"), ("metadata", "managedFields")):  # one after the other, as Velero does
        operations = [{"op": "replace", "path": f"/{'/'.join(path)}", "value": backup[path[0]][path[1]]}]
        await cluster.user.json_patch(await user.resource(), unique, operations, SPACE)

    (drift,) = await Sweeps(cluster, unique).restore()

    assert [field.path for field in drift.fields] == [".spec.strategy.rollingUpdate.maxSurge"]
    assert (await live_of(user))["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == "25%"
    assert await Sweeps(cluster, unique).find() == []
