"""Builds HTTP calls from verbs, resources and objects."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

import orjson

from clusterstacks.model.errors import SpecError
from clusterstacks.net.kube.transport import JSON, Call

if TYPE_CHECKING:
    from clusterstacks.model.objects import Manifest
    from clusterstacks.net.kube.resources import Resource

METHODS = {
    "get": "GET",
    "list": "GET",
    "watch": "GET",
    "create": "POST",
    "apply": "PATCH",
    "patch": "PATCH",
    "delete": "DELETE",
}


class Body(NamedTuple):
    """Request body, not yet encoded, and its content type."""

    value: object
    type: str = JSON


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """Target of a call: an object, or all objects of a resource if ``name`` is empty."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, resource: Resource, manifest: Manifest, namespace: str = "", subresource: str = "") -> RequestTarget:
        """Read name and namespace from a manifest; ``namespace`` has precedence. Raises SpecError without a name."""
        metadata = manifest.get("metadata") or {}
        return cls(
            resource, namespace or metadata.get("namespace") or "", metadata.get("name") or "", subresource
        ).named()

    def named(self) -> RequestTarget:
        """Require a name: without it, the call would apply to all objects of the resource."""
        if not self.name:
            raise SpecError("NameMissing", f"{self.resource.describe(self.namespace)}: the object has no metadata.name")
        return self

    def call(
        self, verb: str, query: str = "", *, body: Body | None = None, accept: str = JSON, repeatable: bool = True
    ) -> Call:
        """Build the call; ``query`` is already escaped. Raises SpecError if the body cannot be encoded as JSON."""
        about = f"{verb} {self.resource.describe(self.namespace, self.name)}"
        path = self.resource.path(self.namespace, self.name, self.subresource)
        return Call(
            about=about,
            method=METHODS[verb],
            path=f"{path}?{query}" if query else path,
            body=_encoded(about, body) if body else b"",
            content_type=body.type if body else JSON,
            accept=accept,
            repeatable=repeatable,
            confidential=self.resource.confidential,
        )


def query(**parameters: str) -> str:
    """Encode query parameters; empty ones are omitted."""
    return urlencode({name: value for name, value in parameters.items() if value}, quote_via=quote)


@lru_cache(maxsize=64)
def apply_query(manager: str, *, force: bool, dry_run: bool) -> str:
    """Return the query of a server-side apply; cached, because one manager sends thousands of equal ones."""
    return query(fieldManager=manager, force="true" if force else "", dryRun="All" if dry_run else "")


def _encoded(about: str, body: Body) -> bytes:
    try:
        return orjson.dumps(body.value)
    except orjson.JSONEncodeError as error:
        raise SpecError("InvalidObject", f"{about}: cannot be encoded as JSON: {error}") from None
