"""Which names a completion offers, and of which management cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from clusterstacks.csctl.main import csctl
from clusterstacks.csctl.shared.cluster_options import ManagementCluster, management_of
from clusterstacks.csctl.shared.name_completion import clusters, matching, releases
from clusterstacks.model.kinds.names import CLUSTER_API_GROUP, CLUSTER_KIND, GROUP, Kind
from clusterstacks.model.objects import ObjectKey
from clusterstacks.net.kube.errors import Forbidden
from tests.support.builders.fleets import Fleet, management_cluster

if TYPE_CHECKING:
    from tests.support.fakes.api_server import FakeApi


@pytest.fixture
def api() -> FakeApi:
    return management_cluster()


def parsed(verb: str, *arguments: str) -> click.Context:
    """Return the context of an incomplete command line."""
    command = csctl.get_command(click.Context(csctl), verb)
    assert command is not None
    return command.make_context(verb, [*arguments], resilient_parsing=True)


def test_only_names_that_a_shell_reads_as_one_word_are_offered() -> None:
    names = ["a/b", "a@b", "a.b:c", "a b", "a;b", "a$(b)", "a`b`", "a*", "a\x1b[31m", "a\nb", "a\u202eb", "-a", "b", ""]

    assert [one.value for one in matching(names, "a")] == ["a/b", "a@b", "a.b:c"]
    assert [one.value for one in matching(names, "-")] == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), ManagementCluster()),
        (("--context=a",), ManagementCluster(context="a")),
        (("--context=a", "--context=b"), None),
        ((f"--kubeconfig={os.devnull}", "--context=a"), ManagementCluster(Path(os.devnull), "a")),
        (("--kubeconfig=missing",), None),
    ],
)
def test_names_come_from_the_management_cluster_of_the_command_line(
    arguments: tuple[str, ...], expected: ManagementCluster | None
) -> None:
    assert management_of(parsed("status", *arguments)) == expected


async def test_clusters_of_all_namespaces_are_offered_or_of_the_one_before_the_cursor(api: FakeApi) -> None:
    for namespace in ("a", "b"):
        await Fleet(api).create(CLUSTER_API_GROUP, CLUSTER_KIND, "one", namespace)

    assert await clusters(api, "", "a") == ["one", "a/one", "b/one"]
    assert await clusters(api, "b/", "a") == ["b/one"]


async def test_clusters_of_the_namespace_of_the_context_are_offered_to_a_user_of_this_namespace(api: FakeApi) -> None:
    for namespace in ("a", "b"):
        await Fleet(api).create(CLUSTER_API_GROUP, CLUSTER_KIND, "one", namespace)
    refused = Forbidden("list Clusters: no", status=403, reason="Forbidden")
    api.fail("list_keys", refused)

    assert await clusters(api, "", "a") == ["one", "a/one"]
    api.fail("list_keys", refused)
    assert await clusters(api, "b/", "a") == []


async def test_releases_of_the_stack_of_the_class_are_offered_the_newest_first(api: FakeApi) -> None:
    fleet = Fleet(api)
    for name in ("openstack-scs-1-35-v9", "openstack-scs-1-35-v10", "openstack-scs-1-36-v1", "docker-scs-1-36-v1", "x"):
        await fleet.create(GROUP, Kind.CLUSTER_STACK_RELEASE, name, "kaas")
    await fleet.create(GROUP, Kind.CLUSTER_STACK_RELEASE, "openstack-scs-1-37-v1", "elsewhere")
    topology = {"classRef": {"name": "openstack-scs-1-35-v9", "namespace": "kaas"}}
    await fleet.create(CLUSTER_API_GROUP, CLUSTER_KIND, "one", "team", spec={"topology": topology})

    found = await releases(api, ObjectKey("team", "one"))

    assert found == ["openstack-scs-1-36-v1", "openstack-scs-1-35-v10", "openstack-scs-1-35-v9"]
