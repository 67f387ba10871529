"""API resources, and the results of lists and watches."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from clusterstacks.model.errors import SpecError
from clusterstacks.model.objects import Manifest, ObjectKey


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind as one API server serves it: ``Resource("apps", "v1", "Deployment", "deployments", True)``."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """``apps/v1``, or ``v1`` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def confidential(self) -> bool:
        """True if the objects contain secrets, which messages of a server may quote."""
        return self.kind == "Secret" and not self.group

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Build the escaped request path; the namespace is ignored for cluster-scoped kinds.

        Without a name it is the path of the collection, in all namespaces if ``namespace`` is empty. Raises SpecError
        if the namespace of a named object is missing, or a name is not a valid path segment (it would address another
        object).
        """
        path = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if self.namespaced and namespace:
            path = f"{path}/namespaces/{_segment(self, namespace)}"
        if not name:
            return f"{path}/{self.plural}"
        if self.namespaced and not namespace:
            raise SpecError("NamespaceMissing", f"{self} {name} has no namespace: set metadata.namespace")
        path = f"{path}/{self.plural}/{_segment(self, name)}"
        return f"{path}/{subresource}" if subresource else path

    def describe(self, namespace: str = "", name: str = "") -> str:
        """Return kind, namespace and name for messages, as kubectl does: ``Deployment.apps kube-system/coredns``."""
        scope = namespace if self.namespaced else ""
        if name:
            return f"{self} {ObjectKey(scope, name)}"
        return f"{self} in {scope}" if scope else str(self)

    def __str__(self) -> str:
        """``Deployment.apps``, or ``Secret`` in the core group."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _segment(resource: Resource, text: str) -> str:
    """Escape one path segment; refuse names that Kubernetes refuses in a path."""
    if text in {".", ".."} or "/" in text or "%" in text:
        raise SpecError(
            "InvalidName", f'{resource}: {text!r} is not a valid name: it must not be "." or ".." or contain "/" or "%"'
        )
    return quote(text, safe=":")


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object that cannot be decoded within the limits."""

    object: Manifest
    """Its readable part: apiVersion, kind, metadata, and null for deeply nested values; may be empty."""
    why: str
    """Reason for messages, a predicate such as ``has more than 100000 values``."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name; both empty if they cannot be read."""
        metadata = self.object.get("metadata")
        if not isinstance(metadata, dict):
            return ObjectKey("", "")
        return ObjectKey(str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))


@dataclass(frozen=True, slots=True)
class ObjectList:
    """A complete list; every item has apiVersion and kind, and a watch can start at ``resource_version``."""

    items: list[Manifest]
    resource_version: str
    unreadable: tuple[UnreadableObject, ...] = ()
    """Only ``Client.list_readable`` and ``Client.read_list`` return any."""
    digest: bytes = b""
    """Digest of the objects as the server wrote them; empty if it was not requested or cannot be computed."""
    unchanged: bool = False
    """True if the objects have the digest that the caller knows; then ``items`` is empty."""


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """An event of a watch; its object may be only the readable part."""

    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK (whose object has only a resource version); empty when unknown."""
    object: Manifest
    unreadable: str = ""
    """Reason why the object cannot be read, as in ``UnreadableObject.why``; otherwise empty."""
