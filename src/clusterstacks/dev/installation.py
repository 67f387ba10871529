"""Applies CRDs and other objects to the management cluster."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from clusterstacks.model.errors import DependencyError, SpecError
from clusterstacks.model.objects import object_id, split_api_version
from clusterstacks.model.yaml import load_all
from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.errors import Invalid, KindNotServed
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.pool import Pool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from clusterstacks.model.objects import Manifest

MANAGER = "csctl-dev"
TIMEOUT = timedelta(seconds=10)
"""Time that a new API server or manager may need until a kind is served or a webhook answers."""
RETRY_SECONDS = 0.2
POLL_SECONDS = 0.02
"""A definition is Established about 10 ms after it was written."""


def install(kubeconfig: Path, manifests: Iterable[Manifest]) -> None:
    """Apply independent manifests; CRDs are served when this returns."""
    asyncio.run(_install(kubeconfig, list(manifests)))


def install_in_order(kubeconfig: Path, manifests: Iterable[Manifest]) -> None:
    """Apply manifests in the given order; errors as ``install``."""
    asyncio.run(_install_in_order(kubeconfig, list(manifests)))


def read_manifests(path: Path) -> list[Manifest]:
    """Read the Kubernetes objects of a YAML file."""
    try:
        documents = load_all(path.read_bytes(), name=str(path))
    except OSError as error:
        raise SpecError("FileUnreadable", f"{path} cannot be read: {error.strerror}") from None
    found = [document for document in documents if document is not None]
    for number, document in enumerate(found, start=1):
        if not _is_object(document):
            message = (
                f"{path}: document {number} is not a Kubernetes object: it needs apiVersion, kind and metadata.name"
            )
            raise SpecError("NoObject", message)
    return found


async def _install(kubeconfig: Path, manifests: list[Manifest]) -> None:
    async with _client(kubeconfig) as client:
        await asyncio.gather(*(_apply(client, manifest) for manifest in manifests))
        await until_served(client, [one for one in manifests if one["kind"] == "CustomResourceDefinition"])


async def _install_in_order(kubeconfig: Path, manifests: list[Manifest]) -> None:
    async with _client(kubeconfig) as client:
        await apply_in_order(client, manifests)


async def apply_in_order(client: Client, manifests: Iterable[Manifest]) -> None:
    """Apply manifests in the given order through an existing client."""
    for manifest in manifests:
        await _apply(client, manifest)


async def _apply(client: Client, manifest: Manifest) -> None:
    group, version = split_api_version(manifest["apiVersion"])
    until = time.monotonic() + TIMEOUT.total_seconds()
    while True:
        try:
            resource = await client.resource(group, manifest["kind"], version)
            namespace = manifest["metadata"].get("namespace") or ("default" if resource.namespaced else "")
            applied = await client.apply(resource, manifest, manager=MANAGER, namespace=namespace, force=True)
            if manifest["kind"] == "CustomResourceDefinition":
                while not _established(applied):
                    await asyncio.sleep(POLL_SECONDS)
                    applied = await client.get(resource, manifest["metadata"]["name"])
        except Invalid:
            raise
        except DependencyError:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return


async def until_served(client: Client, definitions: Iterable[Manifest]) -> None:
    """Wait until discovery lists every version of the CRDs, some time after they are established.

    A manager that starts earlier ends with "no matches for kind".
    """
    until = time.monotonic() + TIMEOUT.total_seconds()
    wanted = [
        (one["spec"]["group"], one["spec"]["names"]["kind"], version["name"])
        for one in definitions
        for version in one["spec"]["versions"]
        if version["served"]
    ]
    while True:
        client.forget_discovery()
        wanted = [one for one in wanted if not await _is_served(client, *one)]
        if not wanted:
            return
        if time.monotonic() > until:
            missing = ", ".join(f"{kind}.{group}/{version}" for group, kind, version in wanted)
            raise KindNotServed(f"the server does not serve {missing}, although their CRDs are established")
        await asyncio.sleep(POLL_SECONDS)


async def _is_served(client: Client, group: str, kind: str, version: str) -> bool:
    try:
        return (await client.resource(group, kind, version)).version == version
    except KindNotServed:
        return False


@asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator[Client]:
    async with Pool() as pool:
        client = Client(load_kubeconfig([kubeconfig]), pool, user_agent=MANAGER)
        try:
            yield client
        finally:
            await client.close()


def _established(definition: Manifest) -> bool:
    conditions = definition.get("status", {}).get("conditions") or []
    return any(found["type"] == "Established" and found["status"] == "True" for found in conditions)


def _is_object(document: object) -> bool:
    if not isinstance(document, dict):
        return False
    try:
        object_id(document)
    except (KeyError, AttributeError, TypeError):
        return False
    return True
