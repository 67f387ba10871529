"""Lists whose objects are the same as before are not decoded."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from clusterstacks.net.kube.client import Client
from clusterstacks.net.kube.connection import Connection
from clusterstacks.net.kube.errors import Unreachable
from clusterstacks.net.kube.limits import Bounds
from clusterstacks.net.kube.paged_list import ListRequest, unchanged_list
from clusterstacks.net.kube.resources import Resource
from tests.support.fakes.scripted_server import refuses, says

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.resources import ObjectList
    from clusterstacks.net.pool import Pool
    from tests.support.fakes.scripted_server import Answer, ScriptedServer

LIST = ListRequest(Resource("", "v1", "ConfigMap", "configmaps", namespaced=True), metadata_only=True)
versions = itertools.count(1)


def item(name: str, version: int = 1, **metadata: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": str(version), **metadata}}


def page(*items: Manifest, token: str = "") -> Answer:
    """Write a page as Kubernetes does; the resource version of the list is another one each time."""
    metadata = {"resourceVersion": str(next(versions)), **({"continue": token} if token else {})}
    return says({"kind": "PartialObjectMetadataList", "apiVersion": "v1", "metadata": metadata, "items": list(items)})


def as_custom_resources(*items: Manifest) -> Answer:
    """Write a list of custom resources, whose keys are sorted."""
    metadata = {"continue": "", "resourceVersion": str(next(versions))}
    return says({"apiVersion": "a/v1", "items": list(items), "kind": "AList", "metadata": metadata})


async def read(client: Client, known: bytes = b"") -> ObjectList:
    return await client.read_list(LIST, known=known)


def names(listing: ObjectList) -> list[str]:
    return [one["metadata"]["name"] for one in listing.items]


@pytest.fixture
async def known(server: ScriptedServer, client: Client) -> bytes:
    """The digest of a list of two pages."""
    server.plays(page(item("one"), item("two"), token="t"), page(item("three")))
    first = await read(client)
    assert names(first) == ["one", "two", "three"]
    assert not first.unchanged
    return first.digest


async def test_only_the_resource_version_and_token_of_the_list_may_differ(
    server: ScriptedServer, client: Client, known: bytes
) -> None:
    server.plays(page(item("one"), item("two"), token="another"), page(item("three")))

    again = await read(client, known)

    assert again.unchanged
    assert again.items == []
    assert again.resource_version == str(next(versions) - 1)


CHANGES: dict[str, tuple[tuple[Answer, ...], list[str]]] = {
    "edited on the first page": (
        (page(item("one", 2), item("two"), token="t"), page(item("three"))),
        ["one", "two", "three"],
    ),
    "edited on the last page": (
        (page(item("one"), item("two"), token="t"), page(item("three", 2))),
        ["one", "two", "three"],
    ),
    "relabelled": (
        (page(item("one", labels={"a": "b"}), item("two"), token="t"), page(item("three"))),
        ["one", "two", "three"],
    ),
    "another uid": ((page(item("one", uid="x"), item("two"), token="t"), page(item("three"))), ["one", "two", "three"]),
    "deleted on the last page": ((page(item("one"), item("two"), token="t"), page()), ["one", "two"]),
    "no last page": ((page(item("one"), item("two")),), ["one", "two"]),
    "one more page": (
        (page(item("one"), item("two"), token="t"), page(item("three"), token="u"), page(item("four"))),
        ["one", "two", "three", "four"],
    ),
    "moved to another page": (
        (page(item("one"), token="t"), page(item("two"), item("three"))),
        ["one", "two", "three"],
    ),
    "swapped": ((page(item("two"), item("one"), token="t"), page(item("three"))), ["two", "one", "three"]),
}


@pytest.mark.parametrize(("script", "expected"), CHANGES.values(), ids=CHANGES)
async def test_every_other_difference_is_read(
    server: ScriptedServer, client: Client, known: bytes, script: tuple[Answer, ...], expected: list[str]
) -> None:
    server.plays(*script)

    changed = await read(client, known)

    assert not changed.unchanged
    assert names(changed) == expected
    assert changed.digest not in (b"", known)


def first_page(*items: Manifest, **metadata: str) -> bytes:
    return orjson.dumps({"metadata": {"resourceVersion": "9", **metadata}, "items": list(items)})


async def test_the_only_page_of_a_list_is_known_by_the_digest_of_the_list(
    server: ScriptedServer, client: Client
) -> None:
    server.plays(page(item("one")))
    digest = (await read(client)).digest

    listing = unchanged_list(first_page(item("one")), digest)

    assert listing is not None
    assert (listing.unchanged, listing.items, listing.resource_version, listing.digest) == (True, [], "9", digest)


@pytest.mark.parametrize(
    "other",
    [None, first_page(item("one", 2)), first_page(item("one"), **{"continue": "t"}), first_page(), b"[]"],
)
async def test_a_first_page_is_read_if_it_is_missing_has_changed_or_is_not_the_only_one(
    server: ScriptedServer, client: Client, other: bytes | None
) -> None:
    server.plays(page(item("one")))
    digest = (await read(client)).digest

    assert unchanged_list(other, digest) is None
    assert unchanged_list(first_page(item("one")), b"") is None


async def test_a_list_that_expires_between_two_pages_is_read_again_and_known(
    server: ScriptedServer, client: Client, known: bytes
) -> None:
    again = (page(item("one"), item("two"), token="t"), page(item("three")))
    server.plays(page(item("one"), token="t"), refuses(410, "Expired"), *again)

    assert (await read(client, known)).unchanged


async def test_a_list_whose_metadata_follows_the_items_is_always_read(server: ScriptedServer, client: Client) -> None:
    server.plays(as_custom_resources(item("one")))

    listing = await read(client)
    again = await read(client, listing.digest)

    assert names(listing) == names(again) == ["one"]
    assert listing.digest == b""
    assert not again.unchanged


async def test_items_within_an_object_are_not_those_of_the_list(server: ScriptedServer, client: Client) -> None:
    nested = {"items": [{"key": '"items":['}], "metadata": {"resourceVersion": "1"}}
    server.plays(page(item("one", annotations={"x": '"items":['}) | {"volume": nested}))
    first = await read(client)

    server.plays(page(item("one", annotations={"x": '"items":['}) | {"volume": nested | {"more": 1}}))
    again = await read(client, first.digest)

    assert names(first) == names(again) == ["one"]


@pytest.mark.parametrize(
    "body", [{}, {"items": 1}, {"metadata": {"resourceVersion": "1"}, "items": [1]}, [], "x"], ids=str
)
async def test_what_is_not_a_list_is_unreachable(server: ScriptedServer, client: Client, body: object) -> None:
    server.plays(says(body))

    if body == {}:
        assert (await read(client)).items == []
        return
    with pytest.raises(Unreachable, match="is not a list"):
        await read(client)


async def test_the_limits_of_a_list_hold_for_pages_that_are_not_decoded_yet(server: ScriptedServer, pool: Pool) -> None:
    client = Client(Connection(server.url), pool, bounds=Bounds(list_bytes=2000))
    server.plays(page(*(item(f"object-{number}") for number in range(10)), token="t"))
    with pytest.raises(Unreachable, match="is larger than 2000 bytes"):
        await read(client)

    client = Client(Connection(server.url), pool, bounds=Bounds(list_values=50))
    server.plays(page(*(item(f"object-{number}") for number in range(10)), token="t"), page())
    with pytest.raises(Unreachable, match="has more than 50 values"):
        await read(client)


async def test_list_of_more_pages_than_requested_is_an_error(server: ScriptedServer, client: Client) -> None:
    server.plays(page(item("one"), token="t"), page(item("two"), token="t"))
    with pytest.raises(Unreachable, match="does not end after 2 pages"):
        await client.list(LIST.resource, "a", pages=2)
