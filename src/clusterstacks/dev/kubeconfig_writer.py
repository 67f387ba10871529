"""Writes kubeconfigs of the environment: one cluster, one user, credentials inline."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clusterstacks.net.kube.pki import KeyPair


def kubeconfig(name: str, url: str, authority: bytes, client: KeyPair) -> dict[str, Any]:
    """Return a kubeconfig for the server at ``url``.

    The names follow Cluster API's controllers: user ``<name>-admin``, context ``<user>@<name>``.
    """
    user = f"{name}-admin"
    context = f"{user}@{name}"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority-data": _base64(authority)}}],
        "users": [
            {
                "name": user,
                "user": {
                    "client-certificate-data": _base64(client.certificate),
                    "client-key-data": _base64(client.key),
                },
            }
        ],
        "contexts": [{"name": context, "context": {"cluster": name, "user": user}}],
        "current-context": context,
    }


def to_bytes(document: dict[str, Any]) -> bytes:
    """Write a kubeconfig as a file; JSON is YAML."""
    return json.dumps(document, indent=2).encode() + b"\n"


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
