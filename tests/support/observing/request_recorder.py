"""Notes the requests of an operator to its management cluster, as the API server's authorizer sees them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from clusterstacks.operator.rbac import RIGHTS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import aiohttp

    from clusterstacks.net.kube.client import Client
    from clusterstacks.net.kube.transport import Call
    from clusterstacks.operator.app import Operator


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """Attributes of one request; see kubernetes.io/docs/reference/access-authn-authz/authorization.

    ``resource`` names the subresource after a slash and is empty for paths outside of groups, e.g. ``/readyz``.
    """

    group: str
    resource: str
    verb: str
    namespace: str = ""
    path: str = field(default="", compare=False)


SEEN: set[Request] = set()
"""The requests of all operators of this process, for ``rights_coverage``."""


def record(operator: Operator) -> set[Request]:
    """Note every request from now on, once for each object."""
    noted: set[Request] = set()
    for client in (operator._client, operator._webhook_client):
        _note(client, noted)
    return noted


def _note(client: Client, noted: set[Request]) -> None:
    transport = client._transport
    send, open_ = transport.send, transport.open

    def add(call: Call) -> None:
        found = requests_of(call)
        noted.update(found)
        SEEN.update(found)

    async def noting_send(call: Call) -> bytes:
        add(call)
        return await send(call)

    async def noting_open(call: Call) -> aiohttp.ClientResponse:
        add(call)
        return await open_(call)

    transport.send = noting_send  # type: ignore[method-assign]
    transport.open = noting_open  # type: ignore[method-assign]


def requests_of(call: Call) -> list[Request]:
    """Read off a call what the authorizer is asked; of an apply also for the right to create."""
    request = request_of(call)
    if call.content_type != "application/apply-patch+yaml" or "/" in request.resource:
        return [request]
    return [request, replace(request, verb="create")]


def request_of(call: Call) -> Request:
    """Read group, resource and verb off a call."""
    parts = urlsplit(call.path)
    match parts.path.strip("/").split("/"):
        case ["api", _, *rest] if rest:
            group = ""
        case ["apis", group, _, *rest] if rest:
            pass
        case _:
            return Request("", "", call.method.lower(), path=call.path)
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces":
        _, namespace, *rest = rest
    plural, *below = rest
    resource = "/".join([plural, *below[1:]])
    return Request(group, resource, _verb(call.method, parse_qs(parts.query), named=bool(below)), namespace, call.path)


def _verb(method: str, query: dict[str, list[str]], *, named: bool) -> str:
    if method != "GET":
        return {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}[method]
    if "watch" in query:
        return "watch"
    return "get" if named else "list"


def uncovered(noted: Iterable[Request]) -> set[Request]:
    """Give the requests for which no right is documented."""
    return {
        one
        for one in noted
        if one.resource and not any(right.covers(one.group, one.resource, one.verb) for right in RIGHTS)
    }
