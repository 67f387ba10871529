"""What Secrets say of who asks a source, and whom it is believed."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from clusterstacks.domain.sources import SourceAddress, SourceKind, SourceTerms
from clusterstacks.fleet.sources.opening import Access, SourceOpener
from clusterstacks.fleet.sources.secrets import SecretReader, SecretUnusable
from clusterstacks.kube.resources import Resource
from clusterstacks.releases.oci.dockerconfig import Credentials
from tests.support.fake_api import FakeApi

if TYPE_CHECKING:
    from collections.abc import Mapping

SECRETS = Resource("", "v1", "Secret", "secrets", namespaced=True)
OCI = SourceAddress(SourceKind.OCI, "registry.example.org/kaas/stacks")
GITHUB = SourceAddress(SourceKind.GITHUB, "team/stacks")
SECRET = "not-a-secret-of-anyone"


def docker_config(registry: str) -> str:
    auth = base64.b64encode(f"me:{SECRET}".encode()).decode()
    return json.dumps({"auths": {registry: {"auth": auth}}})


def terms(address: SourceAddress = OCI, ca: str = "") -> SourceTerms:
    return SourceTerms(address=address, namespace="team", credentials="login", ca=ca, ca_key="ca.crt")


async def access(values: Mapping[str, str | bytes] | None, wanted: SourceTerms) -> Access:
    api = FakeApi(SECRETS)
    if values is not None:
        data = {
            key: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
            for key, value in values.items()
        }
        await api.create(SECRETS, {"metadata": {"name": "login"}, "data": data}, "team")
    return await SourceOpener(secrets=SecretReader(api), release_dir=Path("/nowhere"), environ={}).access(wanted)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"username": "me", "password": SECRET}, Credentials("me", SECRET)),
        ({"token": f"{SECRET}\n"}, Credentials(token=SECRET)),
        ({".dockerconfigjson": docker_config("registry.example.org")}, Credentials("me", SECRET)),
    ],
)
async def test_a_secret_has_one_of_three_forms(values: dict[str, str], found: Credentials) -> None:
    assert (await access(values, terms())).credentials == found


@pytest.mark.parametrize(
    ("values", "address", "words"),
    [
        (None, OCI, "team/login does not exist, but spec.source.credentials names it"),
        ({}, OCI, "neither .dockerconfigjson, nor token, nor username and password"),
        ({"token": b"\xff"}, OCI, "key token that is no text"),
        ({".dockerconfigjson": docker_config("other.example.org")}, OCI, "nothing for registry.example.org/kaas"),
        ({".dockerconfigjson": docker_config("github.com")}, GITHUB, "is for registries"),
    ],
)
async def test_any_other_is_refused_by_name(
    values: dict[str, str | bytes] | None, address: SourceAddress, words: str
) -> None:
    with pytest.raises(SecretUnusable) as refused:
        await access(values, terms(address))

    assert words in refused.value.message
    assert SECRET not in refused.value.message


async def test_a_missing_ca_is_named_with_its_key() -> None:
    with pytest.raises(SecretUnusable, match=r"team/login has no key ca\.crt, but spec\.source\.ca names it"):
        await access({"token": SECRET}, terms(ca="login"))


async def test_the_operators_credentials_are_for_its_own_source_alone() -> None:
    environ = {"OCI_REGISTRY": "registry.example.org", "OCI_USERNAME": "operator", "OCI_PASSWORD": SECRET}
    opener = SourceOpener(
        secrets=SecretReader(FakeApi(SECRETS)), release_dir=Path("/nowhere"), ca="own ca", environ=environ
    )

    assert await opener.access(SourceTerms(address=OCI)) == Access()
    assert await opener.access(SourceTerms(address=OCI, own=True)) == Access(Credentials("operator", SECRET), "own ca")


def test_another_secret_is_another_source_and_none_is_shown() -> None:
    ones = [
        Access(),
        Access(ca="x"),
        Access(Credentials(token="x")),
        Access(Credentials("x")),
        Access(Credentials(password="x")),
        Access(Credentials("x", "x"), "x"),
    ]

    assert len({one.digest for one in ones}) == len(ones)
    assert SECRET not in repr(Access(Credentials("me", SECRET, SECRET, SECRET), SECRET))
