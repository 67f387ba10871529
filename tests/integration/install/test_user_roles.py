"""The chart's roles for users give what their names say: real ServiceAccounts with the roles of Kubernetes."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, GROUP, Kind
from clusterstacks.model.kinds.shards import MAIN_LEASE
from clusterstacks.model.yaml import load_all
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.kubeconfig import parse_kubeconfig
from clusterstacks.net.pool import Pool
from deploy.manifests import INSTALL
from tests.support.running.admission import refusal
from tests.support.running.kubectl import Kubectl
from tests.support.servers.api_servers import started_api_server
from tests.support.servers.garbage_collector import garbage_collector
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.dev.etcd import Etcd
    from clusterstacks.model.objects import Manifest

ROLES = ("view", "edit", "admin")
NAMESPACE, OTHER = "team", "other"
HOME = "cluster-stack-system"
RBAC = "rbac.authorization.k8s.io"
PAGE = Path(__file__).parents[3] / "docs/how-to/share-between-teams.md"

READ = frozenset({"get", "list", "watch"})
CHANGE = frozenset({"create", "update", "patch", "delete", "deletecollection"})
WORDS = {"": frozenset[str](), "read": READ, "write": READ | CHANGE}
BOUND_EVERYWHERE = "read, with a ClusterRoleBinding"
VERBS = sorted(WORDS["write"])

OTHERS: dict[tuple[str, str], dict[str, frozenset[str]]] = {
    # Secrets hold kubeconfigs and credentials of sources: as Kubernetes grants them, the chart adds nothing.
    ("", "secrets"): {"edit": WORDS["write"], "admin": WORDS["write"]},
    ("", "events"): {"view": READ, "edit": WORDS["write"], "admin": WORDS["write"]},
    ("", "namespaces"): {"view": READ, "edit": READ, "admin": READ},
    (CLUSTER_API_GROUP, "clusters"): {},
    (CLUSTER_API_GROUP, "clusters/status"): {},
    (CLUSTER_API_GROUP, "clusterclasses"): {},
    ("infrastructure.cluster.x-k8s.io", "anytemplates"): {},
    ("infrastructure.clusterstack.x-k8s.io", "anyclusterstackreleases"): {},
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): {},
    ("apiextensions.k8s.io", "customresourcedefinitions"): {},
}


def documented() -> dict[str, dict[str, str]]:
    """Return what the page says: by role and kind, a word of ``WORDS``."""
    head, *rows = re.findall(r"^\| (.+) \|$", PAGE.read_text(), re.MULTILINE)[:4]
    kinds = [cell.strip() for cell in head.split("|")[1:]]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows if "---" not in row]
    return {role.strip("`"): dict(zip(kinds, words, strict=True)) for role, *words in cells}


@pytest.fixture(scope="module")
def roles_server(etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Yield a server with the chart's roles, and with ServiceAccounts of one role each in a namespace.

    It has no other tests, because the roles of Kubernetes have these rules for good.
    """
    parts = ("CustomResourceDefinition", "ClusterRole")
    objects = [one for one in load_all(INSTALL.read_text(), name=INSTALL.name) if one["kind"] in parts]
    objects += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": one}} for one in (NAMESPACE, OTHER)]
    for role in ROLES:
        metadata = {"name": role, "namespace": NAMESPACE}
        objects.append({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        subjects = [{"kind": "ServiceAccount", "name": role, "namespace": NAMESPACE}]
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        binding = {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": metadata}
        objects.append({**binding, "roleRef": reference, "subjects": subjects})
    with contextmanager(started_api_server)("roles", etcd, tmp_path_factory) as server:
        kubectl = Kubectl(server.kubeconfig_path, NAMESPACE)
        kubectl("apply", "--server-side", "-f-", manifest={"apiVersion": "v1", "kind": "List", "items": objects})
        kubectl("wait", "--for=condition=Established", "--all", "customresourcedefinitions")
        with garbage_collector(server, tmp_path_factory.mktemp("aggregation"), "clusterrole-aggregation-controller"):
            yield server


@pytest.fixture
async def users(roles_server: ApiServer) -> AsyncIterator[dict[str, Client]]:
    """Yield clients of the ServiceAccounts, once the roles of Kubernetes have the rules of the chart's."""
    kubectl = Kubectl(roles_server.kubeconfig_path, NAMESPACE)
    made: dict[str, Client] = {}
    async with Pool() as pool:
        for role in ROLES:
            document = yaml.safe_load(roles_server.kubeconfig_path.read_text())
            document["users"][0]["user"] = {"token": kubectl("create", "token", role).strip()}
            made[role] = Client(parse_kubeconfig(document, base=None), pool)

        async def known() -> bool:
            last = {"view": "get", "edit": "deletecollection", "admin": "deletecollection"}
            return all(
                [await _may(made[role], GROUP, "clusteraddons", verb) for role in ROLES for verb in ("get", last[role])]
            )

        await eventually(known, about="the chart's part of the roles")
        yield made


async def _may(user: Client, group: str, resource: str, verb: str, namespace: str = NAMESPACE, name: str = "") -> bool:
    """Ask the API server, as ``kubectl auth can-i`` does."""
    resource, _, subresource = resource.partition("/")
    attributes = {"group": group, "resource": resource, "subresource": subresource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {**attributes, "namespace": namespace, "name": name}},
    }
    kind = await user.resource("authorization.k8s.io", "SelfSubjectAccessReview")
    return (await user.create(kind, review))["status"]["allowed"] is True


async def _verbs(user: Client, group: str, resource: str, namespace: str = NAMESPACE) -> frozenset[str]:
    return frozenset([verb for verb in VERBS if await _may(user, group, resource, verb, namespace)])


async def test_each_role_has_exactly_the_verbs_of_its_name(users: dict[str, Client]) -> None:
    table = documented()
    plurals = {f"{kind}s": (kind.group, f"{kind.lower()}s") for kind in Kind}
    assert {*table} == {*ROLES}
    assert all({*row} == {*plurals} for row in table.values())

    for role, user in users.items():
        for kinds, (group, plural) in plurals.items():
            namespace, word = ("", "") if table[role][kinds] == BOUND_EVERYWHERE else (NAMESPACE, table[role][kinds])
            assert await _verbs(user, group, plural, namespace) == WORDS[word], (role, plural)
            for subresource in ("status", "finalizers", "scale"):
                assert await _verbs(user, group, f"{plural}/{subresource}") == WORDS[""], (role, plural, subresource)
            assert await _verbs(user, group, plural, OTHER) == WORDS[""], (role, plural, "of another namespace")
        for (group, resource), granted in OTHERS.items():
            assert await _verbs(user, group, resource) == granted.get(role, WORDS[""]), (role, resource)
        for verb in VERBS:
            assert not await _may(user, "coordination.k8s.io", "leases", verb, HOME, MAIN_LEASE), (role, verb)
            assert not await _may(user, "", "secrets", verb, HOME), (role, verb)


async def test_a_cluster_role_binding_adds_only_the_rules_for_reading(
    users: dict[str, Client], roles_server: ApiServer
) -> None:
    kubectl = Kubectl(roles_server.kubeconfig_path, NAMESPACE)
    for role in ROLES:
        account = f"--serviceaccount={NAMESPACE}:{role}"
        kubectl("create", "clusterrolebinding", f"everywhere-{role}", f"--clusterrole={role}", account)
    try:

        async def bound() -> bool:
            return all([await _may(user, GROUP, "compatibilityrules", "get", "") for user in users.values()])

        await eventually(bound, about="the bindings")
        for role, user in users.items():
            assert documented()[role]["CompatibilityRules"] == BOUND_EVERYWHERE
            assert await _verbs(user, GROUP, "compatibilityrules", "") == READ, role
    finally:
        for role in ROLES:
            kubectl("delete", "clusterrolebinding", f"everywhere-{role}")


FORGED: dict[Kind, tuple[Manifest, Manifest]] = {
    Kind.CLUSTER_STACK: (
        {"provider": "local", "name": "demo", "kubernetesVersion": "1.35", "noProvider": True},
        {"usableVersions": "v1"},
    ),
    Kind.CLUSTER_STACK_RELEASE: ({}, {"ready": True, "digest": "sha256:0"}),
    Kind.CLUSTER_ADDON: (
        {"clusterRef": {"kind": "Cluster", "name": "one"}},
        {"ready": True, "admitted": {"class": "a"}},
    ),
    Kind.CLUSTER_UPGRADE: ({"clusters": {"names": ["one"]}, "to": "latest"}, {"done": "1/1"}),
    Kind.CLUSTER_RESOURCE_SYNC: ({"resources": [{"kind": "ConfigMap", "name": "a"}]}, {"synced": 7}),
    Kind.CLUSTER_RESOURCE_SYNC_BINDING: ({"syncName": "a", "clusterName": "b"}, {"ready": True}),
}
"""By kind, a spec and a status that a user might forge."""


@pytest.mark.parametrize("kind", FORGED)
async def test_objects_are_written_without_their_status_and_the_status_not_at_all(
    users: dict[str, Client], roles_server: ApiServer, kind: Kind
) -> None:
    kubectl = Kubectl(roles_server.kubeconfig_path, NAMESPACE)
    spec, status = FORGED[kind]
    for role, user in users.items():
        may_write = documented()[role][f"{kind}s"] == "write"
        resource = await user.resource(kind.group, kind)
        manifest = {"apiVersion": resource.api_version, "kind": kind.value, "metadata": {"name": role}, "spec": spec}
        refused = await refusal(user.create(resource, {**manifest, "status": status}, NAMESPACE))
        assert ("403" in refused) is not may_write, (role, refused)
        if not may_write:
            kubectl("create", "-f-", manifest=manifest)

        changed = {"metadata": {"labels": {"a": "b"}}, "status": status}
        refused = await refusal(user.merge_patch(resource, role, changed, NAMESPACE))
        assert ("403" in refused) is not may_write, (role, refused)
        refused = await refusal(user.merge_patch(resource, role, {"status": status}, NAMESPACE, subresource="status"))
        assert "403" in refused, role
        stored = (await user.get(resource, role, NAMESPACE)).get("status", {})
        assert [field for field, value in status.items() if stored.get(field) == value] == []
        kubectl("delete", kind.value, role)
