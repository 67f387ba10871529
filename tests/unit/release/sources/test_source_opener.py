"""Credentials and CAs from Secrets."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.model.errors import ClusterStacksError, DependencyError, SpecError
from clusterstacks.model.kinds.names import SOURCE_CREDENTIALS_LABEL
from clusterstacks.net.http.allowlist import AllowedHosts
from clusterstacks.net.kube.resources import Resource
from clusterstacks.net.oci.credentials import RegistryCredentials
from clusterstacks.release.sources import source_kinds
from clusterstacks.release.sources.source_opener import (
    SecretReader,
    SourceAccess,
    SourceOpener,
)
from clusterstacks.release.sources.spec import SignatureTrust, SourceAddress, SourceSettings, TrustedKey
from clusterstacks.release.sources.verification import trusted_keys
from tests.support.fakes.api_server import FakeApi

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
OCI = SourceAddress(source_kinds.OCI, "registry.example.org/kaas/stacks")
GITHUB = SourceAddress(source_kinds.GITHUB, "team/stacks")
SECRET = "not-a-secret-of-anyone"


def docker_config(registry: str) -> str:
    auth = base64.b64encode(f"me:{SECRET}".encode()).decode()
    return json.dumps({"auths": {registry: {"auth": auth}}})


def settings(address: SourceAddress = OCI, ca: str = "") -> SourceSettings:
    return SourceSettings(address=address, namespace="team", credentials="login", ca=ca, ca_key="ca.crt")


async def access(
    values: Mapping[str, str | bytes] | None,
    wanted: SourceSettings,
    *,
    kind: str = "Opaque",
    labelled: bool = True,
    plain: str = "",
) -> SourceAccess:
    api = FakeApi(SECRETS)
    if values is not None:
        data = {
            key: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
            for key, value in values.items()
        }
        metadata = {"name": "login", "labels": {SOURCE_CREDENTIALS_LABEL: "true"} if labelled else {}}
        await api.create(SECRETS, {"metadata": metadata, "type": kind, "data": data}, "team")
    opener = SourceOpener(
        secrets=SecretReader(api),
        release_dir=Path("/nowhere"),
        environ={},
        plain_http_credentials=AllowedHosts.parse(plain),
    )
    return await opener.access(wanted)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"username": "me", "password": SECRET}, RegistryCredentials("me", SECRET)),
        ({"token": f"{SECRET}\n"}, RegistryCredentials(token=SECRET)),
        ({".dockerconfigjson": docker_config("registry.example.org")}, RegistryCredentials("me", SECRET)),
    ],
)
async def test_credentials_secret_has_one_of_three_forms(values: dict[str, str], found: RegistryCredentials) -> None:
    assert (await access(values, settings())).credentials == found


@pytest.mark.parametrize(
    ("values", "address", "words"),
    [
        (None, OCI, "team/login does not exist, but spec.source.credentials names it"),
        ({}, OCI, "neither .dockerconfigjson, nor token, nor username and password"),
        ({"token": b"\xff"}, OCI, "key token that is not UTF-8 text"),
        (
            {".dockerconfigjson": docker_config("other.example.org")},
            OCI,
            "no credentials for registry.example.org/kaas",
        ),
        ({".dockerconfigjson": docker_config("github.com")}, GITHUB, "is for registries"),
    ],
)
async def test_other_secret_is_rejected_by_name(
    values: dict[str, str | bytes] | None, address: SourceAddress, words: str
) -> None:
    with pytest.raises(DependencyError) as refused:
        await access(values, settings(address))

    assert words in refused.value.message
    assert SECRET not in refused.value.message


@pytest.mark.regression("SEC-11")
@pytest.mark.parametrize(
    ("kind", "labelled", "values"),
    [
        ("Opaque", True, {"token": SECRET}),
        ("", True, {"token": SECRET}),
        ("kubernetes.io/basic-auth", False, {"username": "me", "password": SECRET}),
        ("kubernetes.io/dockerconfigjson", False, {".dockerconfigjson": docker_config("registry.example.org")}),
    ],
)
async def test_labelled_secret_is_sent(kind: str, *, labelled: bool, values: dict[str, str]) -> None:
    assert (await access(values, settings(), kind=kind, labelled=labelled)).credentials != RegistryCredentials()


@pytest.mark.regression("SEC-11")
@pytest.mark.parametrize(
    ("kind", "labelled", "words"),
    [
        ("Opaque", False, "kubectl -n team label secret login clusterstack.x-k8s.io/source-credentials=true"),
        ("", False, "kubectl -n team label secret login clusterstack.x-k8s.io/source-credentials=true"),
        ("kubernetes.io/service-account-token", True, "is of type kubernetes.io/service-account-token"),
        ("bootstrap.kubernetes.io/token", True, "is of type bootstrap.kubernetes.io/token"),
        ("kubernetes.io/tls", True, "name one of type kubernetes.io/dockerconfigjson, kubernetes.io/basic-auth"),
        ("cluster.x-k8s.io/secret", True, "with the label clusterstack.x-k8s.io/source-credentials=true"),
    ],
)
async def test_unlabelled_secret_is_not_sent_and_the_remedy_is_named(kind: str, *, labelled: bool, words: str) -> None:
    with pytest.raises(DependencyError, match="Secret team/login is") as refused:
        await access({"token": SECRET}, settings(), kind=kind, labelled=labelled)

    assert words in refused.value.message
    assert SECRET not in refused.value.message


PLAIN = [
    SourceAddress(source_kinds.OCI, "plain.example.org/kaas/stacks", plain_http=True),
    SourceAddress(source_kinds.GITHUB, "team/stacks", api="http://plain.example.org/api/v3"),
    SourceAddress(source_kinds.HTTP, "http://plain.example.org/stacks"),
]


@pytest.mark.regression("SEC-11")
@pytest.mark.parametrize("address", PLAIN)
async def test_without_tls_no_secret_is_read_unless_the_operator_allows_it(address: SourceAddress) -> None:
    with pytest.raises(SpecError, match=r"--plain-http-credentials plain\.example\.org") as refused:
        await access(None, settings(address))

    assert "Secret team/login" in refused.value.message
    with pytest.raises(SpecError):
        await access({"token": SECRET}, settings(address), plain="other.example.org,plain.example.org/other")
    found = await access({"token": SECRET}, settings(address), plain="plain.example.org")
    assert found.credentials == RegistryCredentials(token=SECRET)


async def test_missing_ca_is_named_with_its_key() -> None:
    with pytest.raises(DependencyError, match=r"team/login has no key ca\.crt, but spec\.source\.ca names it"):
        await access({"token": SECRET}, settings(ca="login"))


async def test_operator_credentials_are_used_only_for_its_own_source() -> None:
    environ = {"OCI_REGISTRY": "registry.example.org", "OCI_USERNAME": "operator", "OCI_PASSWORD": SECRET}
    opener = SourceOpener(
        secrets=SecretReader(FakeApi(SECRETS)), release_dir=Path("/nowhere"), ca="own ca", environ=environ
    )

    assert await opener.access(SourceSettings(address=OCI)) == SourceAccess()
    assert await opener.access(SourceSettings(address=OCI, own=True)) == SourceAccess(
        RegistryCredentials("operator", SECRET), "own ca"
    )


def test_different_secret_is_a_different_source_and_is_not_printed() -> None:
    ones = [
        SourceAccess(),
        SourceAccess(ca="x"),
        SourceAccess(RegistryCredentials(token="x")),
        SourceAccess(RegistryCredentials("x")),
        SourceAccess(RegistryCredentials(password="x")),
        SourceAccess(RegistryCredentials("x", "x"), "x"),
    ]

    assert len({one.digest for one in ones}) == len(ones)
    assert SECRET not in repr(SourceAccess(RegistryCredentials("me", SECRET, SECRET, SECRET), SECRET))


@pytest.mark.parametrize(
    "content",
    [
        SECRET.encode(),
        f"-----BEGIN CERTIFICATE-----\n{SECRET}\n-----END CERTIFICATE-----\n".encode(),
        f"-----BEGIN PUBLIC KEY-----\n{SECRET}\n-----END PUBLIC KEY-----\n".encode(),
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----\n".encode(),
        f"{SECRET}é".encode(),
        SECRET.encode() + b"\xff",
    ],
)
async def test_secret_named_as_key_or_authority_is_not_quoted(content: bytes) -> None:
    """Who writes ClusterStacks may name any Secret of the namespace there, also without the right to read it."""
    api = FakeApi(SECRETS)
    data = {"ca.crt": base64.b64encode(content).decode()}
    await api.create(SECRETS, {"metadata": {"name": "login"}, "type": "Opaque", "data": data}, "team")
    secrets = SecretReader(api)
    opener = SourceOpener(secrets=secrets, release_dir=Path("/nowhere"), environ={})
    named = SourceSettings(address=OCI, namespace="team", ca="login", ca_key="ca.crt")
    trust = SignatureTrust(keys=(TrustedKey(secret="login", key="ca.crt"),), namespace="team")

    for use in (_opened(opener, named), trusted_keys(trust, secrets)):
        with pytest.raises(ClusterStacksError) as caught:
            await use
        assert SECRET not in str(caught.value)


async def _opened(opener: SourceOpener, named: SourceSettings) -> None:
    await opener.open(named.address, await opener.access(named))
