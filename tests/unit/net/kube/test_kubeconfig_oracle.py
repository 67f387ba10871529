"""Generated kubeconfig files, compared with another implementation."""

from __future__ import annotations

import asyncio
import base64
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterstacks.net.kube.auth import ConnectionCredentials
from clusterstacks.net.kube.kubeconfig import load_kubeconfig
from clusterstacks.net.kube.pki import Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.connection import Connection, DataOrFile

pytestmark = [
    # The oracle's own dependencies warn about their future.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::PendingDeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

AUTHORITY = Authority.create("test")
PAIR = AUTHORITY.issue("somebody")
NAMES = st.sampled_from(["a", "b", "c"])
WORDS = st.text("abcXYZ019-._", min_size=1, max_size=8)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


CLUSTERS = st.builds(
    lambda host, port, trust: {"server": f"https://{host}:{port}", **trust},
    st.sampled_from(["one.example", "127.0.0.1", "[::1]"]),
    st.integers(1, 65535),
    st.sampled_from(
        [
            {"certificate-authority-data": encoded(AUTHORITY.certificate)},
            {"certificate-authority": "pki/ca.crt"},
            {"certificate-authority-data": encoded(AUTHORITY.certificate), "certificate-authority": "nowhere"},
            {"certificate-authority": "pki/ca.crt", "tls-server-name": "other.example"},
            {"insecure-skip-tls-verify": True},
        ]
    ),
)
USERS: st.SearchStrategy[Manifest] = st.one_of(
    st.builds(lambda token: {"token": token}, WORDS),
    st.builds(lambda name, password: {"username": name, "password": password}, WORDS, WORDS),
    st.sampled_from(
        [
            {"client-certificate-data": encoded(PAIR.certificate), "client-key-data": encoded(PAIR.key)},
            {"client-certificate": "pki/tls.crt", "client-key": "pki/tls.key"},
            {"client-certificate": "pki/tls.crt", "client-key-data": encoded(PAIR.key)},
            {"tokenFile": "token"},
        ]
    ),
)


def entries(kind: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Manifest]]:
    return st.dictionaries(NAMES, values).map(
        lambda found: [{"name": name, kind: value} for name, value in found.items()]
    )


CONTEXTS = entries("context", st.builds(lambda cluster, user: {"cluster": cluster, "user": user}, NAMES, NAMES))
DOCUMENTS = st.builds(
    lambda clusters, users, contexts, current: {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "users": users,
        "contexts": contexts,
        "current-context": current,
    },
    entries("cluster", CLUSTERS),
    entries("user", USERS),
    CONTEXTS,
    NAMES,
)


@contextmanager
def files(documents: list[Manifest]) -> Iterator[list[Path]]:
    """Write each document and what it points to in a directory of its own."""
    with tempfile.TemporaryDirectory() as root:
        paths = []
        for number, document in enumerate(documents):
            directory = Path(root) / str(number)
            (directory / "pki").mkdir(parents=True)
            (directory / "pki/ca.crt").write_bytes(AUTHORITY.certificate)
            (directory / "pki/tls.crt").write_bytes(PAIR.certificate)
            (directory / "pki/tls.key").write_bytes(PAIR.key)
            (directory / "token").write_text(f"token-{number}")
            paths.append(directory / "config")
            paths[-1].write_text(yaml.safe_dump(document))
        yield paths


def content(material: DataOrFile) -> bytes | None:
    return material.file.read_bytes() if material.file else material.content or None


def ours(paths: list[Path]) -> dict[str, Any]:
    connection: Connection = load_kubeconfig(paths)
    headers = dict(asyncio.run(ConnectionCredentials(connection).current()).headers)
    return {
        "host": connection.server,
        "verify": connection.verify,
        "name": connection.server_name or None,
        "ca": content(connection.ca),
        "certificate": content(connection.user.certificate),
        "key": content(connection.user.key),
        "authorization": headers.get("Authorization"),
    }


def theirs(paths: list[Path]) -> dict[str, Any]:
    from kubernetes_asyncio.client import Configuration  # noqa: PLC0415  # slow, and warns at import
    from kubernetes_asyncio.config import load_kube_config  # noqa: PLC0415

    found = Configuration()
    asyncio.run(load_kube_config(":".join(map(str, paths)), client_configuration=found, persist_config=False))

    def read(path: str | None) -> bytes | None:
        return Path(path).read_bytes() if path else None

    return {
        "host": found.host,
        "verify": found.verify_ssl,
        "name": found.tls_server_name or None,
        "ca": read(found.ssl_ca_cert),
        "certificate": read(found.cert_file),
        "key": read(found.key_file),
        "authorization": found.api_key.get("BearerToken"),
    }


def complete(documents: list[Manifest]) -> bool:
    """Return whether the chosen context, cluster and user exist in some file."""

    def names(kind: str) -> dict[str, Manifest]:
        return {one["name"]: one for document in reversed(documents) for one in document[kind]}

    chosen = names("contexts").get(documents[0]["current-context"])
    return (
        chosen is not None
        and chosen["context"]["cluster"] in names("clusters")
        and chosen["context"]["user"] in names("users")
    )


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
@given(st.lists(DOCUMENTS, min_size=1, max_size=3).filter(complete))
def test_reads_as_the_oracle_does(documents: list[Manifest]) -> None:
    # Of several current-contexts the oracle takes the last; kubectl takes the first.
    for later in documents[1:]:
        del later["current-context"]
    with files(documents) as paths:
        assert ours(paths) == theirs(paths)
