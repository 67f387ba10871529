"""ClusterStacks with a source of their own: Secrets beside them, and ``spec.source``."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from clusterstacks.model.kinds.names import SOURCE_CREDENTIALS_LABEL
from tests.support.builders.signatures import public_pem

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusterstacks.release.signing.keys import PrivateKey
    from tests.support.running.world import World


async def secret(
    world: World, name: str, values: Mapping[str, str], kind: str = "Opaque", *, labelled: bool = True
) -> None:
    """Write a Secret beside the ClusterStacks; ``labelled`` as credentials of a source."""
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items()}
    labels = {SOURCE_CREDENTIALS_LABEL: "true"} if labelled else {}
    metadata = {"name": name, "namespace": world.namespace, "labels": labels}
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": data}
    secrets = await world.client.resource("", "Secret")
    await world.client.apply(secrets, manifest, manager="tests", force=True)


def following(world: World, source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ClusterStack that follows the stable releases of a source."""
    return world.stack.manifest(world.namespace, autoSubscribe=True, channel="stable", source=source)


def trusting(*keys: PrivateKey, **more: Any) -> dict[str, Any]:
    """Return ``spec.source.verification`` with these keys."""
    return {"keys": [{"publicKey": public_pem(key).decode()} for key in keys], **more}


def below_the_operators_directory(**more: Any) -> dict[str, Any]:
    return {"directory": {}, "interval": "1s", **more}
