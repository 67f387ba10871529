"""The toy provider of "write a provider" passes the contract, and for each check there is a fault that it finds."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import re
import secrets
import shutil
import time
from contextlib import asynccontextmanager, suppress
from math import inf
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from clusterstacks.model import yaml
from clusterstacks.model.kinds.clusterstackrelease import ClusterStackRelease
from clusterstacks.model.kinds.crd_manifests import crd
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import KindNotServed
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool
from clusterstacks.testing import provider as contract
from clusterstacks.testing.provider import ContractCluster, ProviderContract, RunningProvider
from tests.support.running.doc_pages import CHECKOUT, DOCS, Page, environ_of_reader
from tests.support.servers.api_servers import emptied
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from clusterstacks.dev.apiserver import ApiServer
    from clusterstacks.model.objects import Manifest

TOY = CHECKOUT / "examples" / "provider"
PAGE = "how-to/write-a-provider.md"
CHECKS = {name for name in vars(ProviderContract) if name.startswith("test_")}
LABEL = "clusterctl.cluster.x-k8s.io/move"
TEMPLATE = (TOY / "template.yaml").read_text()
DEFINITIONS = yaml.load_all((TOY / "crds.yaml").read_text())


def loaded() -> Any:
    """A new module, so that a fault of one test is not in the next."""
    spec = importlib.util.spec_from_file_location("toy_provider", TOY / "provider.py")
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.ENDLESS = False  # whether a fault that never ends has begun
    return module


def around(toy: Any, name: str, change: Callable[..., Any]) -> None:
    """Have a method of the provider call another function, which gets the method and its arguments."""
    method = getattr(toy.ToyProvider, name)

    async def changed(self: Any, *arguments: Any, **named: Any) -> Any:
        return await change(self, lambda *other: method(self, *other, **named), *arguments, **named)

    setattr(toy.ToyProvider, name, changed)


def never_ready(toy: Any) -> None:
    async def report(_self: Any, original: Any, live: Manifest, _: str, *why: str) -> Any:
        toy.ENDLESS = True
        return await original(live, "False", *why)

    around(toy, "report", report)


def ready_too_early(toy: Any) -> None:
    toy.download = lambda *_: ""


def ready_whatever_happens(toy: Any) -> None:
    async def patch(_self: Any, original: Any, live: Manifest, patch: Manifest, *where: str) -> Any:
        if "status" in patch:
            patch["status"]["ready"] = True
        return await original(live, patch, *where)

    around(toy, "patch", patch)


def changes_the_spec(toy: Any) -> None:
    async def provide(self: Any, original: Any, live: Manifest) -> Any:
        if "#" not in live["spec"]["url"]:
            live = await self.patch(live, {"spec": {"url": f"{live['spec']['url']}#"}})
        return await original(live)

    around(toy, "provide", provide)


def writes_at_each_look(toy: Any) -> None:
    async def report(_self: Any, original: Any, live: Manifest, ready: str, reason: str, _: str) -> Any:
        return await original(live, ready, reason, secrets.token_hex())

    around(toy, "report", report)


def ignores_pauses(toy: Any) -> None:
    toy.PAUSED = "none"


def ignores_moves(toy: Any) -> None:
    toy.MOVED = "none"


def deletes_early(toy: Any) -> None:
    async def provide(self: Any, original: Any, live: Manifest) -> Any:
        releases = await self.client.resource("clusterstack.x-k8s.io", "ClusterStackRelease")
        metadata = live["metadata"]
        release = await self.client.find(releases, metadata["name"], metadata["namespace"])
        if release and "deletionTimestamp" in release["metadata"]:
            toy.image_of(self.directory, live).unlink()
            await self.report(live, "False", "Deleted", "the release is being deleted")
            return None
        return await original(live)

    around(toy, "provide", provide)


def never_lets_go(toy: Any) -> None:
    async def hold(_self: Any, original: Any, live: Manifest, *, held: bool) -> Any:
        toy.ENDLESS = not held
        return await original(live) if held else live

    around(toy, "hold", hold)


FAULTS = [
    (never_ready, "test_object_becomes_ready", "that status.ready becomes true"),
    (ready_too_early, "test_object_becomes_ready", "but what it stands for does not exist"),
    (ready_whatever_happens, "test_ready_follows_the_template", "the spec cannot be carried out"),
    (changes_the_spec, "test_what_the_operator_writes_is_kept", "fields that the operator applied changed"),
    (writes_at_each_look, "test_settled_object_is_not_written", "though nothing changed"),
    (ignores_pauses, "test_paused_object_is_left_alone", "carried out though it is paused"),
    (ignores_pauses, "test_paused_object_is_not_undone", "deleted though it is paused"),
    (deletes_early, "test_object_is_needed_while_its_release_is_in_use", "while Clusters still use"),
    (never_lets_go, "test_deleted_object_goes_without_template_and_release", "that the deleted object is gone"),
    (ignores_moves, "test_moved_object_is_not_undone_and_becomes_ready_again", "though the object was moved"),
]


@asynccontextmanager
async def running(toy: Any, kubeconfig: Path, directory: Path) -> AsyncIterator[RunningProvider]:
    """Run the provider in this process."""
    images, origin = directory / "images", directory / "node.qcow2"
    images.mkdir()
    origin.write_bytes(b"an image")
    wrong = TEMPLATE.replace("https://images.example.org/node.qcow2", origin.as_uri())
    async with Pool() as pool, asyncio.TaskGroup() as tasks:
        provider = toy.ToyProvider(Client(load_kubeconfig([kubeconfig]), pool), images)
        services = [tasks.create_task(run()) for run in (provider.objects.run, provider.controller.run)]
        yield RunningProvider(
            kubeconfig=kubeconfig,
            manifests=wrong.replace("0" * 64, hashlib.sha256(b"an image").hexdigest()),
            failing=wrong,
            exists=lambda live: toy.image_of(images, live).exists(),
        )
        for service in services:
            service.cancel()


def fault_found(check: str, provider: RunningProvider) -> str:
    """Run one check; return how it fails."""
    cluster = ContractCluster(provider)
    try:
        with pytest.raises(pytest.fail.Exception) as failed:
            getattr(ProviderContract(), check)(cluster)
    finally:
        cluster.close()
    return str(failed.value)


async def define(server: ApiServer, definitions: list[Manifest]) -> None:
    """Define the kinds of the toy provider, and wait until they are served."""
    async with Pool() as pool:
        client = Client(load_kubeconfig([server.kubeconfig_path]), pool)
        resource = await client.resource("apiextensions.k8s.io", "CustomResourceDefinition")
        for one in definitions:
            await client.apply(resource, one, manager="tests")

        async def served() -> bool:
            client.forget_discovery()
            with suppress(KindNotServed):
                for one in definitions:
                    await client.resource(one["spec"]["group"], one["spec"]["names"]["kind"])
                return True
            return False

        await eventually(served, about="the definitions are served")


@pytest.fixture(scope="module")
def with_kinds(bare_server: ApiServer) -> Iterator[ApiServer]:
    with emptied(bare_server):
        asyncio.run(define(bare_server, [*DEFINITIONS, crd(ClusterStackRelease)]))
        yield bare_server


@pytest.mark.parametrize(("fault", "check", "words"), FAULTS, ids=lambda one: getattr(one, "__name__", ""))
async def test_check_finds_a_fault(
    with_kinds: ApiServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[[Any], None],
    check: str,
    words: str,
) -> None:
    toy = loaded()
    fault(toy)
    # The deadline is over when a fault that never ends has begun, however long that takes.
    clock = SimpleNamespace(monotonic=lambda: inf if toy.ENDLESS else time.monotonic(), sleep=time.sleep)
    monkeypatch.setattr(contract, "time", clock)
    with emptied(with_kinds):
        async with running(toy, with_kinds.kubeconfig_path, tmp_path) as provider:
            message = await asyncio.to_thread(fault_found, check, provider)

    assert message.startswith("ToyClusterStackRelease.infrastructure.clusterstack.x-k8s.io provider-contract-")
    assert words in message


async def test_definition_that_clusterctl_would_not_move_is_a_fault(server: ApiServer) -> None:
    await define(server, yaml.load_all((TOY / "crds.yaml").read_text().replace(f"{LABEL}: ", "example.org/other: ")))
    provider = RunningProvider(
        kubeconfig=server.kubeconfig_path, manifests=TEMPLATE, failing=TEMPLATE, exists=lambda _: True
    )
    message = await asyncio.to_thread(fault_found, "test_kinds_are_allowed_and_moved_by_clusterctl", provider)

    assert message == (
        "label the definition of ToyClusterStackReleaseTemplate.infrastructure.clusterstack.x-k8s.io, "
        f"which has no owner, with {LABEL}"
    )


def test_each_check_has_a_fault_that_it_finds_and_a_rule_on_the_page() -> None:
    kinds = "test_kinds_are_allowed_and_moved_by_clusterctl"
    assert {kinds, *(check for _, check, _ in FAULTS)} == CHECKS
    assert {*re.findall(r"`(test_\w+)` \|$", (DOCS / PAGE).read_text(), re.MULTILINE)} == CHECKS


def test_every_command_of_the_page_does_what_it_says(server: ApiServer, tmp_path: Path) -> None:
    shutil.copytree(TOY, tmp_path / "examples" / "provider")
    Page.read(PAGE).run(tmp_path, environ_of_reader(server.kubeconfig_path))
