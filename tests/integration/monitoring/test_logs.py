"""The log of a live operator: fields, one line for each decision, and no Secrets."""

from __future__ import annotations

import base64
import io
import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from clusterstacks.dev.loopback import free_port
from clusterstacks.model.kinds.names import Kind
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.operator.webhooks.configuration import SECRET_NAME
from clusterstacks.runtime.log_format import JsonFormatter, TextFormatter
from tests.support.builders.stacks import TinyStack, config_map, templates
from tests.support.observing.log_lines import parse_line
from tests.support.running.admission import guarded
from tests.support.running.sources import secret
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest
    from tests.support.running.world import World

DELIVERED, PASSWORD, TOKEN = "sentinel-of-an-addon", "sentinel-password", "sentinel-token"


@contextmanager
def captured() -> Iterator[tuple[io.StringIO, io.StringIO]]:
    """Capture all log lines of this process, down to debug, as JSON and as text."""
    root = logging.getLogger()
    streams = io.StringIO(), io.StringIO()
    handlers = [logging.StreamHandler(stream) for stream in streams]
    level = root.level
    for handler, formatter in zip(handlers, (JsonFormatter(), TextFormatter()), strict=True):
        handler.setFormatter(formatter)
        root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield streams
    finally:
        root.setLevel(level)
        for handler in handlers:
            root.removeHandler(handler)


@pytest.mark.regression("USER-18")
async def test_log_has_ids_and_decisions_and_no_secrets(world: World) -> None:
    name = world.stack.release("v1")
    opaque = {**config_map(world.namespace), "kind": "Secret", "stringData": {"key": DELIVERED}}
    del opaque["data"]
    world.publish(name, world.stack.files("v1", {"cni": templates(opaque)}))
    registry = f"127.0.0.1:{free_port()}"
    allowed = AllowedHosts.parse(registry)
    with captured() as (as_json, as_text):
        async with guarded(world, allowed_sources=allowed, plain_http_credentials=allowed):
            await world.create(world.stack.manifest(world.namespace, "v1"))
            await world.release_ready(name)
            await world.cluster("one", name.class_name)
            await world.addons_ready("one", name.class_name)
            await _failing_source(world, registry)
            await _unreachable_cluster(world, name.class_name)
            await world.at_rest()
            keys = await _private_keys(world)

        async def refused() -> bool:
            return "ClusterAddon" in as_json.getvalue() and " is refused: " in as_json.getvalue()

        await eventually(refused, about="a line about the refused write")
    lines = [parse_line(line) for line in as_json.getvalue().splitlines()]
    _check_fields(lines, as_text.getvalue().splitlines())
    delivered = [line for line in lines if line["message"] == f"the addons of class {name.class_name} are delivered"]
    assert len({line["reconcileID"] for line in delivered}) == len(delivered) == 1
    for hidden in (DELIVERED, PASSWORD, TOKEN, *keys):
        for form in (hidden, base64.b64encode(hidden.encode()).decode().rstrip("=")):
            assert form not in as_json.getvalue()
            assert form not in as_text.getvalue()


def _check_fields(lines: list[Manifest], texts: list[str]) -> None:
    assert len(lines) == len(texts)
    assert all(line["time"] and line["level"] and line["logger"] and "message" in line for line in lines)
    reconciles = [line for line in lines if line.get("controller")]
    assert reconciles
    assert all(line["object"] and line["reconcileID"] for line in reconciles)
    assert [parse_line(text)["level"] for text in texts] == [line["level"] for line in lines]
    assert [parse_line(text).get("reconcileID") for text in texts] == [line.get("reconcileID") for line in lines]


async def _failing_source(world: World, registry: str) -> None:
    stack = TinyStack(f"{world.namespace}remote")
    await secret(world, "login", {"username": "author", "password": PASSWORD})
    source = {
        "oci": {"repository": f"{registry}/stacks", "plainHTTP": True},
        "interval": "1s",
        "credentials": {"secretName": "login"},
    }
    await world.create(stack.manifest(world.namespace, autoSubscribe=True, source=source))
    await world.says(Kind.CLUSTER_STACK, stack.word, "ReleasesSynced", words=[registry])


async def _unreachable_cluster(world: World, class_name: str) -> None:
    cluster = await world.cluster("dead", class_name, ready=False)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": f"https://127.0.0.1:{free_port()}"}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    await world.connect("dead", config)
    await world.finish(cluster)
    await world.says(Kind.CLUSTER_ADDON, "cluster-addon-dead", "Ready", words=["cannot be reached"])


async def _private_keys(world: World) -> list[str]:
    """Return a line of each private key that the operator has."""
    found = await world.client.get(await world.client.resource("", "Secret"), SECRET_NAME, world.namespace)
    texts = [base64.b64decode(value).decode() for value in found["data"].values()]
    users = [one["user"] for one in world.workload_kubeconfig["users"]]
    texts += [base64.b64decode(user["client-key-data"]).decode() for user in users if "client-key-data" in user]
    keys = [text.splitlines()[1] for text in texts if "PRIVATE KEY" in text]
    assert keys
    return keys
