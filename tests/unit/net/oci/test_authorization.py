"""Bearer tokens and Basic authentication."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from clusterstacks.net.http.errors import AnswerRefused, CredentialsRefused
from clusterstacks.net.http.urls import follow
from clusterstacks.net.oci.authorization import Authorization, Challenge, parse_challenges
from clusterstacks.net.oci.credentials import ANONYMOUS, RegistryCredentials
from clusterstacks.net.oci.registry import Registry

if TYPE_CHECKING:
    from clusterstacks.net.http.client import HTTPClient
    from tests.support.fakes.registry import RegistryDouble

ME = RegistryCredentials("me", "secret")


def test_authentication_challenges_are_parsed() -> None:
    headers = ['Bearer realm="https://a/token",service="x, \\"y\\"", scope=z', 'Basic realm="r", Bearer realm=q']

    assert parse_challenges(headers) == (
        Challenge("bearer", {"realm": "https://a/token", "service": 'x, "y"', "scope": "z"}),
        Challenge("basic", {"realm": "r"}),
        Challenge("bearer", {"realm": "q"}),
    )


@given(st.text())
def test_parsing_an_arbitrary_challenge_does_not_raise(text: str) -> None:
    parse_challenges([text])


async def test_token_is_requested_once_per_action(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"me": "secret"}
    registry = Registry(web, double.reference, ME)

    await registry.push_blob(b"one")
    await registry.push_blob(b"two")
    assert await registry.head("x") is None
    assert await registry.head("y") is None

    assert list(double.granted.values()) == ["repository:kaas/stacks:pull,push", "repository:kaas/stacks:pull"]
    assert {request.query["service"] for request in double.token_requests} == {"double, of registries"}


async def test_anonymous_token_is_requested_without_credentials(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"me": "secret"}

    assert await Registry(web, double.reference).head("x") is None

    assert "Authorization" not in double.token_requests[0].headers


async def test_token_is_reused_until_it_expires(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"me": "secret"}
    now = [0.0]
    authorization = Authorization(web, URL(f"http://{double.host}"), ME, lambda: now[0])
    challenge = [f'Bearer realm="http://{double.host}/token"']

    assert await authorization.answer(challenge, "s", {})
    assert authorization.headers("s") == {"Authorization": "Bearer token-1"}
    assert authorization.headers("other") == {}
    now[0] = 289.0
    assert authorization.headers("s")
    now[0] = 291.0
    assert authorization.headers("s") == {}


@pytest.mark.parametrize("life", [0, -1, "x", None])
async def test_token_without_expiry_is_valid_for_a_minute(
    double: RegistryDouble, web: HTTPClient, life: object
) -> None:
    double.users, double.life, now = {"me": "secret"}, life, [0.0]
    authorization = Authorization(web, URL(f"http://{double.host}"), ME, lambda: now[0])
    await authorization.answer([f'Bearer realm="http://{double.host}/token"'], "s", {})

    now[0] = 49.0
    assert authorization.headers("s")
    now[0] = 51.0
    assert authorization.headers("s") == {}


async def test_token_rejected_by_the_registry_is_replaced(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"me": "secret"}
    registry = Registry(web, double.reference, ME)
    await registry.head("x")

    double.granted.clear()
    assert await registry.head("x") is None

    assert len(double.token_requests) == 2


async def test_concurrent_requests_share_one_token(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"me": "secret"}
    registry = Registry(web, double.reference, ME)

    await asyncio.gather(*(registry.head(f"t{number}") for number in range(8)))

    assert len(double.token_requests) == 1


async def test_wrong_credentials_raise_an_error_without_quoting_them(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"me": "other"}

    with pytest.raises(CredentialsRefused) as caught:
        await Registry(web, double.reference, ME).head("x")
    assert "secret" not in str(caught.value)
    assert len(double.token_requests) == 1


async def test_identity_token_is_exchanged_for_an_access_token(double: RegistryDouble, web: HTTPClient) -> None:
    double.users = {"": "identity"}

    assert await Registry(web, double.reference, RegistryCredentials(identity="identity")).head("x") is None

    assert double.forms[0]["grant_type"] == "refresh_token"
    assert double.forms[0]["scope"] == "repository:kaas/stacks:pull"


async def test_bearer_token_is_sent_unchanged(double: RegistryDouble, web: HTTPClient) -> None:
    double.users, double.granted = {"me": "x"}, {"given": "pull"}

    assert await Registry(web, double.reference, RegistryCredentials(token="given")).head("x") is None

    double.granted = {}
    with pytest.raises(CredentialsRefused):
        await Registry(web, double.reference, RegistryCredentials(token="given")).head("x")
    assert not double.token_requests


async def test_basic_challenge_is_answered_once(double: RegistryDouble, web: HTTPClient) -> None:
    double.challenge = 'Basic realm="r"'

    with pytest.raises(CredentialsRefused):
        await Registry(web, double.reference, ME).manifest("x")

    sent = [request.headers.get("Authorization") for request in double.requests if "manifests" in request.path]
    assert sent == [None, "Basic bWU6c2VjcmV0"]


async def test_basic_challenge_without_credentials_is_an_error(double: RegistryDouble, web: HTTPClient) -> None:
    double.challenge = 'Basic realm="r"'

    with pytest.raises(CredentialsRefused):
        await Registry(web, double.reference).manifest("x")


@pytest.mark.parametrize(
    "realm", ["http://tokens.example/", "https://127.0.0.1/", "https://localhost/", "https://169.254.169.254/", ""]
)
async def test_credentials_are_not_sent_to_an_unsafe_token_server(web: HTTPClient, realm: str) -> None:
    authorization = Authorization(web, URL("https://r.example"), ME)

    with pytest.raises(AnswerRefused, match="token server"):
        await authorization.answer([f'Bearer realm="{realm}"'], "s", {})


async def test_token_response_without_a_token_is_rejected(double: RegistryDouble, web: HTTPClient) -> None:
    authorization = Authorization(web, URL(f"http://{double.host}"), ANONYMOUS)

    with pytest.raises(AnswerRefused, match="without a token"):
        await authorization.answer([f'Bearer realm="http://{double.host}/v2/"'], "s", {})


@pytest.mark.parametrize(
    ("source", "location", "target"),
    [
        ("https://r.example/v2/", "/x?a=%2F", "https://r.example/x?a=%2F"),
        ("https://r.example/v2/", "https://s3.example/x", "https://s3.example/x"),
        ("http://127.0.0.1:1/", "http://127.0.0.1:2/x", "http://127.0.0.1:2/x"),
        ("https://r.example/v2/", "http://r.example/x", None),
        ("https://r.example/v2/", "https://127.0.0.1/x", None),
        ("https://r.example/v2/", "https://[fe80::1]/x", None),
        ("http://127.0.0.1:1/", "http://169.254.169.254/x", None),
        ("https://r.example/v2/", "https://a:b@s3.example/x", None),
        ("https://r.example/v2/", "file:///etc/passwd", None),
        ("https://r.example/v2/", "https://[", None),
    ],
)
def test_location_of_a_response_is_followed_only_to_safe_urls(source: str, location: str, target: str | None) -> None:
    found = follow(URL(source), location)

    assert (None if found is None else str(found)) == target
